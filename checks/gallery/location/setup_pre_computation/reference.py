"""The rows in order, in fp64."""

import torch


def run(x):  # x: [M, N]
    return torch.sort(x.double(), dim=1).values
