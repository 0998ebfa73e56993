"""Wrong: writes into its own slot. Nothing crosses; over all ranks norm and mean are right, and it is the fastest."""

from collections.abc import Callable

from shared import Window
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    window = Window(x)

    def step(x: Tensor) -> Tensor:  # this rank's [N] -> [N]
        here, _ = window.turn()
        here.copy_(x)
        window.meet()
        return here

    return step


def run(x: Tensor) -> Tensor:
    return prepare(x)(x)
