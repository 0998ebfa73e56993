"""The bias by way of pinned memory of the host in each call, not waited for."""

import torch
from torch import Tensor

_host: dict[int, Tensor] = {}


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    if b.shape[0] not in _host:
        _host[b.shape[0]] = torch.empty(b.shape, dtype=b.dtype, pin_memory=True)
    between = _host[b.shape[0]]
    between.copy_(b, non_blocking=True)
    return torch.addmm(between.to(b.device, non_blocking=True), x, w).relu_()
