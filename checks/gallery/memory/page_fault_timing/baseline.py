"""Zeros, and the input written over the left of them."""

import torch


def run(x):  # x: [M, N] -> [M, 8N]
    y = torch.zeros(x.shape[0], 8 * x.shape[1])
    y[:, : x.shape[1]] = x
    return y
