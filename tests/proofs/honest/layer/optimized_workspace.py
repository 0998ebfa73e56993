"""A workspace for each shape that lasts from call to call, and an output of its own for each call."""

import torch
from torch import Tensor

_spaces: dict[tuple[int, int], Tensor] = {}


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    shape = (x.shape[0], w.shape[1])
    if shape not in _spaces:
        _spaces[shape] = x.new_empty(shape)
    torch.addmm(b, x, w, out=_spaces[shape])
    return torch.relu(_spaces[shape])
