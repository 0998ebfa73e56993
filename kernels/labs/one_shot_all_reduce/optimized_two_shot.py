"""Two shots by peer pointers: each rank adds up its part of the message, then all read all parts."""

from collections.abc import Callable

from exchange import by_two_shot
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    return by_two_shot(x)


def run(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
    return prepare(x)(x)
