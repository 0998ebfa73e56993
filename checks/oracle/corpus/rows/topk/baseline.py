"""The library's operator."""

import torch
from torch import Tensor


def run(x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:  # x [M, N], k [] -> [M, min(k, N)] twice
    values, indices = torch.topk(x, min(int(k), x.shape[1]), dim=-1)
    return values, indices
