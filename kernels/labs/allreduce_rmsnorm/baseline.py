"""All-reduce, add, norm: three calls for each layer, as a model's code says it."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import rms_norm

EPS = 1e-5


def run(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:  # this rank's [L, T, D], ..., [L, D]
    hidden = torch.empty_like(x)
    rows = []
    for layer in range(len(x)):
        dist.all_reduce(x[layer])
        torch.add(x[layer], residual[layer], out=hidden[layer])
        rows.append(rms_norm(hidden[layer], x.shape[-1:], weight[layer], EPS))
    return (torch.stack(rows) if len(rows) > 1 else rows[0][None]), hidden
