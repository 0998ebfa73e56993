"""The sort itself is traced, and runs in every call."""

import torch


def _sort(x):
    return torch.sort(x, dim=1)[0]


def prepare(x):  # x: [M, N]
    return torch.jit.trace(_sort, (x,), check_trace=False)


def run(x):
    return prepare(x)(x)
