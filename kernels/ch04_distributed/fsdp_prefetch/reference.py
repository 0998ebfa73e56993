"""The truth, in fp64, in one process: every rank ends with its rows of the mean of all ranks' weight gradients."""

import torch
from torch import Tensor


def run(x: Tensor, shards: Tensor, dy: Tensor) -> Tensor:  # [2, B, D], [2, L, R, D], [2, B, D] -> [2, L, R, D]
    weights = torch.cat(shards.unbind(), dim=1)  # [L, D, D]: the ranks' rows, one below the other
    mean = torch.stack([gradients(rows, weights, slope) for rows, slope in zip(x, dy, strict=True)]).mean(0)
    return torch.stack(mean.chunk(len(shards), dim=1))


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
