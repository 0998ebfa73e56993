"""The bytes copied as they are, then one Triton kernel: widen, turn, scale and shift between a read and a write."""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from normalizing import affine
from torch import Tensor

BLOCK = 1024  # pixels of one image per program


@triton.jit
def normalize_block(y_ptr, x_ptr, scale_ptr, shift_ptr, pixels, C: tl.constexpr, BLOCK: tl.constexpr):
    image = tl.program_id(1).to(tl.int64) * pixels * C  # int32 ends at 2**31 elements
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = tl.cast(pixels, tl.int64)  # not pixels.to(): an argument that is 1 is a constant, and has no methods
    inside = pixel < pixels
    # The three loads touch the same cache lines, 3 bytes apart: the second and third find them in the L1.
    for c in tl.static_range(C):
        byte = tl.load(x_ptr + image + pixel.to(tl.int64) * C + c, mask=inside, other=0)
        y = byte.to(tl.float32) * tl.load(scale_ptr + c) + tl.load(shift_ptr + c)
        tl.store(y_ptr + image + c * plane + pixel, y, mask=inside)


def prepare(images: Tensor, mean: Tensor, std: Tensor) -> Callable[..., Tensor]:
    B, H, W, C = images.shape
    scale, shift = affine(mean, std)

    def step(images: Tensor, *_: Tensor) -> Tensor:
        x = images.to(mean.device, non_blocking=True)
        y = torch.empty(B, C, H, W, device=mean.device)
        normalize_block[(triton.cdiv(H * W, BLOCK), B)](y, x, scale, shift, H * W, C, BLOCK)
        return y

    return step


def run(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:  # uint8 [B, H, W, 3], [3], [3] -> [B, 3, H, W]
    return prepare(images, mean, std)(images)
