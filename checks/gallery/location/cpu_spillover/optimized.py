"""The same through a buffer on the GPU that is kept."""

import torch

_buffers = {}


def run(x):  # x: [M, N] in page-locked host memory -> [M] on the GPU
    key = tuple(x.shape)
    if key not in _buffers:
        _buffers[key] = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    return torch.logsumexp(_buffers[key].copy_(x, non_blocking=True), dim=1)
