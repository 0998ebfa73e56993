"""The encoder on a bucket's buffers, captured as a CUDA graph: one launch instead of some sixty."""

from collections.abc import Callable

import torch
from buckets import Call
from encoder import encode
from torch import Tensor


def capturing(weights: tuple[Tensor, ...], device: torch.device) -> Callable[[Tensor, Tensor], Call]:
    """What `bucketed` asks for each bucket. All graphs take their temporary tensors from one pool.

    That is safe as long as one graph runs at a time and its output is copied away before the next one does.
    """
    pool = torch.cuda.graph_pool_handle()

    def on_bucket(rows: Tensor, length: Tensor) -> Call:
        # Capture forbids what first calls do: making cuBLAS handles and workspaces, loading kernels lazily.
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(3):
                encode(rows, *weights, length)
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            output = encode(rows, *weights, length)

        def call() -> Tensor:
            graph.replay()
            return output

        return call

    return on_bucket
