"""A program for every row, the longest rows first: sorted in the call, since lengths come with the data."""

import torch
import triton
import triton.language as tl
from rows import BLOCK, NUM_WARPS, one_row


@triton.jit
def row_in_order(energy_ptr, values_ptr, offsets_ptr, order_ptr, BLOCK: tl.constexpr):
    row = tl.load(order_ptr + tl.program_id(0))
    one_row(energy_ptr, values_ptr, offsets_ptr, row, BLOCK)


def run(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:  # [TOTAL], [R + 1] -> [R]
    R = offsets.numel() - 1
    energy = torch.empty(R, dtype=values.dtype, device=values.device)
    order = torch.argsort(offsets.diff(), descending=True)
    row_in_order[(R,)](energy, values, offsets, order, BLOCK, num_warps=NUM_WARPS)
    return energy
