"""How four-bit weights lie in memory, and the plain way back.

A row of K weights is cut into groups of 128, which share a scale. Byte b of a group's 64 holds weight b in its low
nibble and weight b + 64 in its high one: a kernel that takes 64 bytes gets two runs of 64 neighbouring weights, and
never has to interleave. A nibble n stands for (n - 8) * scale.
"""

import torch
from torch import Tensor

GROUP = 128
ZERO = 8


def unpacked(packed: Tensor, scales: Tensor) -> Tensor:  # packed [N, K/2] uint8, scales [K/128, N] -> [N, K]
    N, half = packed.shape
    groups = packed.view(N, half // (GROUP // 2), GROUP // 2)
    nibbles = torch.cat((groups & 15, groups >> 4), dim=-1)  # [N, K/128, 128]
    return ((nibbles.to(scales.dtype) - ZERO) * scales.T[:, :, None]).view(N, 2 * half)
