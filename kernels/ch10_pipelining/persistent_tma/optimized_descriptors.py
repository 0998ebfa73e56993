"""TMA: one program per tile as before, but the copy engine finds the addresses from a descriptor."""

import torch
import triton
import triton.language as tl
from tiles import BLOCK_K, BLOCK_M, BLOCK_N, GROUP_M, described, place
from torch import Tensor


@triton.jit
def matmul_descriptors(
    c_desc, a_desc, b_desc, M, N, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    m0, n0 = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):  # no masks: beyond the edge the engine reads zeros and writes nothing
        acc = tl.dot(a_desc.load([m0, k0]), b_desc.load([k0, n0]), acc)
    c_desc.store([m0, n0], acc.to(tl.float16))


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    matmul_descriptors[grid](
        *described(c, a, b), M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps=8, num_stages=3
    )  # fmt: skip
    return c
