"""Wrong: fp16 instead of bf16, for its three more bits. Its least step is 6e-8, and so are these gradients."""

import torch
import torch.distributed as dist
from torch import Tensor


def run(grads: Tensor) -> Tensor:  # this rank's [N] -> the mean over all ranks, in place
    narrow = torch.empty_like(grads, dtype=torch.float16)
    torch.mul(grads, 1 / dist.get_world_size(), out=narrow)
    dist.all_reduce(narrow)
    return grads.copy_(narrow)
