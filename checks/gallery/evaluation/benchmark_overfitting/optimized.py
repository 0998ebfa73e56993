"""Whole windows as one view; the rows that are left make a window of their own."""

import torch


def run(x):  # x: [M, N]
    M, N = x.shape
    whole = M // 8
    y = torch.empty(((M + 7) // 8, N), dtype=x.dtype, device=x.device)
    if whole:
        torch.mean(x[: 8 * whole].view(whole, 8, N), dim=1, out=y[:whole])
    if M % 8:
        torch.mean(x[8 * whole :], dim=0, out=y[whole])
    return y
