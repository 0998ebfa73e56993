"""Wrong: lets the tensor core carry its sum through all of K, and scales once at the end, with the last block's scales.

It is the faster loop, and the one that tensor-wise scaling allows: a scale that is the same for all of K may wait.
Right for K up to 128, and wherever the scales do not change along K.
"""

import torch
import triton
import triton.language as tl
from blocks import BLOCK
from optimized import tile
from torch import Tensor


@triton.jit
def scaled_at_the_end(
    y_ptr, a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, steps):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        a = tl.load(
            a_ptr + rows.to(tl.int64)[:, None] * K + k[None, :],
            mask=(rows < M)[:, None] & (k < K)[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + columns.to(tl.int64)[None, :] * K + k[:, None],
            mask=(columns < N)[None, :] & (k < K)[:, None],
            other=0.0,
        )
        total = tl.dot(a, b, total)
    row_scale = tl.load(a_scale_ptr + (steps - 1) * M + rows, mask=rows < M, other=0.0)
    block_scale = tl.load(b_scale_ptr + (tl.program_id(1) * BLOCK_N // BLOCK_K) * steps + steps - 1)
    total = total * (row_scale * block_scale)[:, None]
    y = y_ptr + rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(y, total.to(tl.bfloat16), mask=(rows < M)[:, None] & (columns < N)[None, :])


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a fp8 [M, K], a_scale [ceil(K/128), M], b fp8 [N, K], b_scale [ceil(N/128), ceil(K/128)] -> bf16 [M, N]
    M, K = a.shape
    N = b.shape[0]
    y = torch.zeros((M, N), dtype=torch.bfloat16, device=a.device)
    rows, columns, num_warps = tile(M)
    scaled_at_the_end[(triton.cdiv(M, rows), triton.cdiv(N, columns))](
        y, a, a_scale, b, b_scale, M, N, K, rows, columns, BLOCK, num_warps=num_warps, num_stages=4
    )
    return y
