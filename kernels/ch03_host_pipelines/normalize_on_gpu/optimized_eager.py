"""The bytes copied as they are, then the same three operators on the GPU."""

from collections.abc import Callable

import torch
from normalizing import affine, normalize
from torch import Tensor


def prepare(images: Tensor, mean: Tensor, std: Tensor) -> Callable[..., Tensor]:
    B, H, W, C = images.shape
    scale, shift = affine(mean, std)

    def step(images: Tensor, *_: Tensor) -> Tensor:
        y = torch.empty(B, C, H, W, device=mean.device)
        return normalize(y, images.to(mean.device, non_blocking=True), scale, shift)

    return step


def run(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:  # uint8 [B, H, W, 3], [3], [3] -> [B, 3, H, W]
    return prepare(images, mean, std)(images)
