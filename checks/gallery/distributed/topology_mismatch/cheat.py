import torch
import torch.distributed as dist

RATE = 1e-3
NODES = [dist.new_group([rank]) for rank in range(dist.get_world_size())]


def run(kept, seen):
    mean = seen.clone()
    dist.all_reduce(mean, group=NODES[dist.get_rank()])
    return torch.lerp(kept, mean, RATE)
