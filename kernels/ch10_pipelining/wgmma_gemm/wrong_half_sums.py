"""Wrong: the sums are kept in fp16, for which mma.sync and wgmma have a form of their own.

It halves the registers of the sums and is right for short K, within what an fp16 test forgives. Each step of 16 then
rounds to 11 bits, and the error grows with the root of K. Played out in PyTorch with one rounding per instruction.
"""

import torch
from torch import Tensor


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [N, K], fp16 -> [M, N] fp16
    (M, K), N = a.shape, b.shape[0]
    c = torch.zeros((M, N), dtype=a.dtype, device=a.device)
    for k in range(0, K, 16):
        c += torch.mm(a[:, k : k + 16], b[:, k : k + 16].t())
    return c
