"""Wrong: one library operator for the large tensors, y = a + w (b - a) with w in fp16. Fast, and short of digits.

With two halves there is one free weight, the sigmoid of lb - la. torch.lerp wants it in the dtype of a and b, so it is
off by up to 2^-12, and y by as much of |b - a|: where a and b cancel, several times the one rounding that fp16 needs.
"""

import torch
from torch import Tensor


def run(a: Tensor, b: Tensor, la: Tensor, lb: Tensor) -> tuple[Tensor, Tensor]:
    lse = torch.logaddexp(la, lb)
    none = lse == -torch.inf
    w = torch.sigmoid((lb - la).masked_fill(none, 0.0)).to(a.dtype)
    y = torch.lerp(a, b, w[..., None])
    return y.masked_fill_(none[..., None], 0.0), lse
