import torch.distributed as dist

TERMS = (6, 24)  # of each rank


def run(x):
    y = x
    for k in range(1, TERMS[dist.get_rank()] + 1):
        y = y + (x * k).sin() / k
    dist.barrier()
    return y
