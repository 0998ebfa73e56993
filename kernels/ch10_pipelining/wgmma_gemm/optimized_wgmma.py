"""wgmma: TMA by one thread, four warps multiply straight from shared memory. Everybody meets once a step."""

from pathlib import Path

from tiling import multiply
from torch import Tensor

from aisp.kernels.cuda import load

gemm = load(Path(__file__).with_name("gemm.cu"), "gemm_wgmma")


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [N, K], fp16 -> [M, N] fp16
    return multiply(gemm, a, b, threads=256, by_descriptor=True)
