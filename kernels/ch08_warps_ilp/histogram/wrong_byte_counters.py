"""Wrong: private counters of one byte, a set for each chunk of 8192 values, so that four times as many fit.

Uniform values come 32 times in a chunk, give or take 6, and 255 is forty standard deviations away: no test on random
bytes ever sees a counter run over. A picture with a black margin does at once.
"""

import torch
from torch import Tensor

CHUNK = 8192


def run(x: Tensor) -> Tensor:  # [N] uint8 -> [256] int64
    whole = x.numel() // CHUNK * CHUNK
    chunks = x[:whole].view(-1, CHUNK)
    private = torch.zeros(len(chunks), 256, dtype=torch.uint8, device=x.device)
    private.scatter_add_(1, chunks.long(), torch.ones_like(chunks))
    return private.sum(dim=0, dtype=torch.int64) + torch.bincount(x[whole:], minlength=256)
