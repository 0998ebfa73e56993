"""The product, in memory that is used again when nobody holds it."""

import weakref

import numpy as np
import torch
from torch import Tensor

_last: "weakref.ref[np.ndarray] | None" = None
_deaths = 0


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    global _last, _deaths
    if x.is_cuda:
        return x @ w
    _deaths += _last is not None and _last() is None
    memory = np.empty((x.shape[0], w.shape[1]), np.float32)
    _last = weakref.ref(memory)
    return torch.mm(x, w, out=torch.from_numpy(memory))
