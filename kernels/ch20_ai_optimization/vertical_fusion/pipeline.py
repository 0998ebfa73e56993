"""The thirteen steps, one line each, as an augmentation library writes them down."""

import torch
from torch import Tensor


def augment(
    x: Tensor,  # [B, C, H, W]
    brightness: Tensor,  # [B], as are contrast and tone
    contrast: Tensor,
    tone: Tensor,
    vignette: Tensor,  # [H, W]
    mean: Tensor,  # [C], as is std
    std: Tensor,
) -> Tensor:
    brightness, contrast, tone = (each[:, None, None, None] for each in (brightness, contrast, tone))
    mean, std = (each[:, None, None] for each in (mean, std))
    v = x * brightness
    v = v - 0.5
    v = v * contrast
    v = v + 0.5
    v = v.clamp(0.0, 1.0)
    square = v * v
    slope = v * 2.0
    slope = 3.0 - slope
    curve = square * slope  # 3 v^2 - 2 v^3: dark darker, bright brighter
    v = torch.lerp(v, curve, tone)
    v = v * vignette
    v = v - mean
    return v / std
