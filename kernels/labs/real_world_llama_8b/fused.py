"""The layers with three Triton kernels between the matrix products: add and norm, rotation, SwiGLU.

Matrix products and attention stay with cuBLAS and SDPA. What lies between them is limited by bytes, so each kernel
reads what it needs once and writes what others need once.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from llama import EPS, attend, rotary_table

HEADS = 8  # of one position, in one program of the rotation
COLUMNS = 2048  # of one row, in one program of SwiGLU


@triton.jit
def add_norm_row(y_ptr, sum_ptr, x_ptr, branch_ptr, w_ptr, D, eps, BLOCK: tl.constexpr, ADD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    x = tl.load(x_ptr + row + columns, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        x += tl.load(branch_ptr + row + columns, mask=inside, other=0.0).to(tl.float32)
        rounded = x.to(tl.bfloat16)
        tl.store(sum_ptr + row + columns, rounded, mask=inside)
        x = rounded.to(tl.float32)  # the norm is of what the next layer will add to
    w = tl.load(w_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / D + eps) * w
    tl.store(y_ptr + row + columns, y.to(tl.bfloat16), mask=inside)


@triton.jit
def rotate_heads(
    qkv_ptr,  # [M, all heads, E]; the first `heads`, those of q and k, are turned in place
    cos_ptr,  # fp32 [S, E / 2], as is sin
    sin_ptr,
    S,
    heads,
    stride_row,
    E: tl.constexpr,
    HALF: tl.constexpr,  # E / 2, up to a power of two
    HEADS: tl.constexpr,
):
    row = tl.program_id(0)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    pair = tl.arange(0, HALF)
    angle = (row % S) * (E // 2) + pair
    cos = tl.load(cos_ptr + angle, mask=pair < E // 2, other=0.0)[None, :]
    sin = tl.load(sin_ptr + angle, mask=pair < E // 2, other=0.0)[None, :]
    inside = (head < heads)[:, None] & (pair < E // 2)[None, :]
    first = qkv_ptr + row.to(tl.int64) * stride_row + head[:, None] * E + pair[None, :]
    a = tl.load(first, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(first + E // 2, mask=inside, other=0.0).to(tl.float32)
    tl.store(first, (a * cos - b * sin).to(tl.bfloat16), mask=inside)
    tl.store(first + E // 2, (b * cos + a * sin).to(tl.bfloat16), mask=inside)


@triton.jit
def swiglu_row(a_ptr, gate_up_ptr, F, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < F
    gate = tl.load(gate_up_ptr + row * 2 * F + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + row * 2 * F + F + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(a_ptr + row * F + columns, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=inside)


def add_norm(
    x: torch.Tensor, branch: torch.Tensor | None, w: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:  # x, branch [M, D], w [D] -> x + branch and its norm, [M, D]
    M, D = x.shape
    y = torch.empty_like(x)
    total = x if branch is None else torch.empty_like(x)
    BLOCK = triton.next_power_of_2(D)
    add_norm_row[(M,)](
        y, total, x, x if branch is None else branch, w, D, EPS, BLOCK, branch is not None,
        num_warps=min(max(BLOCK // 512, 1), 16),
    )  # fmt: skip
    return total, y


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:  # [M, 2 F] -> [M, F]
    M, F = gate_up.shape[0], gate_up.shape[1] // 2
    a = torch.empty((M, F), dtype=gate_up.dtype, device=gate_up.device)
    swiglu_row[(M, triton.cdiv(F, COLUMNS))](a, gate_up, F, COLUMNS, num_warps=8)
    return a


def fused(*inputs: torch.Tensor) -> Callable[..., torch.Tensor]:
    """What a rung's prepare() gives: the layers with their table, to be called with the inputs."""
    S, E = inputs[0].shape[1], inputs[3].shape[-1]
    cos, sin = rotary_table(S, E, inputs[0].device)

    def forward(x, norms, w_qkv, w_o, w_gate_up, w_down) -> torch.Tensor:
        batch, heads = len(x), w_o.shape[2]
        kv_heads = (w_qkv.shape[1] - heads) // 2
        rotated = heads + kv_heads
        total, normed = add_norm(x.flatten(0, 1), None, norms[0, 0])
        for n in range(len(norms)):
            qkv = F.linear(normed, w_qkv[n].flatten(0, 1))
            rotate_heads[(len(qkv), triton.cdiv(rotated, HEADS))](
                qkv, cos, sin, S, rotated, qkv.shape[1], E, triton.next_power_of_2(E // 2), HEADS
            )
            q, k, v = qkv.view(batch, S, -1, E).transpose(1, 2).split((heads, kv_heads, kv_heads), dim=1)
            mixed = attend(q, k, v).transpose(1, 2).reshape(len(qkv), heads * E)
            total, normed = add_norm(total, F.linear(mixed, w_o[n].flatten(1)), norms[n, 1])
            branch = F.linear(swiglu(F.linear(normed, w_gate_up[n].flatten(0, 1))), w_down[n])
            if n + 1 < len(norms):  # the next layer's norm is part of this layer's sum
                total, normed = add_norm(total, branch, norms[n + 1, 0])
        return (total + branch).view_as(x)

    return forward
