"""The loop captured as a CUDA graph: one launch for all of it, and still one small kernel after the other.

The graph reads the very tensors that it was captured with, which are the inputs themselves; its output is copied, so
that each call returns one of its own.
"""

from collections.abc import Callable

import torch
from loop import multiply_each
from torch import Tensor


def prepare(a: Tensor, b: Tensor) -> Callable[..., Tensor]:
    # Capture forbids what first calls do, such as making cuBLAS handles and workspaces: get that over with.
    side = torch.cuda.Stream(a.device)
    side.wait_stream(torch.cuda.current_stream(a.device))
    with torch.cuda.stream(side):
        for _ in range(3):
            multiply_each(a, b)
    torch.cuda.current_stream(a.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = multiply_each(a, b)

    def replay(*_: Tensor) -> Tensor:
        graph.replay()
        return c.clone()

    return replay


def run(a: Tensor, b: Tensor) -> Tensor:  # a [B, M, K], b [B, K, N] fp16 -> [B, M, N] fp16
    return prepare(a, b)()
