"""Wrong: particles beyond the cell's end are loaded as zeros, and zero minus a negative cut is counted.

Padding with zeros is right for a sum. This is the sum of max(energy - cut, 0): with a cut of -1 each of the padded
lanes adds 1. Right wherever the block divides L, and in every cell whose cut is positive.
"""

import torch
import triton
import triton.language as tl
from layout import packed_energies
from particles import BLOCK
from torch import Tensor


@triton.jit
def energy_above_cut(out_ptr, energy_ptr, cut_ptr, L, BLOCK: tl.constexpr):
    cell = tl.program_id(0).to(tl.int64)
    cut = tl.load(cut_ptr + cell)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, L, BLOCK):
        i = start + tl.arange(0, BLOCK)
        above = tl.load(energy_ptr + cell * L + i, mask=i < L, other=0.0) - cut
        total += tl.where(above < 0, 0.0, above)
    tl.store(out_ptr + cell, tl.sum(total, axis=0))


def run(particles: Tensor, cut: Tensor) -> Tensor:  # particles [S, L, 4], cut [S] -> [S]
    S, L, _ = particles.shape
    out = torch.zeros((S,), dtype=particles.dtype, device=particles.device)
    energy_above_cut[(S,)](out, packed_energies(particles), cut, L, BLOCK)
    return out
