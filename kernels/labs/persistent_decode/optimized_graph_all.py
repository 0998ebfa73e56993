"""The eager loop over all tokens captured as one CUDA graph: one launch by the host, 7 G nodes on the device."""

from collections.abc import Callable

import torch
from cell import decode
from graphs import captured


def prepare(*inputs: torch.Tensor) -> Callable[..., torch.Tensor]:
    graph, y = captured(lambda: decode(*inputs), inputs[0].device)

    def replay(*_: torch.Tensor) -> torch.Tensor:
        graph.replay()
        return y

    return replay


def run(*inputs: torch.Tensor) -> torch.Tensor:
    return prepare(*inputs)()
