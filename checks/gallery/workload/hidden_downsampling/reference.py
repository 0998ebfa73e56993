"""The truth: y [B, H, W], the mean of 15 by 15 pixels around each of x [B, H, W], zeros beyond the edge."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:
    return torch.nn.functional.avg_pool2d(x[:, None], 15, stride=1, padding=7)[:, 0]
