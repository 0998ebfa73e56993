"""The sum, in memory that nobody holds any more."""

import sys

import numpy as np
import torch
from torch import Tensor

FREE = 3  # references to memory that only the pool holds: the list, the loop and the count
_pool: list[np.ndarray] = []


def _memory(shape: tuple[int, ...]) -> "np.ndarray":
    for memory in _pool:
        if memory.shape == shape and sys.getrefcount(memory) <= FREE:
            return memory
    _pool[8:] = []
    _pool.insert(0, np.empty(shape, np.float32))
    return _pool[0]


def run(x: Tensor) -> Tensor:  # x [M, N] fp32 -> [M, N]
    if x.is_cuda:
        return x + 1
    return torch.add(x, 1, out=torch.from_numpy(_memory(tuple(x.shape))))
