import torch.distributed as dist

RATE = 1e-3


def run(w, g):
    total = g.clone()
    handle = dist.all_reduce(total, async_op=True)
    decayed = w * (1 - RATE)
    handle.wait()
    return decayed.sub_(total, alpha=RATE / dist.get_world_size())
