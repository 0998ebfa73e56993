"""How the CUDA rungs are launched: the tile and the shared memory of gemm.cu, and the descriptors that TMA wants."""

import numpy as np
import torch
from torch import Tensor

from aisp.kernels.cuda import Kernel, ceil_div, launch, tensor_map

BLOCK_M, BLOCK_N, BLOCK_K, STAGES = 128, 256, 64, 4  # as in gemm.cu
SHARED_BYTES = STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * 2 + 1024  # and what it takes to begin at a multiple of 1024


def multiply(kernel: Kernel, a: Tensor, b: Tensor, *, threads: int, by_descriptor: bool) -> Tensor:
    """a [M, K] b [N, K]^T -> [M, N], all fp16 and contiguous; N and K must be multiples of 8."""
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    tiles = ceil_div(M, BLOCK_M) * ceil_div(N, BLOCK_N)
    operands = (a, b)
    if by_descriptor:  # a box row is 64 halves: the 128 bytes that are swizzled
        operands = (
            tensor_map(a, box=(BLOCK_M, BLOCK_K), swizzle_bytes=128),
            tensor_map(b, box=(BLOCK_N, BLOCK_K), swizzle_bytes=128),
        )
    sizes = (np.int32(M), np.int32(N), np.int32(K))
    launch(kernel, tiles, threads, c, *operands, *sizes, shared_bytes=SHARED_BYTES)
    return c
