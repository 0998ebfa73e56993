"""Every fourth pixel each way, blown up."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [B, H, W] fp32 -> [B, H, W]
    F = torch.nn.functional
    small = F.avg_pool2d(x[:, None], 15, stride=4, padding=7)
    return F.interpolate(small, size=x.shape[1:], mode="nearest")[:, 0]
