"""Outputs from a ring of four buffers."""

import itertools

import torch
from torch import Tensor

_rings: dict[tuple[int, int], "itertools.cycle[Tensor]"] = {}


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    shape = (x.shape[0], w.shape[1])
    if shape not in _rings:
        _rings[shape] = itertools.cycle([x.new_empty(shape) for _ in range(4)])
    return torch.addmm(b, x, w, out=next(_rings[shape])).relu_()
