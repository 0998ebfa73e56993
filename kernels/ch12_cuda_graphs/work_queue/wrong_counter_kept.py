"""Wrong: the counter is made once and never set back, so the second call finds an empty queue and does nothing.

The output starts as zeros: what is never written must not look right because the memory held an earlier answer.
"""

from collections.abc import Callable

import torch
from optimized import from_queue
from rows import BLOCK, GRAB, NUM_WARPS, program_count


def prepare(values: torch.Tensor, offsets: torch.Tensor) -> Callable[..., torch.Tensor]:
    counter = torch.zeros(1, dtype=torch.int32, device=values.device)

    def step(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        R = offsets.numel() - 1
        energy = torch.zeros(R, dtype=values.dtype, device=values.device)
        from_queue[(program_count(values),)](energy, values, offsets, counter, R, GRAB, BLOCK, num_warps=NUM_WARPS)
        return energy

    step(values, offsets)  # compiles, before the clock starts; it also empties the queue
    return step


def run(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:  # [TOTAL], [R + 1] -> [R]
    return prepare(values, offsets)(values, offsets)
