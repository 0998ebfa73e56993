import torch
import torch.distributed as dist

RATE = 1e-3


def run(w, g):
    total = g.clone()
    dist.all_reduce(total)
    mean = total / dist.get_world_size()
    return torch.sub(w, mean, alpha=RATE)
