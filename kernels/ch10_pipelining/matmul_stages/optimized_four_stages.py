"""Four stages, 192 KB of the 227 that a block can have: three blocks on their way."""

from matmul_tile import matmul
from torch import Tensor


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    return matmul(a, b, num_stages=4)
