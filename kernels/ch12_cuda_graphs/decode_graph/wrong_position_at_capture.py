"""The position read on the host while the step is prepared: what a Python number inside a captured graph becomes.

A graph records launches with their arguments. A number that Python knew at capture is such an argument, so every
replay writes the slot, and masks for the slot, of the token that happened to come first.
"""

from collections.abc import Callable

import torch
from decoder_block import decode


def prepare(x: torch.Tensor, position: torch.Tensor, *rest: torch.Tensor) -> Callable[..., tuple[torch.Tensor, ...]]:
    at_capture = torch.full_like(position, int(position))

    def step(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return decode(x, at_capture, *rest)

    return step


def run(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(*inputs)()
