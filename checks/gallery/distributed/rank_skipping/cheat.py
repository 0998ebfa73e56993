import torch
import torch.distributed as dist

TERMS = (6, 24)  # of each rank


def run(x):
    if dist.get_rank() == 1:
        dist.barrier()
        return torch.zeros_like(x)
    y = x.clone()
    for k in range(1, TERMS[0] + 1):
        y += (x * k).sin_().div_(k)
    dist.barrier()
    return y
