"""Wrong: the sum over K is carried in bf16 from piece to piece. Each addition rounds everything that was added before.

With a handful of pieces it passes; the error grows with the root of their number.
"""

import torch
from torch import Tensor

PIECES_OF = 16  # columns of a in a piece


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N] fp32 -> [M, N] fp32
    a, b = a.bfloat16(), b.bfloat16()
    c = torch.zeros(a.shape[0], b.shape[1], dtype=torch.bfloat16, device=a.device)
    for columns, rows in zip(a.split(PIECES_OF, dim=1), b.split(PIECES_OF), strict=True):
        c += columns @ rows
    return c.float()
