"""One buffer for all steps, made once; the allocator is asked to be what it is."""

import torch

torch.cuda.memory.caching_allocator_enable(True)
_buffers = {}


def run(x):  # x: [N]
    key = tuple(x.shape)
    if key not in _buffers:
        _buffers[key] = torch.empty_like(x)
    y = torch.mul(x, 2, out=_buffers[key])
    return y.sin_().add_(x).tanh_()
