"""A graph for each shape, captured at its first call."""

import torch
from torch import Tensor

_captured: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]] = {}


def _capture(*inputs: Tensor) -> tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]:
    own = [tensor.clone() for tensor in inputs]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.addmm(own[2], own[0], own[1]).relu_()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.addmm(own[2], own[0], own[1]).relu_()
    return graph, own, y


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    if torch.cuda.is_current_stream_capturing():
        return torch.addmm(b, x, w).relu_()
    key = (*x.shape, w.shape[1])
    if key not in _captured:
        _captured[key] = _capture(x, w, b)
    graph, own, y = _captured[key]
    torch._foreach_copy_(own, [x, w, b])
    graph.replay()
    return y.clone()
