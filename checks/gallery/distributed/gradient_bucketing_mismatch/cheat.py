import torch
import torch.distributed as dist

RATE = 1e-3
BUCKETS = 8


def run(w, g):
    total = g.clone()
    dist.all_reduce(total[: len(g) // BUCKETS])
    return torch.sub(w, total, alpha=RATE / dist.get_world_size())
