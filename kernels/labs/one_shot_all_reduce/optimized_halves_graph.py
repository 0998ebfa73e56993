"""The kernels with one barrier each, captured into one graph."""

from collections.abc import Callable

from exchange import by_halves
from graphs import replayed
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    return replayed(by_halves(x), x)


def run(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
    return prepare(x)(x)
