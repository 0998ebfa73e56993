"""The product, and how many rows of x changed since the last call."""

from collections import deque

from torch import Tensor

_last: dict[tuple[int, ...], Tensor] = {}
_changed: deque[Tensor] = deque(maxlen=8)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    some = x[:, ::64]
    if x.shape in _last:
        _changed.append((some != _last[x.shape]).any(1).sum())
    _last[x.shape] = some.clone()
    return x @ w
