"""The kernel of the two persistent rungs: as many programs as SMs, each takes every PROGRAMS-th tile.

FLATTEN decides whether the compiler may see the loop over tiles and the loop over K as one, and so start the loads
of the next tile before this one is stored.
"""

import torch
import triton
import triton.language as tl
from tiles import BLOCK_K, BLOCK_M, BLOCK_N, GROUP_M, described, place, programs_of
from torch import Tensor


@triton.jit
def matmul_persistent(
    c_desc, a_desc, b_desc, M, N, K: tl.constexpr, PROGRAMS: tl.constexpr, FLATTEN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0)
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    # The store has a counter of its own: with one shared, the loads of the next tile would have to wait for it.
    stored = first - PROGRAMS
    for tile in tl.range(first, tiles, PROGRAMS, flatten=FLATTEN):
        m0, n0 = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            acc = tl.dot(a_desc.load([m0, k0]), b_desc.load([k0, n0]), acc)
        stored += PROGRAMS
        m0, n0 = place(stored, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        c_desc.store([m0, n0], acc.to(tl.float16))


def matmul(a: Tensor, b: Tensor, *, flatten: bool) -> Tensor:
    """a b for a [M, K], b [K, N], both fp16 and contiguous -> [M, N] fp16."""
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    programs = min(programs_of(a.device), triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N))
    matmul_persistent[(programs,)](
        *described(c, a, b), M, N, K, programs, flatten, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return c
