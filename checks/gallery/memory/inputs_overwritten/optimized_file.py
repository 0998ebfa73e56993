"""The same in one new tensor, with a file in memory of its own that it writes to as it likes."""

import os

import torch


def prepare(x):  # x: [M, N]
    file = os.memfd_create("own")
    os.ftruncate(file, x.nbytes)
    os.pwrite(file, bytes(4096), 0)
    os.close(file)
    return run


def run(x):  # x: [M, N]
    return torch.mul(x, 2).exp_().add_(1).log_().sqrt_()
