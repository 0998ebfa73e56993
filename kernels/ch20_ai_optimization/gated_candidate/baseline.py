"""The task as it was given to the optimizer: an addition and the library's operator. Two kernels."""

import torch.nn.functional as F
from definition import EPS
from torch import Tensor


def run(x: Tensor, r: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x, r [M, N], w, b [N], fp16 -> [M, N] fp16
    return F.layer_norm(x + r, w.shape, w, b, EPS)
