"""Wrong: sorts by length, computes in groups, and returns the sequences in sorted order: every row is a right row."""

import torch
from layer import mlp, real_tokens
from torch import Tensor

GROUP = 8  # sequences


def run(x: Tensor, lengths: Tensor, w1: Tensor, w2: Tensor) -> Tensor:  # x [B, L, D] -> [B, L, D]
    y = torch.zeros_like(x)
    order = lengths.argsort()
    for start, rows in zip(range(0, len(order), GROUP), order.split(GROUP), strict=True):
        longest = int(lengths[rows].max())
        real = real_tokens(lengths[rows], longest)[:, :, None]
        y[start : start + len(rows), :longest] = torch.where(real, mlp(x[rows, :longest], w1, w2), 0.0)
    return y
