"""bf16 on the link: scaled and narrowed in one pass, summed over the ranks, widened."""

import torch
import torch.distributed as dist
from torch import Tensor


def run(grads: Tensor) -> Tensor:  # this rank's [N] -> the mean over all ranks, in place
    narrow = torch.empty_like(grads, dtype=torch.bfloat16)
    torch.mul(grads, 1 / dist.get_world_size(), out=narrow)
    dist.all_reduce(narrow)
    return grads.copy_(narrow)
