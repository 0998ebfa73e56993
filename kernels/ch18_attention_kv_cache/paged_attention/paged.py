"""Decode attention that follows a page table: programs over stretches of 512 keys, then a pass that combines them.

q, y [B, H, G, D]: one new token per request, H key/value heads, G query heads on each. k_pages, v_pages [P, S, H, D]:
P pages of S tokens. table [B*M]: the page that holds tokens m*S .. m*S + S - 1 of request b stands at b*M + m.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64  # keys of a step, four pages of 16
KEYS = 512  # keys of a program, a multiple of BLOCK
WIDTH = 32  # stretches that the combining program reads at once
LOG2_E = 1.4426950408889634


@triton.jit
def attend_pages(
    partial_ptr, mass_ptr, q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, H, M, scale,
    S: tl.constexpr, G: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """The G queries of one head against one stretch: softmax within it, and log2 of the sum of its weights."""
    head = tl.program_id(0)
    stretch = tl.program_id(1)
    request = tl.program_id(2)
    length = tl.load(lengths_ptr + request)
    first = stretch * KEYS
    if first < length:  # the grid is made for the most pages; the combining pass skips what is not written here
        rows = tl.arange(0, ROWS)  # the tensor core's tile has 16 rows: those from G on are zeros, and not stored
        columns = tl.arange(0, D)
        own = rows[:, None] * D + columns[None, :]
        real = (rows < G)[:, None]
        q = tl.load(q_ptr + (request * H + head).to(tl.int64) * (G * D) + own, mask=real, other=0.0)
        acc = tl.zeros([ROWS, D], tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        peak = tl.full([ROWS], -1e30, tl.float32)  # finite: minus infinity less itself would be NaN
        for start in range(first, tl.minimum(first + KEYS, length), BLOCK):
            keys = start + tl.arange(0, BLOCK)
            inside = keys < length
            # Neighbouring tokens of a page read the same entry: one sector of the table serves 64 of them.
            page = tl.load(table_ptr + request.to(tl.int64) * M + keys // S, mask=inside, other=0)
            offsets = ((page * S + keys % S)[:, None] * H + head) * D + columns[None, :]
            k = tl.load(k_ptr + offsets, mask=inside[:, None], other=0.0)
            v = tl.load(v_ptr + offsets, mask=inside[:, None], other=0.0)
            scores = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
            higher = tl.maximum(peak, tl.max(scores, axis=1))
            weights = tl.exp2(scores - higher[:, None])
            shrink = tl.exp2(peak - higher)
            total = total * shrink + tl.sum(weights, axis=1)
            acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
            peak = higher
        place = ((request * tl.num_programs(1) + stretch) * H + head).to(tl.int64) * G
        tl.store(partial_ptr + place * D + own, acc / total[:, None], mask=real)
        tl.store(mass_ptr + place + rows, peak + tl.log2(total), mask=rows < G)


@triton.jit
def combine_stretches(
    y_ptr, partial_ptr, mass_ptr, lengths_ptr, STRETCHES,
    D: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One query head of one request: its stretches' outputs, weighted by each one's share of the softmax."""
    head = tl.program_id(0)
    heads = tl.num_programs(0)
    request = tl.program_id(1)
    used = tl.cdiv(tl.load(lengths_ptr + request), KEYS)
    columns = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    total = 0.0
    peak = -1e30
    for start in range(0, used, WIDTH):
        stretches = start + tl.arange(0, WIDTH)
        inside = stretches < used
        place = (request * STRETCHES + stretches).to(tl.int64) * heads + head
        mass = tl.load(mass_ptr + place, mask=inside, other=float("-inf"))
        partial = tl.load(partial_ptr + place[:, None] * D + columns[None, :], mask=inside[:, None], other=0.0)
        higher = tl.maximum(peak, tl.max(mass, axis=0))
        weights = tl.exp2(mass - higher)
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weights, axis=0)
        acc = acc * shrink + tl.sum(weights[:, None] * partial, axis=0)
        peak = higher
    tl.store(y_ptr + (request * heads + head).to(tl.int64) * D + columns, (acc / total).to(y_ptr.dtype.element_ty))


def decode(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    """q [B, H, G, D] -> [B, H, G, D]; `table` int64, `lengths` int32, each at least 1."""
    B, H, G, D = q.shape
    S, M = k_pages.shape[1], len(table) // B
    stretches = triton.cdiv(M * S, KEYS)
    partial = torch.empty(B, stretches, H, G, D, dtype=torch.float32, device=q.device)
    mass = torch.empty(B, stretches, H, G, dtype=torch.float32, device=q.device)
    rows = max(16, triton.next_power_of_2(G))
    attend_pages[(H, stretches, B)](
        partial, mass, q, k_pages, v_pages, table, lengths, H, M, D**-0.5 * LOG2_E, S, G, D, rows, BLOCK, KEYS,
        num_warps=4, num_stages=5,  # two for the table's load, which comes first, and three for the keys'
    )  # fmt: skip
    y = torch.empty_like(q)
    combine_stretches[(H * G, B)](y, partial, mass, lengths, stretches, D, KEYS, WIDTH, num_warps=4)
    return y
