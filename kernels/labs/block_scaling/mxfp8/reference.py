"""The truth in fp64: every value times two to its group's exponent, then an ordinary matrix product."""

import torch
from torch import Tensor


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a [M, K], a_scale uint8 [M, K/32], b [N, K], b_scale uint8 [N, K/32] -> [M, N]
    rows, columns = (torch.exp2(scale.to(a.dtype) - 127).repeat_interleave(32, dim=1) for scale in (a_scale, b_scale))
    return (a * rows) @ (b * columns).t()
