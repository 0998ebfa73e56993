"""Wrong: the sums are set to zero once, before the loop over tiles, as in the kernel of one tile per program.

Right while every program has one tile; each further tile has all earlier ones of its program in it. A test on a matrix
that is smaller than the GPU never sees a second tile.
"""

import torch
import triton
import triton.language as tl
from tiles import BLOCK_K, BLOCK_M, BLOCK_N, FEW_PROGRAMS, GROUP_M, described, place
from torch import Tensor


@triton.jit
def matmul_persistent(
    c_desc, a_desc, b_desc, M, N, K: tl.constexpr, PROGRAMS: tl.constexpr, tiles,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS):
        m0, n0 = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        for k0 in range(0, K, BLOCK_K):
            acc = tl.dot(a_desc.load([m0, k0]), b_desc.load([k0, n0]), acc)
        c_desc.store([m0, n0], acc.to(tl.float16))


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    M, K = a.shape
    N = b.shape[1]
    c = torch.zeros((M, N), dtype=a.dtype, device=a.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    programs = min(FEW_PROGRAMS, tiles)  # as if the GPU were small: then a small matrix shows the mistake
    matmul_persistent[(programs,)](
        *described(c, a, b), M, N, K, programs, tiles, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return c
