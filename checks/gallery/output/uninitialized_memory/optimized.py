"""One buffer, kept; all of it is written in every call."""

import torch
from torch import Tensor

_kept: dict[tuple[int, int], Tensor] = {}


def run(values: Tensor, columns: Tensor) -> Tensor:  # values [R, K] fp32, columns [K] -> [R, C]
    shape = (values.shape[0], 512 * columns.numel())
    if shape not in _kept:
        _kept[shape] = torch.empty(shape, device=values.device)
    y = _kept[shape].zero_()
    y[:, 512 * columns] = values
    return y
