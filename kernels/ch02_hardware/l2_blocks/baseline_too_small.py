"""Blocks a sixteenth as large, 1.5 MB of x and y: surely in the cache, and 4,100 launches."""

import torch
from chain import block_elements, horner_into
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [N] -> [N]
    y = torch.empty_like(x)
    block = block_elements(x.device) // 16
    for x_block, y_block in zip(x.split(block), y.split(block), strict=True):
        horner_into(y_block, x_block)
    return y
