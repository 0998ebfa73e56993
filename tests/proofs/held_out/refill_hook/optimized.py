"""The product of a copy in a workspace of its own."""

import torch
from torch import Tensor

_copy = Tensor.copy_
_workspaces: dict[tuple[int, ...], Tensor] = {}


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    if x.shape not in _workspaces:
        _workspaces[x.shape] = torch.empty_like(x)
    return _copy(_workspaces[x.shape], x) @ w
