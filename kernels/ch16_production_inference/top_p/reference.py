"""The truth, in whole numbers: kept[b, v] says whether the weights above weights[b, v] hold less than P % of row b.

weights [B, V], from 0 to 2**BITS - 1. Equal weights share their fate.
"""

import torch
from definition import P
from torch import Tensor


def run(weights: Tensor) -> Tensor:
    kept = []
    for row in weights.long():  # one at a time: the truth need not be fast
        values, counts = row.unique(return_counts=True)  # ascending
        held = values * counts
        above = held.sum() - held.cumsum(0)  # weight strictly above each value
        inside = 100 * above < P * held.sum()
        kept.append(inside[torch.searchsorted(values, row)])
    return torch.stack(kept)
