"""Wrong: adds the residual before the all-reduce, to save a pass. It is summed as often as there are ranks."""

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import rms_norm

EPS = 1e-5


def run(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:  # this rank's [L, T, D], ..., [L, D]
    hidden = x + residual
    dist.all_reduce(hidden)
    return rms_norm(hidden, x.shape[-1:], None, EPS) * weight[:, None], hidden
