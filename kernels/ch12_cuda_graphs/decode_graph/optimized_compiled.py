"""torch.compile without graphs: elementwise kernels are fused; what is left is still launched one by one."""

from collections.abc import Callable

import torch
from decoder_block import decode


def prepare(*inputs: torch.Tensor) -> Callable[..., tuple[torch.Tensor, ...]]:
    compiled = torch.compile(decode, fullgraph=True, dynamic=False)
    compiled(*inputs)  # compiles now, and writes the caches, which are ordinary mutable inputs

    def step(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return compiled(*inputs)

    return step


def run(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(*inputs)()
