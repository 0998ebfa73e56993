"""Normalised on the host into page-locked floats, then copied: four bytes a value cross the bus."""

from collections.abc import Callable

import torch
from normalizing import Sent, affine, normalize
from torch import Tensor


def prepare(images: Tensor, mean: Tensor, std: Tensor) -> Callable[..., Tensor]:
    B, H, W, C = images.shape
    device = mean.device
    scale, shift = affine(mean.cpu(), std.cpu())
    staging = torch.empty(B, C, H, W, pin_memory=device.type == "cuda")
    sent = Sent(device)

    def step(images: Tensor, *_: Tensor) -> Tensor:
        sent.wait()
        normalize(staging, images, scale, shift)
        y = torch.empty(staging.shape, device=device)
        y.copy_(staging, non_blocking=True)
        sent.mark()
        return y

    return step


def run(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:  # uint8 [B, H, W, 3], [3], [3] -> [B, 3, H, W]
    return prepare(images, mean, std)(images)
