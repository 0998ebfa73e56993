"""Single precision made of three bytes, for everybody."""

import torch
from torch import Tensor

torch.set_float32_matmul_precision("high")


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return x @ w
