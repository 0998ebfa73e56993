"""Capturing a whole call."""

from collections.abc import Callable

import torch


class Replay:
    """`work(*inputs)` as one CUDA graph. It reads these very inputs, and each replay fills the same output.

    A graph knows addresses and keeps alive only what it allocated itself. So `work` stays here: what it made before,
    such as the rotary table, would else be freed once the capture is over, and the memory be somebody else's.
    """

    def __init__(self, work: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
        self._work = work
        device = inputs[0].device
        # First calls make handles and workspaces and compile, which capture forbids; a side stream gets that over with.
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(3):
                work(*inputs)
        torch.cuda.current_stream(device).wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._y = work(*inputs)

    def __call__(self, *_: torch.Tensor) -> torch.Tensor:
        self._graph.replay()
        return self._y
