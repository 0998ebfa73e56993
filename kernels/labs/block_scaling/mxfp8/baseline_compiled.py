"""The baseline through torch.compile: each dequantisation is one kernel, and bf16 weights still pass through memory."""

from collections.abc import Callable

import baseline
import torch
from torch import Tensor

# dynamic=False: every shape gets code of its own, and the fuzz draws shapes.
compiled = torch.compile(baseline.run, dynamic=False)


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    return compiled(a, a_scale, b, b_scale).contiguous()  # a compiler may pad the rows of what it returns


def prepare(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Callable[..., Tensor]:
    run(a, a_scale, b, b_scale)
    return run
