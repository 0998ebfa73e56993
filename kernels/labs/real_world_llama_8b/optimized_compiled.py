"""torch.compile of the eager layers: the compiler fuses what stands between the matrix products."""

from collections.abc import Callable

import torch
from llama import eager


def prepare(*inputs: torch.Tensor) -> Callable[..., torch.Tensor]:
    compiled = torch.compile(eager(*inputs), fullgraph=True, dynamic=False)
    compiled(*inputs)  # compiles for this shape, before the clock starts
    return compiled


def run(*inputs: torch.Tensor) -> torch.Tensor:  # x [B, S, D], then the weights -> [B, S, D]
    return prepare(*inputs)(*inputs)
