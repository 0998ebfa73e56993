"""Wrong: the end of the queue is counted in whole tickets, so rows beyond the last multiple of four are never done.

The output starts as zeros: what is never written must not look right because the memory held an earlier answer.
"""

import torch
from optimized import from_queue
from rows import BLOCK, NUM_WARPS, program_count

GRAB = 4  # rows per ticket: fewer atomics, which is a fine idea by itself


def run(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:  # [TOTAL], [R + 1] -> [R]
    R = offsets.numel() - 1
    energy = torch.zeros(R, dtype=values.dtype, device=values.device)
    counter = torch.zeros(1, dtype=torch.int32, device=values.device)
    from_queue[(program_count(values),)](
        energy, values, offsets, counter, R // GRAB * GRAB, GRAB, BLOCK, num_warps=NUM_WARPS
    )
    return energy
