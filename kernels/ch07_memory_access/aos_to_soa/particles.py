"""The kernel that reads one field of the particles, `STRIDE` floats apart.

The kernel is the same for both layouts. In an array of structures an energy is followed by the next one 4 floats
(16 bytes) later, in a structure of arrays 1 float later; nothing else differs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048  # 16 loads in flight per thread, at 128 threads


@triton.jit
def energy_above_cut(out_ptr, energy_ptr, cut_ptr, L, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    cell = tl.program_id(0).to(tl.int64)  # int32 ends at 2**31 elements
    cut = tl.load(cut_ptr + cell)
    first = energy_ptr + cell * L * STRIDE
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, L, BLOCK):
        i = start + tl.arange(0, BLOCK)
        energy = tl.load(first + i.to(tl.int64) * STRIDE, mask=i < L, other=0.0)
        # A comparison, not a maximum: a NaN must not vanish, and what lies beyond the cell must count nothing.
        above = energy - cut
        total += tl.where((above < 0) | (i >= L), 0.0, above)
    tl.store(out_ptr + cell, tl.sum(total, axis=0))


def sum_above_cut(energies: Tensor, cut: Tensor, *, stride: int) -> Tensor:
    """Per cell, the sum of max(energy - cut, 0).

    Args:
        energies: a view [S, L] whose neighbours in a cell lie `stride` floats apart, and cells L * stride.
        cut: [S].
        stride: 4 in an array of structures, 1 in a structure of arrays.
    """
    S, L = energies.shape
    out = torch.empty((S,), dtype=energies.dtype, device=energies.device)
    energy_above_cut[(S,)](out, energies, cut, L, stride, BLOCK)
    return out
