"""Waits for the GPU at the end of each call."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = torch.addmm(b, x, w).relu_()
    torch.cuda.current_stream().synchronize()
    return y
