"""The eager lines, unchanged, given to torch.compile."""

from collections.abc import Callable

import torch
from baseline import run as merge
from torch import Tensor

compiled = torch.compile(merge, dynamic=False)


def run(a: Tensor, b: Tensor, la: Tensor, lb: Tensor) -> tuple[Tensor, Tensor]:
    return compiled(a, b, la, lb)


def prepare(a: Tensor, b: Tensor, la: Tensor, lb: Tensor) -> Callable[..., tuple[Tensor, Tensor]]:
    compiled(a, b, la, lb)  # compiles for these shapes, before the clock starts
    return compiled
