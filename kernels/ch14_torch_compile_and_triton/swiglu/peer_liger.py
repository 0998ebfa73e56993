"""Liger's SwiGLU: the same pass, a row per program."""

from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from torch import Tensor


def run(gate: Tensor, up: Tensor) -> Tensor:  # gate, up [M, F] bf16 -> [M, F] bf16
    return LigerSiLUMulFunction.apply(gate, up)
