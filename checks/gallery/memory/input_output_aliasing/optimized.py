"""Into a buffer that is kept and rewritten."""

import torch

_buffers = {}


def run(x):  # x: [M, N]
    key = tuple(x.shape), x.device
    if key not in _buffers:
        _buffers[key] = torch.empty_like(x)
    return torch.clamp(x, -8, 8, out=_buffers[key])
