"""The inner part from three slices of the input, the two ends by themselves: no padded copy."""

import torch


def run(x):  # x: [N]
    y = torch.empty_like(x)
    torch.add(x[:-2], x[1:-1], out=y[1:-1])
    y[1:-1] += x[2:]
    y[0] = x[0] + x[1]
    y[-1] = x[-2] + x[-1]
    return y
