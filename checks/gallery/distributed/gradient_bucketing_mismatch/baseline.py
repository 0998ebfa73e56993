import torch
import torch.distributed as dist

RATE = 1e-3
BUCKETS = 8


def run(w, g):
    total = g.clone()
    for bucket in total.chunk(BUCKETS):
        dist.all_reduce(bucket)
    return torch.sub(w, total, alpha=RATE / dist.get_world_size())
