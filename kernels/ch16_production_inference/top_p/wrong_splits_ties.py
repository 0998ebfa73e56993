"""Wrong: cuts the sorted row at a position, so that of equal weights at the cut some are kept and some are not.

Which ones is up to the sort, and another sort, another batch or another GPU decides otherwise.
"""

import torch
from definition import P
from torch import Tensor


def run(weights: Tensor) -> Tensor:
    values, place = weights.sort(dim=-1, descending=True)
    held = values.cumsum(dim=-1)
    inside = 100 * (held - values) < P * held[:, -1:]
    return torch.zeros_like(inside).scatter_(1, place, inside)
