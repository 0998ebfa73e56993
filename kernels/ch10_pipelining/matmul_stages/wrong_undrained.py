"""Wrong: a pipeline written by hand is filled and never drained. The last block arrives, and nobody multiplies it.

The loop runs one time less than there are blocks, as it should, because a block was loaded before it; the multiply that
belongs behind it is missing. With K = 8192 that is one block of 128: an error of 9 % of the RMS, which a test with a
tolerance made for bf16 may wave through.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64


@triton.jit
def matmul_by_hand(c_ptr, a_ptr, b_ptr, M, N, K, blocks, BLOCK: tl.constexpr):
    m = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    n = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    k = tl.arange(0, BLOCK)
    in_m, in_n = (m < M)[:, None], (n < N)[None, :]
    a_tile = a_ptr + m[:, None] * K + k[None, :]
    b_tile = b_ptr + k.to(tl.int64)[:, None] * N + n[None, :]

    a = tl.load(a_tile, mask=in_m & (k < K)[None, :], other=0.0)  # fill the pipeline: block 0
    b = tl.load(b_tile, mask=(k < K)[:, None] & in_n, other=0.0)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    ahead = 1
    while ahead < blocks:
        a_tile += BLOCK
        b_tile += tl.cast(N, tl.int64) * BLOCK
        left = K - ahead * BLOCK
        next_a = tl.load(a_tile, mask=in_m & (k < left)[None, :], other=0.0)  # on its way ...
        next_b = tl.load(b_tile, mask=(k < left)[:, None] & in_n, other=0.0)
        acc = tl.dot(a, b, acc)  # ... while the one before is multiplied
        a, b = next_a, next_b
        ahead += 1
    # (here belongs: acc = tl.dot(a, b, acc))

    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=in_m & in_n)


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    M, K = a.shape
    N = b.shape[1]
    c = torch.zeros((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))
    matmul_by_hand[grid](c, a, b, M, N, K, triton.cdiv(K, BLOCK), BLOCK, num_stages=1)
    return c
