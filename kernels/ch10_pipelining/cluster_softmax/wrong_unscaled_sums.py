"""Wrong: the slices' sums are added as they are, though each was taken against its own slice's maximum.

Right where all slices have the same maximum: constant rows, sorted tests that repeat, or one slice. Rows of random
numbers have nearly the same maximum everywhere, and are off by some ten percent.
"""

import torch
from torch import Tensor

BLOCKS = 8


def run(x: Tensor) -> Tensor:  # x [M, N] bf16 -> [M, N] bf16
    slices = x.float().tensor_split(BLOCKS, dim=1)
    slices = [part for part in slices if part.shape[1]]
    maxima = [part.amax(dim=1, keepdim=True) for part in slices]
    maximum = torch.cat(maxima, dim=1).amax(dim=1, keepdim=True)
    sums = [torch.exp(part - own).sum(dim=1, keepdim=True) for part, own in zip(slices, maxima, strict=True)]
    total = torch.cat(sums, dim=1).sum(dim=1, keepdim=True)  # each has to be scaled by exp(own - maximum) first
    return (torch.exp(x.float() - maximum) / total).to(x.dtype)
