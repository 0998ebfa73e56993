"""Means over windows of eight rows; the last window may be short."""

import torch


def run(x):  # x: [M, N]
    return torch.stack([window.double().mean(0) for window in x.split(8)])
