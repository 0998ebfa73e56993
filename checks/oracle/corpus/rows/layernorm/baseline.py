"""The library's operator."""

import torch.nn.functional as F
from definition import EPS
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, N], w [N], b [N] -> [M, N]
    return F.layer_norm(x, w.shape, w, b, EPS)
