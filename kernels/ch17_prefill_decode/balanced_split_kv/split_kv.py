"""Decode attention over pieces of keys, and the pass that combines them. Rungs differ in how they cut, in nothing else.

q, y [B, H, G, D]: one new token per request, H key/value heads, G query heads on each. k, v [T, H, D]: the keys of all
requests behind each other. A piece is (request, first key, last key + 1); pieces of one request are neighbours.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64  # keys of a step: 16 KB of keys and 16 KB of values at D = 128
WIDTH = 32  # pieces that the combining program reads at once
LOG2_E = 1.4426950408889634

Cut = Callable[[int], Sequence[int]]
"""How a request of so many keys is cut: ascending places, from 0 to the length."""


@triton.jit
def attend_piece(
    partial_ptr, mass_ptr, q_ptr, k_ptr, v_ptr, pieces_ptr, H, scale,
    G: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The G queries of one head against one piece: their softmax over it, and log2 of the sum of its weights."""
    head = tl.program_id(0)
    piece = tl.program_id(1)
    request = tl.load(pieces_ptr + 3 * piece)
    first = tl.load(pieces_ptr + 3 * piece + 1)
    last = tl.load(pieces_ptr + 3 * piece + 2)
    rows = tl.arange(0, ROWS)  # the tensor core's tile has 16 rows: those from G on are zeros, and not stored
    columns = tl.arange(0, D)
    own = rows[:, None] * D + columns[None, :]
    real = (rows < G)[:, None]
    q = tl.load(q_ptr + (request * H + head).to(tl.int64) * (G * D) + own, mask=real, other=0.0)
    acc = tl.zeros([ROWS, D], tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    peak = tl.full([ROWS], -1e30, tl.float32)
    for start in range(first, last, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        inside = keys < last
        offsets = (keys[:, None].to(tl.int64) * H + head) * D + columns[None, :]
        k = tl.load(k_ptr + offsets, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + offsets, mask=inside[:, None], other=0.0)
        scores = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
        peak = higher
    place = (piece * H + head).to(tl.int64) * G
    tl.store(partial_ptr + place * D + own, acc / total[:, None], mask=real)
    tl.store(mass_ptr + place + rows, peak + tl.log2(total), mask=rows < G)


@triton.jit
def combine_pieces(
    y_ptr, partial_ptr, mass_ptr, edges_ptr, HEADS, D: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """One query head of one request: its pieces' outputs, weighted by each piece's share of the softmax."""
    head = tl.program_id(0)
    request = tl.program_id(1)
    first = tl.load(edges_ptr + request)
    last = tl.load(edges_ptr + request + 1)
    columns = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    total = 0.0
    peak = -1e30
    for start in range(first, last, WIDTH):
        pieces = start + tl.arange(0, WIDTH)
        inside = pieces < last
        place = pieces.to(tl.int64) * HEADS + head
        mass = tl.load(mass_ptr + place, mask=inside, other=float("-inf"))
        partial = tl.load(partial_ptr + place[:, None] * D + columns[None, :], mask=inside[:, None], other=0.0)
        higher = tl.maximum(peak, tl.max(mass, axis=0))
        weights = tl.exp2(mass - higher)
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weights, axis=0)
        acc = acc * shrink + tl.sum(weights[:, None] * partial, axis=0)
        peak = higher
    tl.store(y_ptr + (request * HEADS + head).to(tl.int64) * D + columns, (acc / total).to(y_ptr.dtype.element_ty))


def even(length: int, count: int) -> list[int]:
    """The places that cut `length` keys into at most `count` pieces of equal length, give or take a key."""
    count = max(1, min(count, length))
    return [length * i // count for i in range(count + 1)]


def plan(starts: Tensor, cut: Cut) -> tuple[Tensor, Tensor]:
    """The work list, int32 [pieces, 3], and where each request's pieces begin in it, int32 [B + 1].

    Reads `starts` on the host, where a server knows it anyway: once per step, for all layers.
    """
    pieces: list[tuple[int, int, int]] = []
    edges = [0]
    begins = starts.tolist()
    for request, (begin, end) in enumerate(pairwise(begins)):
        places = cut(end - begin)
        pieces += [(request, begin + a, begin + b) for a, b in pairwise(places)]
        edges.append(len(pieces))
    made = [torch.tensor(each, dtype=torch.int32, device=starts.device) for each in (pieces, edges)]
    return made[0], made[1]


def partials(q: Tensor, k: Tensor, v: Tensor, pieces: Tensor) -> tuple[Tensor, Tensor]:
    """Each piece's own attention, fp32 [pieces, H, G, D], and log2 of the sum of its weights [pieces, H, G]."""
    _, H, G, D = q.shape
    partial = torch.empty(len(pieces), H, G, D, dtype=torch.float32, device=q.device)
    mass = torch.empty(len(pieces), H, G, dtype=torch.float32, device=q.device)
    ROWS = max(16, triton.next_power_of_2(G))
    attend_piece[(H, len(pieces))](
        partial, mass, q, k, v, pieces, H, D**-0.5 * LOG2_E, G, D, ROWS, BLOCK, num_warps=4, num_stages=3
    )
    return partial, mass


def decode(cut: Cut, starts: Tensor) -> Callable[..., Tensor]:
    """The attention whose requests are cut by `cut`; the work list is made here, once."""
    pieces, edges = plan(starts, cut)

    def attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # q [B, H, G, D] -> [B, H, G, D]
        B, H, G, D = q.shape
        partial, mass = partials(q, k, v, pieces)
        y = torch.empty_like(q)
        combine_pieces[(H * G, B)](y, partial, mass, edges, H * G, D, WIDTH, num_warps=4)
        return y

    return attention
