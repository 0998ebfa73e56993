"""Eager PyTorch: a matrix of random numbers goes to memory and back. Reading the seed waits for the device."""

import torch
from torch import Tensor


def run(x: Tensor, seed: Tensor, keep_percent: Tensor) -> Tensor:  # x [M, N], seed [1], keep_percent [1] -> [M, N]
    keep = int(keep_percent) / 100
    generator = torch.Generator(x.device).manual_seed(int(seed))
    kept = torch.rand(x.shape, generator=generator, device=x.device) < keep
    return torch.where(kept, x / keep, 0.0)
