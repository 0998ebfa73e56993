"""A graph captured in prepare(): inputs copied in, output copied out."""

from collections.abc import Callable

import torch
from torch import Tensor


def prepare(x: Tensor, w: Tensor, b: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Capture the layer, with its static weights as they lie and an x of its own."""
    own = x.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.addmm(b, own, w).relu_()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.addmm(b, own, w).relu_()

    def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        own.copy_(x)
        graph.replay()
        return y.clone()

    return run
