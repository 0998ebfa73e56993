"""Wrong: totals of 16 bits. They wrap at 32768, which 262144 uniform bytes never reach: each value comes 1024 times.

Any test on random bytes of that size passes, and so does one on two values in 20011 bytes. A black picture has one
value alone.
"""

import torch
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [N] uint8 -> [256] int64
    return torch.bincount(x, minlength=256).to(torch.int16).to(torch.int64)
