"""The product, with a workspace of cuBLAS's of a fixed size."""

import os

from torch import Tensor

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return x @ w
