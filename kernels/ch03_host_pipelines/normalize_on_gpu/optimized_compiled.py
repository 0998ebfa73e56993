"""The bytes copied as they are, then the three operators fused into one kernel by torch.compile."""

from collections.abc import Callable

import torch
from normalizing import affine
from torch import Tensor


def normalized(images: Tensor, scale: Tensor, shift: Tensor) -> Tensor:  # [B, H, W, 3], [3, 1, 1] -> [B, 3, H, W]
    planes = images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    return planes * scale + shift


compiled = torch.compile(normalized, dynamic=False)


def prepare(images: Tensor, mean: Tensor, std: Tensor) -> Callable[..., Tensor]:
    scale, shift = affine(mean, std)
    compiled(images.to(mean.device), scale, shift)  # compiles for this shape, before the clock starts

    def step(images: Tensor, *_: Tensor) -> Tensor:
        return compiled(images.to(mean.device, non_blocking=True), scale, shift)

    return step


def run(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:  # uint8 [B, H, W, 3], [3], [3] -> [B, 3, H, W]
    return prepare(images, mean, std)(images)
