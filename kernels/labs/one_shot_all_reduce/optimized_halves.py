"""One shot with two halves of the block in turn: the second barrier is not needed."""

from collections.abc import Callable

from exchange import by_halves
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    return by_halves(x)


def run(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
    return prepare(x)(x)
