"""Gather, then multiply: no row is multiplied before the last one has arrived."""

import torch
import torch.distributed as dist
from torch import Tensor


def run(x: Tensor, weight: Tensor) -> Tensor:  # this rank's [M, K], [K, N] -> [ranks*M, N]
    rows = x.new_empty(dist.get_world_size() * x.shape[0], x.shape[1])
    dist.all_gather_into_tensor(rows, x)
    return torch.mm(rows, weight)
