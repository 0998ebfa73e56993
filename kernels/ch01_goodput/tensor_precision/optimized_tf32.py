"""The same call with operands as TF32: 10 mantissa bits of each, on tensor cores, sums in fp32.

The switch belongs to the whole process, so it is turned for this call alone. A CPU without TF32 ignores it.
"""

import torch
from torch import Tensor


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N] fp32 -> [M, N] fp32
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return torch.mm(a, b)
    finally:
        torch.set_float32_matmul_precision(before)
