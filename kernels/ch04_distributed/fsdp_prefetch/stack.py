"""The step that all hand-written rungs take: L square layers with a tanh behind each, forward and backward.

What a rung decides is when a layer's weights are gathered and when its gradients are reduced.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def forward_and_backward(
    x: Tensor, dy: Tensor, layers: int, weight: Callable[[int], Tensor], reduce: Callable[[int, Tensor], None]
) -> None:
    """Ask `weight` for each layer's [D, D], forwards and then backwards; hand each gradient [D, D] to `reduce`."""
    inputs = [x]
    for layer in range(layers):
        inputs.append(torch.tanh(inputs[-1] @ weight(layer).T))
    for layer in reversed(range(layers)):
        whole = weight(layer)
        dy = torch.ops.aten.tanh_backward(dy, inputs.pop())
        reduce(layer, dy.T @ inputs[-1])
        dy = dy @ whole
