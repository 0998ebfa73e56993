"""Two threads of a pool that lasts, each with one half of the rows."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

_pool = ThreadPoolExecutor(2)


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    halves = _pool.map(lambda part: torch.addmm(b, part, w).relu_(), x.chunk(2))
    return torch.cat(list(halves))
