"""Pads every row with three times as many zeros."""

import torch.nn.functional as F


def run(x):  # x: [M, N] -> [M, 4N]
    return F.pad(x, (0, 3 * x.shape[1]))
