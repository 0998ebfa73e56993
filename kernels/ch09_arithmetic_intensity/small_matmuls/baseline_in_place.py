"""The loop, each product written to its place in the output: the copy is gone, the launches stay."""

from loop import multiply_each
from torch import Tensor


def run(a: Tensor, b: Tensor) -> Tensor:  # a [B, M, K], b [B, K, N] fp16 -> [B, M, N] fp16
    return multiply_each(a, b)
