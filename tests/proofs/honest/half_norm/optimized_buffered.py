"""By way of a buffer in single precision that lasts."""

import torch
from torch import Tensor

_wide: dict[tuple[int, ...], Tensor] = {}


def run(x: Tensor, g: Tensor) -> Tensor:  # x [M, N], g [N] -> [M, N]
    key = tuple(x.shape)
    if key not in _wide:
        _wide[key] = torch.empty(key, dtype=torch.float32, device=x.device)
    wide = _wide[key].copy_(x)
    scale = torch.rsqrt(torch.linalg.vector_norm(wide, dim=1, keepdim=True).square_().div_(key[1]).add_(1e-6))
    return wide.mul_(scale).mul_(g).to(torch.float16)
