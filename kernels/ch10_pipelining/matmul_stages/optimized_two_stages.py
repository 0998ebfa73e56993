"""Two stages: the next block is on its way while this one is multiplied."""

from matmul_tile import matmul
from torch import Tensor


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    return matmul(a, b, num_stages=2)
