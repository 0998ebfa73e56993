"""The input on the left, zeros on the right."""

import torch


def run(x):  # x: [M, N]
    return torch.cat((x.double(), torch.zeros(x.shape[0], 3 * x.shape[1], dtype=torch.float64, device=x.device)), dim=1)
