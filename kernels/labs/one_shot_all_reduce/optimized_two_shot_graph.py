"""The two-shot kernels of all messages captured into one graph."""

from collections.abc import Callable

from exchange import by_two_shot
from graphs import replayed
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    return replayed(by_two_shot(x), x)


def run(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
    return prepare(x)(x)
