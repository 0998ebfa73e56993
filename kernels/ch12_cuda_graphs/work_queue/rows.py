"""One row's sum of squares in Triton, and how many programs share the rows: the same in every rung."""

import torch
import triton
import triton.language as tl

BLOCK = 4096  # elements at a time, 16 KB in flight per program; the mean row is one block
NUM_WARPS = 8  # 16 elements per thread
GRAB = 1  # neighbouring rows per ticket
PROGRAMS_PER_SM = 4  # half of the warps that an SM can hold: what the registers allow
PROGRAMS_IN_INTERPRETER = 4


@triton.jit
def one_row(energy_ptr, values_ptr, offsets_ptr, row, BLOCK: tl.constexpr):
    """Square and add the values of one row, block by block; an empty row gives 0."""
    start = tl.load(offsets_ptr + row)  # int64: there may be more than 2**31 values
    end = tl.load(offsets_ptr + row + 1)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    while start < end:
        x = tl.load(values_ptr + start + lanes, mask=start + lanes < end, other=0.0)
        total += x * x
        start += BLOCK
    tl.store(energy_ptr + row, tl.sum(total, axis=0))


def program_count(values: torch.Tensor) -> int:
    """How many persistent programs: as many as the GPU runs at once; a few in the interpreter."""
    if not values.is_cuda:
        return PROGRAMS_IN_INTERPRETER
    return torch.cuda.get_device_properties(values.device).multi_processor_count * PROGRAMS_PER_SM
