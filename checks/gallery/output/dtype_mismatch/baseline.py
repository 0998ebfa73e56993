"""Convert, then double: two passes."""

from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [N] uint8 -> [N] fp32
    return x.float() * 2.0
