"""No sort: 20 times ask how much weight lies above a threshold, and halve the interval; plain PyTorch, whole batch."""

import torch
from definition import BITS, P
from torch import Tensor


def run(weights: Tensor) -> Tensor:  # [B, V] int32 -> [B, V] bool
    target = P * weights.sum(dim=-1, keepdim=True)
    low = torch.zeros_like(weights[:, :1])  # the answer lies in low .. low + 2**bit - 1
    for bit in reversed(range(BITS)):
        middle = low + (1 << bit)
        above = weights.masked_fill(weights < middle, 0).sum(dim=-1, keepdim=True)  # strictly above middle - 1
        low = torch.where(100 * above < target, low, middle)
    return weights >= low
