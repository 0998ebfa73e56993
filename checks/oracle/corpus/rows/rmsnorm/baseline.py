"""The library's operator."""

import torch.nn.functional as F
from definition import EPS
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N], w [N] -> [M, N]
    return F.rms_norm(x, w.shape, w, EPS)
