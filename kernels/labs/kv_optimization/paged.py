"""A paged cache in Triton: storing tokens, and attention that finds them through a page table. fp16 or fp8.

Layout: codes [pages * PAGE, H, D], a token's row of a head in one piece; with fp8 one fp32 scale for each, beside it
[pages * PAGE, H]. table [B, width]: the page in which the i-th PAGE tokens of a request lie.
"""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from serving import PAGE, sent
from torch import Tensor

LARGEST = tl.constexpr(448.0)  # of e4m3
LOG2E = math.log2(math.e)
BLOCK = 64  # tokens that a program takes at a time
# Blocks whose pages are on their way or at work: 35 KB of shared memory or little more.
STAGES_FP8, STAGES_FP16 = 3, 2


@triton.jit
def stored(x, scale_ptr, row, inside, FP8: tl.constexpr):
    """x [BLOCK, D] as it goes into the cache; with fp8 its rows' scales are stored as well."""
    if FP8:
        x = x.to(tl.float32)
        # The least power of two that brings the row into e4m3's range. Floating point loses no digit by that, and
        # numbers of four bits, such as whole ones up to 16, come back as they were.
        least = tl.maximum(tl.max(tl.abs(x), axis=1), 1e-20) / LARGEST
        scale = ((least.to(tl.int32, bitcast=True) + 0x7FFFFF) & 0x7F800000).to(tl.float32, bitcast=True)
        tl.store(scale_ptr + row, scale, mask=inside)
        # Rounded to four bits, to the nearest even, before the conversion. A GPU does that by itself and finds nothing
        # left to round; Triton's interpreter drops the carry, so that 31.9 would become 16 there instead of 32.
        bits = (x / scale[:, None]).to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000
        x = bits.to(tl.float32, bitcast=True).to(tl.float8e4nv)
    return x


