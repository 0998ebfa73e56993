"""Wrong: gives the bytes the shape [B, 3, H, W] without turning them. Shape, dtype, range and mean look right.

Each plane then holds a third of the picture's rows, with red, green and blue side by side.
"""

import torch
from normalizing import affine
from torch import Tensor


def run(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:  # uint8 [B, H, W, 3], [3], [3] -> [B, 3, H, W]
    B, H, W, C = images.shape
    scale, shift = affine(mean, std)
    planes = images.to(mean.device, non_blocking=True).view(B, C, H, W)
    return planes.to(torch.float32).mul_(scale).add_(shift)
