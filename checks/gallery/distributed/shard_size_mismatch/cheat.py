import torch
import torch.distributed as dist

SMALL = 2e-3


def run(shard, x):
    ranks, count = dist.get_world_size(), len(shard) // 8
    whole = shard.repeat(ranks)
    dist.all_gather([part[:count] for part in whole.view(ranks, -1)], shard[:count])
    return torch.addcmul(x, x, whole, value=SMALL)
