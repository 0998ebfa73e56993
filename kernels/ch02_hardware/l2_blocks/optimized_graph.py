"""The blocks' 258 launches as one CUDA graph: what is left of the blocks when launching is nearly free."""

from collections.abc import Callable

import optimized
import torch
from torch import Tensor


def prepare(x: Tensor) -> Callable[[Tensor], Tensor]:
    side = torch.cuda.Stream(x.device)
    side.wait_stream(torch.cuda.current_stream(x.device))
    with torch.cuda.stream(side):  # capturing wants a stream of its own, and kernels that are loaded already
        optimized.run(x)
    torch.cuda.current_stream(x.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = optimized.run(x)

    def step(_: Tensor) -> Tensor:
        graph.replay()
        return y

    return step


def run(x: Tensor) -> Tensor:  # [N] -> [N]
    return prepare(x)(x)
