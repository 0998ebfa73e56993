"""One half after the other, into one output."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [B, D], w [D, C] fp32 -> [B, C]
    y = x.new_empty((x.shape[0], w.shape[1]))
    half = (x.shape[0] + 1) // 2
    for start in (0, half):
        torch.softmax(x[start : start + half] @ w, 1, out=y[start : start + half])
    return y
