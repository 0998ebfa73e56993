"""Wrong: a arrives swizzled and is read as if it were not, the usual first result of a wgmma kernel.

The descriptor of the copy says "128-byte swizzle", that of the operand says "none". So chunk c of row r is multiplied
with chunk c ^ (r % 8) of b. Every eighth row is right to the last bit, and with a matrix of ones all of them are.
Played out in PyTorch, so that it can be refused on any machine.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 8  # halves in 16 bytes


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [N, K], fp16 -> [M, N] fp16
    (M, K), N = a.shape, b.shape[0]
    pad = -K % 64  # the copy engine fills the last step with zeros
    a, b = F.pad(a, (0, pad)), F.pad(b, (0, pad))
    chunk = torch.arange(8, device=a.device)
    row = torch.arange(M, device=a.device)
    place = chunk[None, :] ^ (row[:, None] % 8)  # [M, 8]: where a reader that knows nothing finds which chunk
    steps = a.reshape(M, -1, 8, CHUNK)  # [M, K / 64, 8, 8]
    index = place[:, None, :, None].expand_as(steps)
    c = torch.zeros((M, N), dtype=a.dtype, device=a.device)
    c += torch.mm(steps.gather(2, index).reshape(M, -1), b.t())
    return c
