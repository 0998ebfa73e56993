"""A copy of x in rows that are padded, in memory that lasts."""

import torch
from torch import Tensor

_padded: dict[tuple[int, ...], Tensor] = {}


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    if tuple(x.shape) not in _padded:
        _padded[tuple(x.shape)] = x.new_zeros(x.shape[0], x.shape[1] + 16)
    own = _padded[tuple(x.shape)][:, : x.shape[1]]
    return torch.addmm(b, own.copy_(x), w).relu_()
