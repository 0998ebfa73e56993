"""Wrong: a query sees the key after its own. Right for one query, whose next key does not exist."""

import math

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def attention_rows(
    y_ptr, q_ptr, k_ptr, v_ptr, T, S, scale,
    BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr, D: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    query = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    key = tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    q_tile = head * T * D + query[:, None] * D + d[None, :]
    k_tile = head * S * D + key[:, None] * D + d[None, :]
    q = tl.load(q_ptr + q_tile, mask=(query < T)[:, None], other=0.0)
    k = tl.load(k_ptr + k_tile, mask=(key < S)[:, None], other=0.0)
    v = tl.load(v_ptr + k_tile, mask=(key < S)[:, None], other=0.0)
    if UPCAST:  # Triton's interpreter has no bf16 arithmetic; a GPU would lose its fast path
        q = q.to(tl.float32)
        k = k.to(tl.float32)
        v = v.to(tl.float32)
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    visible = (key < S)[None, :] & (key[None, :] <= query[:, None] + (S - T) + 1)
    scores = tl.where(visible, scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    total = tl.sum(weights, axis=1)
    y = tl.dot(weights.to(v.dtype), v, input_precision="ieee") / total[:, None]
    tl.store(y_ptr + q_tile, y.to(y_ptr.dtype.element_ty), mask=(query < T)[:, None])


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # q [B, H, T, D], k and v [B, H, PAST + T, D] -> [B, H, T, D]
    B, H, T, D = q.shape
    S = k.shape[2]
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    y = q.new_empty(q.shape)
    attention_rows[(B * H, triton.cdiv(T, 16))](
        y, q, k, v, T, S, 1.0 / math.sqrt(D),
        BLOCK_T=16, BLOCK_S=max(16, triton.next_power_of_2(S)), D=D, UPCAST=not q.is_cuda,
    )  # fmt: skip
    return y
