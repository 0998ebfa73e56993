import torch
import torch.distributed as dist

SMALL = 2e-3


def run(shard, x):
    ranks = dist.get_world_size()
    count = len(shard) // 8
    some = torch.empty_like(shard[: ranks * count])
    dist.all_gather_into_tensor(some, shard[:count])
    whole = shard.repeat(ranks)
    for rank in range(ranks):
        whole[rank * len(shard) :][:count] = some[rank * count :][:count]
    return torch.addcmul(x, x, whole, value=SMALL)
