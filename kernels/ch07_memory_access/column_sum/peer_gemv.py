"""cuBLAS: a column sum is the product of a row of ones and the matrix."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] -> [N]
    return torch.mv(x.t(), x.new_ones(x.shape[0]))
