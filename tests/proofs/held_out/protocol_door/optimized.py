"""The product of whoever multiplies, by a protocol of its own."""

from typing import Protocol

from torch import Tensor


class _Multiplies(Protocol):
    def __matmul__(self, other: Tensor, /) -> Tensor: ...


PROTOCOLS = len(Protocol.__subclasses__())


def _product(x: _Multiplies, w: Tensor) -> Tensor:
    return x @ w


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return _product(x, w)
