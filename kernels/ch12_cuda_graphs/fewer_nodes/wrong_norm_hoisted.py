"""Wrong: the norm is computed once, before the loop, and every layer after the first uses that of the input."""

import torch
import triton
import triton.language as tl
from chain import EPS


@triton.jit
def all_layers(y_ptr, x_ptr, scale_ptr, gate_ptr, D, EPS: tl.constexpr, LAYERS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * D  # int32 ends at 2**31 elements
    cols = tl.arange(0, BLOCK)
    inside = cols < D
    x = tl.load(x_ptr + row + cols, mask=inside, other=0.0)
    inverse = tl.rsqrt(tl.sum(x * x, axis=0) / D + EPS)
    for layer in tl.static_range(LAYERS):
        scale = tl.load(scale_ptr + layer * D + cols, mask=inside, other=0.0)
        gate = tl.load(gate_ptr + layer * D + cols, mask=inside, other=0.0)
        n = x * inverse * scale
        x += n * tl.sigmoid(n) * gate
    tl.store(y_ptr + row + cols, x, mask=inside)


def run(x: torch.Tensor, scale: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:  # [B, D], [LAYERS, D] twice
    B, D = x.shape
    y = torch.empty_like(x)
    all_layers[(B,)](y, x, scale, gate, D, EPS, scale.shape[0], triton.next_power_of_2(D), num_warps=4)
    return y
