"""Wrong: `N // BLOCK` programs. The elements after the last whole block are never written.

The mistake that comes with every widening: N counts vectors now, and what is no whole vector has no thread. Right for
every power of two. The output starts as zeros, so that stale memory cannot look right.
"""

import torch
import triton
import triton.language as tl
from factor import FACTOR
from torch import Tensor

BLOCK = 1024


@triton.jit
def scale_block(y_ptr, x_ptr, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i) * factor)


def run(x: Tensor) -> Tensor:  # x [N] -> [N]
    y = torch.zeros_like(x)
    whole_blocks = x.numel() // BLOCK
    if whole_blocks:
        scale_block[(whole_blocks,)](y, x, FACTOR, BLOCK)
    return y
