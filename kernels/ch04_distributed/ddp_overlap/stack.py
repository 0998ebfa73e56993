"""The model that all rungs train: L square layers with a tanh behind each, the same weights on every rank."""

import torch
import torch.distributed as dist
from torch import Tensor, nn


def shared(weights: Tensor) -> Tensor:  # this rank's [L, D, D] -> rank 0's, as a trainer does once at its start
    own = weights.clone()
    dist.broadcast(own, 0)
    return own


class Stack(nn.Module):
    """The layers as parameters of their own."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.layers = nn.ParameterList(nn.Parameter(weight) for weight in weights.unbind())

    def forward(self, x: Tensor) -> Tensor:  # [B, D] -> [B, D]
        for weight in self.layers:
            x = torch.tanh(nn.functional.linear(x, weight))
        return x


def forward_and_backward(model: nn.Module, x: Tensor, dy: Tensor) -> None:
    with torch.enable_grad():
        model(x).backward(dy)
