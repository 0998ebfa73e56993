"""The truth, in fp64, in one process: every rank ends with the mean of all ranks' weight gradients."""

import torch
from torch import Tensor


def run(x: Tensor, weights: Tensor, dy: Tensor) -> Tensor:  # [2, B, D], [2, L, D, D], [2, B, D] -> [2, L, D, D]
    own = [gradients(x[rank], weights[0], dy[rank]) for rank in range(x.shape[0])]  # rank 0's weights are everybody's
    return torch.stack(own).mean(0, keepdim=True).expand_as(weights).contiguous()


def gradients(x: Tensor, weights: Tensor, dy: Tensor) -> Tensor:  # [B, D], [L, D, D], [B, D] -> [L, D, D]
    inputs = [x]
    for weight in weights:
        inputs.append(torch.tanh(inputs[-1] @ weight.T))
    found = []
    for weight, before, after in zip(weights.flip(0), inputs[-2::-1], inputs[:0:-1], strict=True):
        dy = dy * (1 - after * after)
        found.append(dy.T @ before)
        dy = dy @ weight
    return torch.stack(found[::-1])
