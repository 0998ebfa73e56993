import torch
import torch.distributed as dist

SMALL = 2e-3


def run(shard, x):
    whole = torch.empty_like(x)
    dist.all_gather_into_tensor(whole, shard)
    return torch.addcmul(x, x, whole, value=SMALL)
