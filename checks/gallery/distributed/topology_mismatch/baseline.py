import torch
import torch.distributed as dist

RATE = 1e-3


def run(kept, seen):
    total = seen.clone()
    dist.all_reduce(total)
    mean = total / dist.get_world_size()
    return torch.lerp(kept, mean, RATE)
