"""Rows dealt like cards: static as well, but a run of long rows falls to as many programs."""

import torch
import triton
import triton.language as tl
from rows import BLOCK, NUM_WARPS, one_row, program_count


@triton.jit
def dealt(energy_ptr, values_ptr, offsets_ptr, R, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    while row < R:
        one_row(energy_ptr, values_ptr, offsets_ptr, row, BLOCK)
        row += tl.num_programs(0)


def run(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:  # [TOTAL], [R + 1] -> [R]
    R = offsets.numel() - 1
    energy = torch.empty(R, dtype=values.dtype, device=values.device)
    dealt[(program_count(values),)](energy, values, offsets, R, BLOCK, num_warps=NUM_WARPS)
    return energy
