import torch.distributed as dist


def run(x):
    y = x.clone()
    for k in range(1, 13):
        y += (x * k).sin() / k
    dist.barrier()
    return y
