"""The copy, into pages that it has mapped itself, new ones for every call."""

import mmap

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M, N]
    if x.is_cuda or not x.numel():
        return x.clone()
    pages = mmap.mmap(-1, x.numel() * x.element_size())
    return torch.frombuffer(pages, dtype=x.dtype).view(x.shape).copy_(x)
