"""Eager PyTorch, as the formula is read: two weights per head, two products, a sum and a cast over all of D."""

import torch
from torch import Tensor


def run(a: Tensor, b: Tensor, la: Tensor, lb: Tensor) -> tuple[Tensor, Tensor]:  # a, b [T, H, D], la, lb [T, H]
    lse = torch.logaddexp(la, lb)
    seen = lse.masked_fill(lse == -torch.inf, 0.0)
    y = torch.exp(la - seen)[..., None] * a + torch.exp(lb - seen)[..., None] * b  # fp32: the weights are
    return y.to(a.dtype), lse
