"""Wrong: unpacks two bf16 from a 32-bit word and packs them again upper half first.

The element at the lower address is the *lower* half of the word. Every value is right, and beside its place: sums,
norms and histograms of the output cannot tell.
"""

import torch
from factor import FACTOR
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [N] bf16 -> [N] bf16
    even = x.numel() // 2 * 2
    words = x[:even].view(torch.int32)
    lower = (words << 16).view(torch.float32)  # a bf16 is the upper half of an fp32
    upper = (words & -65536).view(torch.float32)
    y = torch.zeros_like(x)
    y[:even] = (torch.stack((upper, lower), dim=1).flatten() * FACTOR).to(x.dtype)
    y[even:] = x[even:] * FACTOR
    return y
