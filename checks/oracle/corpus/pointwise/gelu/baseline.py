"""The library's operator, once for each form: x is read twice."""

import torch.nn.functional as F
from torch import Tensor


def run(x: Tensor) -> tuple[Tensor, Tensor]:  # x [M, N] -> [M, N], [M, N]
    return F.gelu(x), F.gelu(x, approximate="tanh")
