"""One copy into the next GPU's memory, by a copy engine, and a wait on the stream. The host's memory is not in it."""

from collections.abc import Callable

from shared import Window
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    window = Window(x)

    def step(x: Tensor) -> Tensor:  # this rank's [N] -> the [N] of the rank before
        here, there = window.turn()
        there.copy_(x)
        window.meet()
        return here

    return step


def run(x: Tensor) -> Tensor:
    return prepare(x)(x)
