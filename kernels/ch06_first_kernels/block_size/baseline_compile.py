"""The same line through torch.compile, which makes a Triton kernel of it."""

from collections.abc import Callable

import baseline_torch
import torch
from torch import Tensor


def prepare(x: Tensor, y: Tensor) -> Callable[..., Tensor]:
    compiled = torch.compile(baseline_torch.run, fullgraph=True, dynamic=False)
    compiled(x, y)  # compiles for this shape, before the clock starts
    return compiled


def run(x: Tensor, y: Tensor) -> Tensor:  # [N], [N] -> [N]
    return prepare(x, y)(x, y)
