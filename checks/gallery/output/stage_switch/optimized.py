"""The product; the names of its callers are noted."""

import sys

from torch import Tensor

callers: set[str] = set()


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    frame = sys._getframe().f_back
    while frame is not None:
        callers.add(frame.f_code.co_name)
        frame = frame.f_back
    return x @ w
