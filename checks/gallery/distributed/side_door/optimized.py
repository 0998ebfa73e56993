import torch.distributed as dist


def run(g):
    mean = g / dist.get_world_size()
    dist.all_reduce(mean)
    return mean
