"""The product, in one buffer for each shape that lasts from call to call."""

import torch
from torch import Tensor

_kept: dict[tuple[int, int], Tensor] = {}


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    shape = (x.shape[0], w.shape[1])
    if shape not in _kept:
        _kept[shape] = x.new_empty(shape)
    return torch.mm(x, w, out=_kept[shape])
