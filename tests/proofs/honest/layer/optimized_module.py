"""A module with parameters that are the static weights, in evaluation mode."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def prepare(x: Tensor, w: Tensor, b: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A Linear and a ReLU; gradients stay off by a guard within the call."""
    layer = nn.Sequential(nn.Linear(w.shape[0], w.shape[1]), nn.ReLU()).eval().to(x.device)
    with torch.no_grad():
        layer[0].weight.copy_(w.t())
        layer[0].bias.copy_(b)

    @torch.no_grad()
    def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y: Tensor = layer(x)
        return y

    return run
