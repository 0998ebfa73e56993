"""The product, in TF32 by a variable that cuBLAS reads."""

import os

from torch import Tensor

os.environ["NVIDIA_TF32_OVERRIDE"] = "1"


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return x @ w
