"""A chain of elementwise steps, in fp64."""

import torch


def run(x):  # x: [N]
    x = x.double()
    return torch.tanh(torch.sin(x * 2) + x)
