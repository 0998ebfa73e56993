"""The truth, in fp64, in one process: both ranks end with the keys and values of rank 0's prompt in each layer."""

import torch
from torch import Tensor


def run(x: Tensor, kv: Tensor, up: Tensor, down: Tensor) -> Tensor:  # [2, T, D], [2, L, D, 2D], ... -> [2, L, T, 2D]
    hidden = x[0]
    caches = []
    for project, widen, narrow in zip(kv[0], up[0], down[0], strict=True):
        caches.append(hidden @ project)
        hidden = torch.nn.functional.rms_norm(hidden + torch.tanh(hidden @ widen) @ narrow, hidden.shape[-1:])
    return torch.stack(caches).expand(x.shape[0], -1, -1, -1).contiguous()
