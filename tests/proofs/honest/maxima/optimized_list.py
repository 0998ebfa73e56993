"""In a list, with outputs that last from call to call."""

import torch
from torch import Tensor

_kept: dict[tuple[int, ...], list[Tensor]] = {}


def run(x: Tensor) -> list[Tensor]:  # x [M, N] -> [M], [M], [M, N]
    key = tuple(x.shape)
    if key not in _kept:
        _kept[key] = [x.new_empty(key[0]), x.new_empty(key[0], dtype=torch.int64), x.new_empty(key, dtype=torch.bool)]
    torch.max(x, 1, out=(_kept[key][0], _kept[key][1]))
    torch.gt(x, 0, out=_kept[key][2])
    return list(_kept[key])
