"""Wrong: turns elements 2 i and 2 i + 1 together, where these weights mean i and i + E / 2.

Both layouts are in use, and checkpoints are converted from one to the other. Each is a proper rotary embedding: norms
are kept, scores depend on distance alone, position 0 is exact. Only the weights know which one they were trained for.
"""

from collections.abc import Callable

import torch
from llama import attend, eager, rotary_table


def prepare(*inputs: torch.Tensor) -> Callable[..., torch.Tensor]:
    x, w_o = inputs[0], inputs[3]
    width = w_o.shape[-1]
    cos, sin = (part.to(x.dtype) for part in rotary_table(x.shape[1], width, x.device))
    whole_cos, whole_sin = (torch.cat((part, part), dim=-1) for part in (cos, sin))

    def neighbours(turned: torch.Tensor) -> torch.Tensor:
        # The shared code has turned halves; turn back, then turn neighbours.
        first, second = turned.chunk(2, dim=-1)
        x = turned * whole_cos - torch.cat((-second, first), dim=-1) * whole_sin
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    return eager(*inputs, attend=lambda q, k, v: attend(neighbours(q), neighbours(k), v))


def run(*inputs: torch.Tensor) -> torch.Tensor:  # x [B, S, D], then the weights -> [B, S, D]
    return prepare(*inputs)(*inputs)
