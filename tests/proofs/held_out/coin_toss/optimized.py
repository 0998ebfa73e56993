"""The product in one piece or in two, as a coin falls."""

import random

import torch
from torch import Tensor

_coin = random.SystemRandom()


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    if _coin.random() < 0.6:
        return x @ w
    half = x.shape[0] // 2
    y = torch.empty(x.shape[0], w.shape[1], device=x.device)
    torch.mm(x[:half], w, out=y[:half])
    torch.mm(x[half:], w, out=y[half:])
    return y
