"""Through the host: into page-locked memory that both processes see, wait for one another, and out of it again."""

from collections.abc import Callable

import torch
from shared import Staging
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    staging = Staging(x)

    def step(x: Tensor) -> Tensor:  # this rank's [N] -> the [N] of the rank before
        mine, theirs = staging.turn()
        mine.copy_(x, non_blocking=True)
        staging.meet()
        return torch.empty_like(x).copy_(theirs, non_blocking=True)

    return step


def run(x: Tensor) -> Tensor:
    return prepare(x)(x)
