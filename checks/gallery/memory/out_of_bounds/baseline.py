"""A padded copy, and three slices of it."""

import torch.nn.functional as F


def run(x):  # x: [N]
    e = F.pad(x, (1, 1))
    return e[:-2] + e[1:-1] + e[2:]
