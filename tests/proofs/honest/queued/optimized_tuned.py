"""A kernel in Triton that times its candidates at the first call of a shape."""

import triton
import triton.language as tl
from torch import Tensor


@triton.autotune(
    [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=warps, num_stages=3)
        for m, n, warps in ((64, 64, 4), (128, 64, 4), (128, 128, 8))
    ],
    key=["M", "N", "K"],
)
@triton.jit
def _layer(x, w, b, y, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, 64)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, 64):
        k = start + inner
        left = tl.load(x + rows[:, None] * K + k[None], mask=(rows[:, None] < M) & (k[None] < K), other=0.0)
        right = tl.load(w + k[:, None] * N + columns[None], mask=(k[:, None] < K) & (columns[None] < N), other=0.0)
        total = tl.dot(left, right, total)
    total += tl.load(b + columns, mask=columns < N, other=0.0).to(tl.float32)[None]
    inside = (rows[:, None] < M) & (columns[None] < N)
    tl.store(y + rows[:, None] * N + columns[None], tl.maximum(total, 0.0).to(tl.bfloat16), mask=inside)


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    m, k, n = *x.shape, w.shape[1]
    y = x.new_empty(m, n)
    _layer[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](x, w, b, y, m, n, k)
    return y
