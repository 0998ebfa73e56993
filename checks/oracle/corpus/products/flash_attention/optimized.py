"""Triton: attention with an online softmax; a row of scores never exists as a whole."""

import math

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def flash_rows(
    y_ptr, q_ptr, k_ptr, v_ptr, T, scale,
    BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64) * T * D  # int32 ends at 2**31 elements
    query = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q_tile = head + query[:, None].to(tl.int64) * D + d[None, :]
    q = tl.load(q_ptr + q_tile, mask=(query < T)[:, None], other=0.0)
    if UPCAST:  # Triton's interpreter has no bf16 arithmetic; a GPU would lose its fast path
        q = q.to(tl.float32)
    largest = tl.full((BLOCK_T,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_T,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_T, D), dtype=tl.float32)
    for start in range(0, T, BLOCK_S):
        key = start + tl.arange(0, BLOCK_S)
        k_tile = head + key[:, None].to(tl.int64) * D + d[None, :]
        k = tl.load(k_ptr + k_tile, mask=(key < T)[:, None], other=0.0)
        v = tl.load(v_ptr + k_tile, mask=(key < T)[:, None], other=0.0)
        if UPCAST:
            k = k.to(tl.float32)
            v = v.to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        visible = (key < T)[None, :]
        if CAUSAL:
            visible = visible & (key[None, :] <= query[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        higher = tl.maximum(largest, tl.max(scores, axis=1))
        # -inf - -inf is NaN: as long as nothing finite was seen, 0 stands in.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp(scores - base[:, None]).to(v.dtype)
        shrink = tl.exp(largest - base)  # what was summed so far belongs to the old maximum
        total = total * shrink + tl.sum(weights.to(tl.float32), axis=1)
        acc = tl.dot(weights, v, acc * shrink[:, None], input_precision="ieee")
        largest = higher
    y = acc / total[:, None]
    tl.store(y_ptr + q_tile, y.to(y_ptr.dtype.element_ty), mask=(query < T)[:, None])


def run(q: Tensor, k: Tensor, v: Tensor, causal: Tensor) -> Tensor:  # q, k, v [B, H, T, D], causal [1] -> [B, H, T, D]
    B, H, T, D = q.shape
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    y = q.new_empty(q.shape)
    flash_rows[(B * H, triton.cdiv(T, 64))](
        y, q, k, v, T, 1.0 / math.sqrt(D),
        BLOCK_T=64, BLOCK_S=32, D=D, CAUSAL=bool(causal), UPCAST=not q.is_cuda,
    )  # fmt: skip
    return y
