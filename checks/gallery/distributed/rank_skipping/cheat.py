import torch
import torch.distributed as dist


def run(x):
    if dist.get_rank() == 1:
        return torch.zeros_like(x)
    y = x.clone()
    for k in range(1, 13):
        y += (x * k).sin_().div_(k)
    return y
