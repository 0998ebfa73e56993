"""Wrong: the mean is taken to be zero. One sum less, and torch.randn has a mean of nearly zero.

This is RMSNorm with a bias. On centred random rows of 4096 it is off by some two per cent of the output's size.
"""

import torch.nn.functional as F
from definition import EPS
from torch import Tensor


def run(x: Tensor, r: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x, r [M, N], w, b [N], fp16 -> [M, N] fp16
    return F.rms_norm(x + r, w.shape, w, EPS) + b
