import torch
import torch.distributed as dist

SMALL = 2e-3


def run(shard, x):
    whole = torch.empty_like(x)
    dist.all_gather(list(whole.view(dist.get_world_size(), -1)), shard)
    return torch.addcmul(x, x, whole, value=SMALL)
