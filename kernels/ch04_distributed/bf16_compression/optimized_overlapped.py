"""bf16 in four parts: one is narrowed while another is on the link and a third is widened."""

import torch
import torch.distributed as dist
from torch import Tensor

PARTS = 4


def run(grads: Tensor) -> Tensor:  # this rank's [N] -> the mean over all ranks, in place
    parts = grads.chunk(PARTS)
    narrow = torch.empty_like(grads, dtype=torch.bfloat16).chunk(PARTS)
    handles = []
    for wide, half in zip(parts, narrow, strict=True):
        torch.mul(wide, 1 / dist.get_world_size(), out=half)
        handles.append(dist.all_reduce(half, async_op=True))
    for wide, half, handle in zip(parts, narrow, handles, strict=True):
        handle.wait()  # on a GPU the stream waits, the host goes on
        wide.copy_(half)
    return grads
