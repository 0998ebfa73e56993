"""Persistent programs that take tickets from a counter: who is free does the next rows."""

import torch
import triton
import triton.language as tl
from rows import BLOCK, GRAB, NUM_WARPS, one_row, program_count


@triton.jit
def from_queue(energy_ptr, values_ptr, offsets_ptr, counter_ptr, R, GRAB: tl.constexpr, BLOCK: tl.constexpr):
    # Relaxed: nobody reads what another program has written, so a ticket orders nothing but itself.
    first = tl.atomic_add(counter_ptr, GRAB, sem="relaxed")  # rows first to first + GRAB - 1 are ours alone
    while first < R:
        row = first
        last = tl.minimum(first + GRAB, R)
        while row < last:
            one_row(energy_ptr, values_ptr, offsets_ptr, row, BLOCK)
            row += 1
        first = tl.atomic_add(counter_ptr, GRAB, sem="relaxed")


def run(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:  # [TOTAL], [R + 1] -> [R]
    R = offsets.numel() - 1
    energy = torch.empty(R, dtype=values.dtype, device=values.device)
    counter = torch.zeros(1, dtype=torch.int32, device=values.device)  # a queue belongs to one call
    from_queue[(program_count(values),)](energy, values, offsets, counter, R, GRAB, BLOCK, num_warps=NUM_WARPS)
    return energy
