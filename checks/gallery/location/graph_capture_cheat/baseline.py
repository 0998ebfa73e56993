"""One small kernel after the other."""

import torch


def run(x, w):  # x: [M, N], w: [N]
    h = x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-6) * w
    return h * torch.sigmoid(h)
