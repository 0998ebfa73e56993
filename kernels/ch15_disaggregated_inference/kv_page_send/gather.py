"""The gather kernel of both Triton rungs: a program moves 4096 elements of one page of one layer."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # 8 KB: two loads of 16 bytes for each thread of eight warps
WARPS = 8


@triton.jit
def gather_pages(packed_ptr, kv_ptr, pages_ptr, N, POOL, ROW, BLOCK: tl.constexpr):
    piece = tl.program_id(0)  # (layer, part, slot), as the packed block has them in order
    plane = (piece // N).to(tl.int64)  # 128 layers' pools soon hold 2**31 elements
    page = tl.load(pages_ptr + piece % N).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < ROW
    values = tl.load(kv_ptr + (plane * POOL + page) * ROW + at, mask=inside)
    tl.store(packed_ptr + piece.to(tl.int64) * ROW + at, values, mask=inside)


def gather_into(packed: Tensor, kv: Tensor, table: Tensor) -> None:
    """packed [L, 2, N, ROW] from kv [L, 2, POOL, ROW] and table [N], which is where kv is."""
    L, parts, POOL, ROW = kv.shape
    N = len(table)
    # The kernel moves bits and rounds nothing: as integers, bf16 stays what it is even in an interpreter without it.
    bits = torch.int16
    grid = (L * parts * N, triton.cdiv(ROW, BLOCK))
    gather_pages[grid](packed.view(bits), kv.view(bits), table, N, POOL, ROW, BLOCK=BLOCK, num_warps=WARPS)
