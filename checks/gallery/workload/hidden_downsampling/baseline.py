"""225 additions a pixel."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [B, H, W] fp32 -> [B, H, W]
    return torch.nn.functional.avg_pool2d(x[:, None], 15, stride=1, padding=7)[:, 0]
