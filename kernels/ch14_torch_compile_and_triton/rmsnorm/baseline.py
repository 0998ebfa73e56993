"""The library's operator: one call, and on recent PyTorch one kernel."""

import torch.nn.functional as F
from definition import EPS
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N], w [N], bf16 -> [M, N] bf16
    return F.rms_norm(x, w.shape, w, EPS)
