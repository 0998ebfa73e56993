"""One shot by peer pointers: each rank shows its message, and all read and add everybody's in one kernel."""

from collections.abc import Callable

from exchange import by_one_shot
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    return by_one_shot(x)


def run(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
    return prepare(x)(x)
