"""mma.sync: cp.async by all threads, ldmatrix, one warp's tensor core instruction. The best of Ampere."""

from pathlib import Path

from tiling import multiply
from torch import Tensor

from aisp.kernels.cuda import load

gemm = load(Path(__file__).with_name("gemm.cu"), "gemm_mma")


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [N, K], fp16 -> [M, N] fp16
    return multiply(gemm, a, b, threads=256, by_descriptor=False)
