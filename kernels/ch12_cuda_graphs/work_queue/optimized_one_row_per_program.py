"""A program for every row: the block scheduler gives the next row to whichever SM has room."""

import torch
import triton
import triton.language as tl
from rows import BLOCK, NUM_WARPS, one_row


@triton.jit
def row_each(energy_ptr, values_ptr, offsets_ptr, BLOCK: tl.constexpr):
    one_row(energy_ptr, values_ptr, offsets_ptr, tl.program_id(0), BLOCK)


def run(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:  # [TOTAL], [R + 1] -> [R]
    R = offsets.numel() - 1
    energy = torch.empty(R, dtype=values.dtype, device=values.device)
    row_each[(R,)](energy, values, offsets, BLOCK, num_warps=NUM_WARPS)
    return energy
