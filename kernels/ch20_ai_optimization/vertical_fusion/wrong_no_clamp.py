"""Wrong: the clamp is gone, because "pixels are between 0 and 1 anyway".

They were, before brightness and contrast. With both near 1 hardly a pixel leaves the range, and on such a test this
passes.
"""

import torch
from torch import Tensor


def run(
    x: Tensor, brightness: Tensor, contrast: Tensor, tone: Tensor, vignette: Tensor, mean: Tensor, std: Tensor
) -> Tensor:
    brightness, contrast, tone = (each[:, None, None, None] for each in (brightness, contrast, tone))
    mean, std = (each[:, None, None] for each in (mean, std))
    v = torch.addcmul(0.5 - 0.5 * contrast, x, brightness * contrast)
    curve = v * v * (3.0 - 2.0 * v)
    return (torch.lerp(v, curve, tone) * vignette - mean) / std
