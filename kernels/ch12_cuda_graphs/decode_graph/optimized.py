"""The block captured once as a CUDA graph: one launch per token instead of some thirty.

The graph reads and writes the very tensors that it was captured with. Those are the inputs themselves, which the
caller refills in place, so that a replay needs no copies in or out.
"""

from collections.abc import Callable

import torch
from decoder_block import decode


def prepare(*inputs: torch.Tensor) -> Callable[..., tuple[torch.Tensor, ...]]:
    device = inputs[0].device
    # Capture forbids what first calls do: making cuBLAS handles and workspaces, loading kernels lazily. A few calls
    # on a side stream get that over with; the caches that they write are ordinary mutable inputs.
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):
            decode(*inputs)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = decode(*inputs)

    def step(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        graph.replay()
        return outputs

    return step


def run(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(*inputs)()
