"""Wrong: takes the norm of the rows that are here, under the all-reduce, and applies it to the sum."""

import torch
import torch.distributed as dist
from torch import Tensor

EPS = 1e-5


def run(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:  # this rank's [L, T, D], ..., [L, D]
    own = (x + residual).float()
    scale = torch.rsqrt(own.square().mean(-1, keepdim=True) + EPS)
    dist.all_reduce(x)
    hidden = x + residual
    return (hidden * scale).to(x.dtype) * weight[:, None], hidden
