"""Whole windows as one view. Rows that do not fill a window stay zeros."""

import torch


def run(x):  # x: [M, N]
    M, N = x.shape
    whole = M // 8
    y = torch.zeros(((M + 7) // 8, N), dtype=x.dtype, device=x.device)
    if whole:
        torch.mean(x[: 8 * whole].view(whole, 8, N), dim=1, out=y[:whole])
    return y
