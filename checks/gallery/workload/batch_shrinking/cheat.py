"""One half, and zeros."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [B, D], w [D, C] fp32 -> [B, C]
    y = x.new_zeros((x.shape[0], w.shape[1]))
    half = (x.shape[0] + 1) // 2
    torch.softmax(x[:half] @ w, 1, out=y[:half])
    return y
