import torch
import torch.distributed as dist


def stage(x):
    y = x
    for k in range(1, 13):
        y = y + (x * k).sin() / k
    return y


def run(x):
    if dist.get_rank() == 0:
        y = stage(x)
        dist.send(y, 1)
    else:
        arrived = torch.empty_like(x)
        dist.recv(arrived, 0)
        y = stage(arrived) + x
    dist.barrier()
    return y
