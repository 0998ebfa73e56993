"""Blocks four times as large, 96 MB of x and y: as many launches saved, and no block stays in the cache."""

import torch
from chain import block_elements, horner_into
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [N] -> [N]
    y = torch.empty_like(x)
    block = 4 * block_elements(x.device)
    for x_block, y_block in zip(x.split(block), y.split(block), strict=True):
        horner_into(y_block, x_block)
    return y
