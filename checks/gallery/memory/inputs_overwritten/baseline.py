"""New memory for every step."""

import torch


def run(x):  # x: [M, N]
    return torch.sqrt(torch.log(torch.exp(x * 2) + 1))
