"""torchao's block-scaled product in Triton: the loop of optimized.py, tile and stages chosen by trial among 48.

It wants the activations' scales with K innermost, [M, K/128], and the lesson keeps M innermost: so each call turns
them first, 4 bytes for every 128 of the operand. What it then reads is strided, 4 bytes of a line for each row.
"""

from torch import Tensor
from torchao.kernel.blockwise_quantization import blockwise_fp8_gemm


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:  # as in baseline.py -> bf16 [M, N]
    return blockwise_fp8_gemm(a, a_scale.t().contiguous(), b, b_scale)
