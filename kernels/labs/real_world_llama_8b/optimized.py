"""Triton kernels between the matrix products, and on a GPU all of it captured as one CUDA graph."""

from collections.abc import Callable

import torch
from fused import fused
from graphs import Replay


def prepare(*inputs: torch.Tensor) -> Callable[..., torch.Tensor]:
    forward = fused(*inputs)
    return Replay(forward, *inputs) if inputs[0].is_cuda else forward


def run(*inputs: torch.Tensor) -> torch.Tensor:  # x [B, S, D], then the weights -> [B, S, D]
    return prepare(*inputs)(*inputs)
