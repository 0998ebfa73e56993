"""The layers in ordinary operators, four launches each, and how a chain is captured."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

EPS = 1e-5  # under the root of the norm


def chain(x: torch.Tensor, scale: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """All layers: x [B, D], scale and gate [LAYERS, D] -> [B, D]."""
    for s, g in zip(scale.unbind(), gate.unbind(), strict=True):
        n = F.rms_norm(x, (x.shape[1],), s, EPS)
        x = x + F.silu(n) * g
    return x


def captured(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Callable[..., torch.Tensor]:
    """`function` as a CUDA graph that reads these very inputs; each replay writes the same output."""
    device = inputs[0].device
    # What first calls do, compiling and loading kernels, is forbidden while capturing.
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(2):
            function(*inputs)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = function(*inputs)

    def replay(*_: torch.Tensor) -> torch.Tensor:
        graph.replay()
        return output

    return replay
