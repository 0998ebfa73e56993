"""One half of the columns in a helper thread, which the call waits for."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

_helper = ThreadPoolExecutor(1)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    half = w.shape[1] // 2
    right = _helper.submit(torch.mm, x, w[:, half:])
    return torch.cat((x @ w[:, :half], right.result()), 1)
