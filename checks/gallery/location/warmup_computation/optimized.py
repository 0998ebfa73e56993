"""What the first call of a shape finds out is kept: buffers, and nothing that depends on values."""

import torch

_buffers = {}


def run(x):  # x: [M, N]
    key = tuple(x.shape), x.device
    if key not in _buffers:
        _buffers[key] = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int64, device=x.device)
    torch.sort(x, dim=1, out=_buffers[key])
    return _buffers[key][0]
