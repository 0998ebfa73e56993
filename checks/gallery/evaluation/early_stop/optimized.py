"""The first quarter of a long row, and the rest of the rows in which that had nothing."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [B, N] fp32 -> [B]
    width = x.shape[1]
    quarter = width // 4 if width >= 16384 else width
    best, first = (x[:, :quarter] > 2.5).to(torch.uint8).max(1)
    first = torch.where(best > 0, first, width)
    open_rows = (best == 0).nonzero().reshape(-1)
    if open_rows.numel() and quarter < width:
        best, later = (x[open_rows, quarter:] > 2.5).to(torch.uint8).max(1)
        first[open_rows] = torch.where(best > 0, later + quarter, width)
    return first
