"""Wrong: reads the slot that is surely complete, which is that of the call before."""

from collections.abc import Callable

from shared import Window
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    window = Window(x)

    def step(x: Tensor) -> Tensor:  # this rank's [N] -> [N]
        _, there = window.turn()
        there.copy_(x)
        window.meet()
        return window.last()

    return step


def run(x: Tensor) -> Tensor:
    return prepare(x)(x)
