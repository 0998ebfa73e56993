import torch.distributed as dist

RATE = 1e-3


def run(w, g):
    total = g.clone()
    dist.all_reduce(total)
    decayed = w * (1 - RATE)
    return decayed.sub_(total, alpha=RATE / dist.get_world_size())
