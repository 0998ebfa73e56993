"""The truth in fp64: every value times the scale of its sixteen, a matrix product, and the scale of the two tensors."""

import torch
from formats import VALUES, dequantise
from torch import Tensor


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, scale: Tensor) -> Tensor:
    # a [M, K/2], a_scale [M, K/16], b [N, K/2], b_scale [N, K/16], scale [1] -> [M, N]
    both = [[VALUES[byte & 15], VALUES[byte >> 4]] for byte in range(256)]
    table = torch.tensor(both, dtype=a_scale.dtype, device=a.device)
    return dequantise(a, a_scale, table) @ dequantise(b, b_scale, table).t() * scale
