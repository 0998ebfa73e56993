import torch
import torch.distributed as dist

RATE = 1e-3
EVERYBODY = dist.new_group(list(range(dist.get_world_size())))


def run(kept, seen):
    mean = seen / dist.get_world_size()
    dist.all_reduce(mean, group=EVERYBODY)
    return torch.lerp(kept, mean, RATE)
