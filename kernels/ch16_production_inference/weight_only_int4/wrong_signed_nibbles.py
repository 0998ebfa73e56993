"""Wrong: reads a nibble as a signed number, -8 .. 7 in two's complement, where the format means nibble - 8.

Both have the same sixteen values. Weights of either sign come out with the other one, 8 away from where they belong.
"""

import torch
import torch.nn.functional as F
from packing import GROUP
from torch import Tensor


def run(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    N, half = packed.shape
    groups = packed.view(N, half // (GROUP // 2), GROUP // 2)
    nibbles = torch.cat((groups & 15, groups >> 4), dim=-1).to(torch.int8)
    signed = torch.where(nibbles > 7, nibbles - 16, nibbles)
    weight = (signed.to(scales.dtype) * scales.T[:, :, None]).view(N, 2 * half)
    return F.linear(x, weight)
