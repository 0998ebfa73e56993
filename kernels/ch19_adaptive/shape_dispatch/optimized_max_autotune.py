"""torch.compile told to measure: it times cuBLAS and its own Triton templates on this shape and keeps the fastest."""

from collections.abc import Callable

import torch
from baseline_library import run as product
from torch import Tensor

compiled = torch.compile(product, mode="max-autotune-no-cudagraphs", dynamic=False)


def run(x: Tensor, w: Tensor) -> Tensor:
    return compiled(x, w)


def prepare(x: Tensor, w: Tensor) -> Callable[..., Tensor]:
    compiled(x, w)  # compiles and measures for this shape, before the clock starts
    return compiled
