"""The truth, in fp64: brightness, contrast around 0.5, clamp, a tone curve mixed in, vignette, normalisation.

x, y [B, C, H, W]; brightness, contrast and tone per image [B]; vignette per pixel [H, W]; mean and std per channel [C].
"""

from torch import Tensor


def run(
    x: Tensor, brightness: Tensor, contrast: Tensor, tone: Tensor, vignette: Tensor, mean: Tensor, std: Tensor
) -> Tensor:
    v = (x * brightness.view(-1, 1, 1, 1) - 0.5) * contrast.view(-1, 1, 1, 1) + 0.5
    v = v.clamp(0, 1)
    v = v + tone.view(-1, 1, 1, 1) * (3 * v**2 - 2 * v**3 - v)
    return (v * vignette - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)
