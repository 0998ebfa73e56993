import torch
import torch.distributed as dist

RATE = 1e-3
BUCKETS = 2


def run(w, g):
    total = g.clone()
    for handle in [dist.all_reduce(bucket, async_op=True) for bucket in total.chunk(BUCKETS)]:
        handle.wait()
    return torch.sub(w, total, alpha=RATE / dist.get_world_size())
