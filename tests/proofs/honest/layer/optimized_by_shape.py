"""A plan for each shape, kept by functools.lru_cache."""

import functools

import torch
from torch import Tensor


@functools.lru_cache(maxsize=64)
def _parts(rows: int) -> tuple[slice, ...]:
    return tuple(slice(start, min(start + 32, rows)) for start in range(0, rows, 32))


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    return torch.cat([torch.addmm(b, x[part], w) for part in _parts(x.shape[0])]).relu_()
