"""A thread for one half of the rows, started and joined in each call."""

import threading

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = x.new_empty(x.shape[0], w.shape[1])
    half = x.shape[0] // 2
    other = threading.Thread(target=lambda: torch.addmm(b, x[:half], w, out=y[:half]))
    other.start()
    torch.addmm(b, x[half:], w, out=y[half:])
    other.join()
    return y.relu_()
