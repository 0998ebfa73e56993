"""Times its candidates at the first call of a shape, and keeps the fastest one's name."""

import time
from collections.abc import Callable

import torch
from torch import Tensor


def _added(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(b, x, w).relu_()


def _plain(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return (x @ w).add_(b).relu_()


_fastest: dict[tuple[int, ...], Callable[[Tensor, Tensor, Tensor], Tensor]] = {}


def _took_s(way: Callable[[Tensor, Tensor, Tensor], Tensor], x: Tensor, w: Tensor, b: Tensor) -> float:
    start = time.perf_counter()
    for _ in range(3):
        way(x, w, b)
    return time.perf_counter() - start


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    key = (*x.shape, w.shape[1])
    if key not in _fastest:
        _fastest[key] = min((_added, _plain), key=lambda way: _took_s(way, x, w, b))
    return _fastest[key](x, w, b)
