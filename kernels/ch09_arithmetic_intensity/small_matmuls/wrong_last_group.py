"""Wrong: goes in groups of 16 pairs, to bound the workspace, and forgets the group that is not full.

Right wherever 16 divides B. The output starts as zeros, so that stale memory cannot look right.
"""

import torch
from torch import Tensor

GROUP = 16


def run(a: Tensor, b: Tensor) -> Tensor:  # a [B, M, K], b [B, K, N] fp16 -> [B, M, N] fp16
    c = torch.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype=a.dtype, device=a.device)
    for group in range(a.shape[0] // GROUP):
        pairs = slice(group * GROUP, (group + 1) * GROUP)
        c[pairs] = torch.bmm(a[pairs], b[pairs])
    return c
