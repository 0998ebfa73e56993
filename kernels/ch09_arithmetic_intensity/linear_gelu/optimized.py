"""One Triton kernel: bias and GELU on the accumulator, 128x128 tiles, two blocks per SM.

While one block is in its epilogue (exp and stores), its neighbour keeps the tensor cores busy. 3 stages of
128x64 and 128x64 bf16 are 96 KiB of shared memory, so two blocks fit into an H100's 227.
"""

from linear_gelu_tile import linear_gelu
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [N, K], b [N], bf16 -> [M, N] bf16
    return linear_gelu(x, w, b, block_m=128, block_n=128, block_k=64, num_warps=8, num_stages=3)
