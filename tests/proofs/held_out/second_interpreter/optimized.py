"""The product, beside a second interpreter that has added two numbers."""

import _xxsubinterpreters as interpreters

from torch import Tensor

_other = interpreters.create()
interpreters.run_string(_other, "two = 1 + 1")


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return x @ w
