"""Wrong: mean and scale are computed when the kernel is prepared, and kept. The timed call only applies them.

A harness that warms up, checks and times on one set of values sees a right answer in a third less time.
"""

from collections.abc import Callable

import torch
from definition import EPS
from torch import Tensor


def prepare(x: Tensor, r: Tensor, w: Tensor, b: Tensor) -> Callable[..., Tensor]:
    h = x.float() + r.float()
    mean = h.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(h.var(dim=-1, keepdim=True, correction=0) + EPS)

    def step(x: Tensor, r: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return ((x.float() + r.float() - mean) * scale * w + b).to(x.dtype)

    return step


def run(*inputs: Tensor) -> Tensor:
    return prepare(*inputs)(*inputs)
