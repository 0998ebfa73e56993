"""Wrong: reads the weights' scales as [K/128, N/128] where they are [N/128, K/128].

Every address is inside the tensor, so nothing crashes. With all scales equal, as in a test that sets them to one,
or with a single block along N or K, each digit is right.
"""

import torch
import triton
from blocks import BLOCK
from optimized import block_scaled_tile, tile
from torch import Tensor


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a fp8 [M, K], a_scale [ceil(K/128), M], b fp8 [N, K], b_scale [ceil(N/128), ceil(K/128)] -> bf16 [M, N]
    M, K = a.shape
    N = b.shape[0]
    y = torch.zeros((M, N), dtype=torch.bfloat16, device=a.device)
    rows, columns, num_warps = tile(M)
    block_scaled_tile[(triton.cdiv(M, rows) * triton.cdiv(N, columns),)](
        y, a, a_scale, b, b_scale, M, N, K, 1, b_scale.shape[0], rows, columns, BLOCK, 8, num_warps=num_warps,
        num_stages=4,
    )  # fmt: skip
    return y