@triton.jit
def store_tokens(
    keys_ptr, values_ptr, key_scales_ptr, value_scales_ptr, table_ptr, width, k_ptr, v_ptr, k_stride_b, k_stride_t,
    v_stride_b, v_stride_t, starts_ptr, counts_ptr, after, H,
    FP8: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """k, v [B, T, H, D], of which counts[b] tokens go to the places starts[b] + after and following of request b."""
    b = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    t = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = t < tl.load(counts_ptr + b)
    place = tl.load(starts_ptr + b) + after + t
    page = tl.load(table_ptr + b * width + place // PAGE, mask=inside, other=0)
    row = (page.to(tl.int64) * PAGE + place % PAGE) * H + head
    d = tl.arange(0, D)
    both = inside[:, None]
    k = tl.load(k_ptr + b * k_stride_b + t[:, None] * k_stride_t + head * D + d[None, :], mask=both, other=0.0)
    v = tl.load(v_ptr + b * v_stride_b + t[:, None] * v_stride_t + head * D + d[None, :], mask=both, other=0.0)
    tl.store(keys_ptr + row[:, None] * D + d[None, :], stored(k, key_scales_ptr, row, inside, FP8), mask=both)
    tl.store(values_ptr + row[:, None] * D + d[None, :], stored(v, value_scales_ptr, row, inside, FP8), mask=both)


@triton.jit
def attend_pages(
    y_ptr, q_ptr, q_stride_b, keys_ptr, values_ptr, key_scales_ptr, value_scales_ptr, table_ptr, width, lengths_ptr,
    after, H, scale,
    FP8: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One query of one head of one request, over the lengths[b] + after tokens in its pages."""
    b = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + b * q_stride_b + head * D + d).to(tl.float32) * scale
    end = tl.load(lengths_ptr + b).to(tl.int32) + after
    total = tl.zeros((D,), tl.float32)
    weight = 0.0
    peak = float("-inf")
    # Asked for here: an option of the launch makes Triton fetch ahead for tl.dot alone, and there is none.
    for start in tl.range(0, end, BLOCK, num_stages=STAGES):
        place = start + tl.arange(0, BLOCK)
        seen = place < end
        page = tl.load(table_ptr + b * width + place // PAGE, mask=seen, other=0)
        row = (page.to(tl.int64) * PAGE + place % PAGE) * H + head
        at = row[:, None] * D + d[None, :]
        k = tl.load(keys_ptr + at, mask=seen[:, None], other=0.0).to(tl.float32)
        scores = tl.sum(q[None, :] * k, axis=1)
        if FP8:  # the scale is the token's: one multiplication for its score, not one for each of its values
            scores *= tl.load(key_scales_ptr + row, mask=seen, other=0.0)
        scores = tl.where(seen, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=0))
        p = tl.exp2(scores - new_peak)
        shrink = tl.exp2(peak - new_peak)
        weight = weight * shrink + tl.sum(p, axis=0)
        if FP8:
            p *= tl.load(value_scales_ptr + row, mask=seen, other=0.0)
        v = tl.load(values_ptr + at, mask=seen[:, None], other=0.0).to(tl.float32)
        total = total * shrink + tl.sum(p[:, None] * v, axis=0)
        peak = new_peak
    y = total / weight
    tl.store(y_ptr + b * q_stride_b + head * D + d, y.to(y_ptr.dtype.element_ty))


@dataclass
class Cache:
    """Pages for B requests of `lengths` tokens that grow by `new`, and no page more."""

    keys: Tensor
    values: Tensor
    key_scales: Tensor  # empty where the cache is fp16
    value_scales: Tensor
    table: Tensor  # int32 [B, width]
    lengths: Tensor  # int64 [B], beside the pages; grows only through the `after` of a call
    fp8: bool

    @classmethod
    def for_requests(cls, lengths: Tensor, new: int, like: Tensor, *, fp8: bool) -> "Cache":
        """lengths [B] in host memory, where an allocator keeps its books; like [B, L, H, D] says heads and device."""
        H, D = like.shape[2:]
        pages = (lengths + new + PAGE - 1) // PAGE
        used = torch.arange(int(pages.max()))[:, None] < pages[None, :]  # [width, B]
        table = torch.zeros(used.shape, dtype=torch.int32)
        total = int(pages.sum())
        table[used] = torch.arange(total, dtype=torch.int32)  # pages in the order in which requests come by for one
        rows = total * PAGE
        codes = torch.float8_e4m3fn if fp8 else like.dtype
        keys, values = (torch.empty((rows, H, D), dtype=codes, device=like.device) for _ in range(2))
        scales = [torch.empty((rows if fp8 else 0, H), dtype=torch.float32, device=like.device) for _ in range(2)]
        place = like.device
        return cls(keys, values, *scales, sent(table.t().contiguous(), place), sent(lengths, place), fp8)

    def store(self, k: Tensor, v: Tensor, starts: Tensor, counts: Tensor, after: int = 0) -> None:
        """k, v [B, T, H, D], the last two dimensions dense: counts[b] tokens from place starts[b] + after on."""
        B, T, H, D = k.shape
        block = min(BLOCK, triton.next_power_of_2(T))
        store_tokens[(B, H, triton.cdiv(T, block))](
            self.keys, self.values, self.key_scales, self.value_scales, self.table, self.table.shape[1], k, v,
            k.stride(0), k.stride(1), v.stride(0), v.stride(1), starts, counts, after, H, self.fp8, PAGE, block, D,
        )  # fmt: skip

    def attend(self, y: Tensor, q: Tensor, after: int) -> None:
        """q, y [B, H, D], of equal strides, the last two dimensions dense: attention over lengths[b] + after tokens."""
        B, H, D = q.shape
        attend_pages[(B, H)](
            y, q, q.stride(0), self.keys, self.values, self.key_scales, self.value_scales, self.table,
            self.table.shape[1], self.lengths, after, H, D**-0.5 * LOG2E, self.fp8, PAGE, BLOCK,
            STAGES_FP8 if self.fp8 else STAGES_FP16, D, num_warps=4,
        )  # fmt: skip


def decode(q: Tensor, k: Tensor, v: Tensor, new_k: Tensor, new_v: Tensor, lengths: Tensor, *, fp8: bool) -> Tensor:
    """Prompts into the cache, then G tokens one after the other: each is stored, and attends to all before it."""
    G = q.shape[1]
    cache = Cache.for_requests(lengths, G, k, fp8=fp8)
    ones = torch.ones_like(cache.lengths)
    cache.store(k, v, torch.zeros_like(ones), cache.lengths)
    y = torch.empty_like(q)
    for step in range(G):
        token = slice(step, step + 1)
        cache.store(new_k[:, token], new_v[:, token], cache.lengths, ones, step)
        cache.attend(y[:, step], q[:, step], step + 1)
    return y
