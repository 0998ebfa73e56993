"""Autograd."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # x [M, K], w [K, N] fp32 -> [], [M, K], [K, N]
    with torch.enable_grad():
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        loss = (x @ w).square().mean()
        dx, dw = torch.autograd.grad(loss, (x, w))
    return loss.detach(), dx, dw
