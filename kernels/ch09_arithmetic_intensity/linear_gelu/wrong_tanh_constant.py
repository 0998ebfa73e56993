"""Wrong: 0.44715 for 0.044715.

A plausible curve with all the right limits: 0 at 0, h for large h, 0 for very negative h.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [N, K], b [N], bf16 -> [M, N] bf16
    h = F.linear(x, w, b).float()
    y = 0.5 * h * (1.0 + torch.tanh(0.7978845608028654 * (h + 0.44715 * h**3)))
    return y.to(x.dtype)
