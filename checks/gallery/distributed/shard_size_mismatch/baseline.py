import torch
import torch.distributed as dist

SMALL = 2e-3


def run(shard, x):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    whole = torch.cat(parts)
    return x * (1 + SMALL * whole)
