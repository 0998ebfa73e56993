"""The truth, in fp64: y[b, c, h, w] = (images[b, h, w, c] / 255 - mean[c]) / std[c]."""

from torch import Tensor


def run(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:  # uint8 [B, H, W, 3], [3], [3] -> [B, 3, H, W]
    scaled = images.to(mean.device).double() / 255
    return ((scaled - mean) / std).permute(0, 3, 1, 2).contiguous()
