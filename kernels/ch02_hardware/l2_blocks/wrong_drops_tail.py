"""Wrong: whole blocks only. What is left over is never computed, though the loop looks complete."""

import torch
from chain import block_elements, horner_into
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [N] -> [N]
    y = torch.zeros_like(x)
    block = block_elements(x.device)
    for start in range(0, x.numel() // block * block, block):
        horner_into(y[start : start + block], x[start : start + block])
    return y
