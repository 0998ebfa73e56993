"""Zeros, and one column after the other."""

import torch
from torch import Tensor


def run(values: Tensor, columns: Tensor) -> Tensor:  # values [R, K] fp32, columns [K] -> [R, C]
    y = torch.zeros((values.shape[0], 512 * columns.numel()), device=values.device)
    y[:, 512 * columns] = values
    return y
