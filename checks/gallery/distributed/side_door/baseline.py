import torch.distributed as dist


def run(g):
    total = g.clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()
