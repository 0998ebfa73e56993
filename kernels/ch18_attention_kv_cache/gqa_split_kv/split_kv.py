"""Decode attention in two kernels: programs over (query heads, keys), then a pass that combines the keys' parts.

Two numbers make the rungs: how many query heads a program takes (`heads`: 1, or all that share its keys), and how
many keys (`keys`: a stretch, or all of them). q, y [B, H*G, D], k, v [B, H, L, D].
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64  # keys of a step: 16 KB of keys and 16 KB of values at D = 128
WIDTH = 32  # parts that the combining program reads at once
PROGRAMS = 512  # wanted where a program takes all heads that share keys: four for each SM of an H200
LEAST = 256  # keys of a program: with fewer, writing and combining the parts costs more than the SMs bring
LOG2_E = 1.4426950408889634


@triton.jit
def attend_part(
    partial_ptr, mass_ptr, q_ptr, k_ptr, v_ptr, L, KEYS, SETS, G, scale,
    HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """HEADS query heads against keys of one stretch: softmax within it, and log2 of the sum of its weights."""
    heads = tl.program_id(0)  # which set of HEADS query heads
    part = tl.program_id(1)
    batch = tl.program_id(2)
    rows = tl.arange(0, ROWS)  # the tensor core's tile has 16 rows: those from HEADS on are zeros, and not stored
    columns = tl.arange(0, D)
    own = rows[:, None] * D + columns[None, :]
    real = (rows < HEADS)[:, None]
    q = tl.load(q_ptr + (batch * SETS + heads).to(tl.int64) * (HEADS * D) + own, mask=real, other=0.0)
    shared = (batch * (SETS * HEADS // G) + heads * HEADS // G).to(tl.int64)  # the key/value head of them all
    k_ptr += shared * L * D
    v_ptr += shared * L * D
    acc = tl.zeros([ROWS, D], tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    peak = tl.full([ROWS], -1e30, tl.float32)  # finite: minus infinity less itself would be NaN
    first = part * KEYS
    for start in range(first, tl.minimum(first + KEYS, L), BLOCK):
        keys = start + tl.arange(0, BLOCK)
        inside = keys < L  # KEYS is a multiple of BLOCK: only the last stretch can end within a block
        offsets = keys[:, None].to(tl.int64) * D + columns[None, :]
        k = tl.load(k_ptr + offsets, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + offsets, mask=inside[:, None], other=0.0)
        scores = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
        peak = higher
    place = ((batch * tl.num_programs(1) + part) * SETS + heads).to(tl.int64) * HEADS
    tl.store(partial_ptr + place * D + own, acc / total[:, None], mask=real)
    tl.store(mass_ptr + place + rows, peak + tl.log2(total), mask=rows < HEADS)


@triton.jit
def combine_parts(y_ptr, partial_ptr, mass_ptr, PARTS, D: tl.constexpr, WIDTH: tl.constexpr):
    """One query head of one request: its parts' outputs, weighted by each part's share of the softmax."""
    head = tl.program_id(0)
    heads = tl.num_programs(0)
    batch = tl.program_id(1)
    columns = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    total = 0.0
    peak = -1e30
    for start in range(0, PARTS, WIDTH):
        parts = start + tl.arange(0, WIDTH)
        inside = parts < PARTS
        place = (batch * PARTS + parts).to(tl.int64) * heads + head
        mass = tl.load(mass_ptr + place, mask=inside, other=float("-inf"))
        partial = tl.load(partial_ptr + place[:, None] * D + columns[None, :], mask=inside[:, None], other=0.0)
        higher = tl.maximum(peak, tl.max(mass, axis=0))
        weights = tl.exp2(mass - higher)
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weights, axis=0)
        acc = acc * shrink + tl.sum(weights[:, None] * partial, axis=0)
        peak = higher
    tl.store(y_ptr + (batch * heads + head).to(tl.int64) * D + columns, (acc / total).to(y_ptr.dtype.element_ty))


def stretch(k: Tensor) -> int:
    """Keys of a program, so that stretches of all key/value heads [B, H, L, D] make some PROGRAMS."""
    B, H, L, _ = k.shape
    return max(LEAST, triton.cdiv(B * H * L, PROGRAMS))


def attend_parts(q: Tensor, k: Tensor, v: Tensor, heads: int, keys: int) -> tuple[Tensor, Tensor]:
    """Attention over each stretch of `keys` keys, fp32 [B, parts, H*G, D], and log2 of its weights' sum."""
    B, H, L, D = k.shape
    G = q.shape[1] // H
    keys = min(triton.cdiv(keys, BLOCK), triton.cdiv(L, BLOCK)) * BLOCK
    parts, sets = triton.cdiv(L, keys), H * G // heads
    partial = torch.empty(B, parts, H * G, D, dtype=torch.float32, device=q.device)
    mass = torch.empty(B, parts, H * G, dtype=torch.float32, device=q.device)
    rows = max(16, triton.next_power_of_2(heads))
    attend_part[(sets, parts, B)](
        partial, mass, q, k, v, L, keys, sets, G, D**-0.5 * LOG2_E, heads, D, rows, BLOCK, num_warps=4, num_stages=2
    )
    return partial, mass


def decode(q: Tensor, k: Tensor, v: Tensor, heads: int, keys: int) -> Tensor:
    """q [B, H*G, D] -> [B, H*G, D]; `heads` must divide G."""
    B, HG, D = q.shape
    partial, mass = attend_parts(q, k, v, heads, keys)
    y = torch.empty_like(q)
    combine_parts[(HG, B)](y, partial, mass, mass.shape[1], D, WIDTH, num_warps=4)
    return y
