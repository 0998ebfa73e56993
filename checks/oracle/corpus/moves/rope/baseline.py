"""Eager operators, as models write it: turn the halves, double the angles, two products and a sum, in fp32.

In bf16 each product would be rounded before the sum, which may cancel.
"""

import torch
from torch import Tensor


def run(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:  # x [T, H, D], cos and sin [T, D/2] -> [T, H, D]
    h = x.float()
    first, second = h.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    c, s = (torch.cat((part, part), dim=-1)[:, None].float() for part in (cos, sin))
    return (h * c + turned * s).to(x.dtype)
