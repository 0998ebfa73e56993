"""15 additions along the rows, 15 along the columns."""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [B, H, W] fp32 -> [B, H, W]
    pool = torch.nn.functional.avg_pool2d
    rows = pool(x[:, None], (1, 15), stride=1, padding=(0, 7))
    return pool(rows, (15, 1), stride=1, padding=(7, 0))[:, 0]
