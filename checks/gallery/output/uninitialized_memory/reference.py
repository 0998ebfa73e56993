"""The truth: y [R, C], zero but for values [R, K] in the columns [K]; C is 512 times K."""

import torch
from torch import Tensor


def run(values: Tensor, columns: Tensor) -> Tensor:
    y = torch.zeros((values.shape[0], 512 * columns.numel()), dtype=values.dtype, device=values.device)
    y[:, 512 * columns] = values
    return y
