"""Every row with seven times as many zeros behind it."""

import torch


def run(x):  # x: [M, N]
    return torch.cat((x.double(), torch.zeros(x.shape[0], 7 * x.shape[1], dtype=torch.float64)), dim=1)
