"""Wrong: the merged log-sum-exp is the larger one of the two. The outputs are right, and the next merge is not.

Off by log 2 at the most, and by nothing where one half holds all the weight. Who tests y alone never sees it; with
eight parts merged one after the other the last one weighs up to twice what it should.
"""

import torch
import triton
from optimized import ELEMENTS, merge_rows
from torch import Tensor


def run(a: Tensor, b: Tensor, la: Tensor, lb: Tensor) -> tuple[Tensor, Tensor]:
    T, H, D = a.shape
    y = torch.zeros_like(a)
    lse = torch.zeros_like(la)
    WIDTH = triton.next_power_of_2(D)
    ROWS = max(1, ELEMENTS // WIDTH)
    merge_rows[(triton.cdiv(T * H, ROWS),)](y, lse, a, b, la, lb, T * H, D, ROWS, WIDTH, num_warps=4)
    return y, torch.maximum(la, lb)
