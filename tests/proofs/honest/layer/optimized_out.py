"""Every operator writes into an output that lasts from call to call."""

import torch
from torch import Tensor

_kept: dict[tuple[int, int], Tensor] = {}


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = _kept.setdefault((x.shape[0], w.shape[1]), x.new_empty(x.shape[0], w.shape[1]))
    torch.addmm(b, x, w, out=y)
    return y.relu_()
