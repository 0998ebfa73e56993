"""Capturing, as the rungs that replay a graph do it."""

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")


def captured(work: Callable[[], Result], device: torch.device) -> tuple[torch.cuda.CUDAGraph, Result]:
    """A graph of the launches of `work`, and what it returned: tensors that each replay fills again."""
    # First calls make handles and workspaces and compile, which capture forbids; a side stream gets that over with.
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result
