"""Wrong: takes the high four bits of a weight's byte for the first of its two values; the activations' are right.

Each value is used once, under the right scale, and the output has the right spread: it is noise. Had both operands been
read so, every digit would be right, since exchanging places along K in both leaves a product as it was.
"""

import torch
from formats import dequantise, pairs
from torch import Tensor


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, scale: Tensor) -> Tensor:
    table = pairs(a.device)
    y = torch.mm(dequantise(a, a_scale, table), dequantise(b, b_scale, table.flip(1)).t())
    return (y * scale).to(torch.bfloat16)
