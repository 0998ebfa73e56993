"""Wrong: sends N pages in a row from the first one on.

Right in a freshly started server, whose allocator hands out pages in order, and so in most tests of one.
"""

import torch
from torch import Tensor


def run(kv: Tensor, pages: Tensor) -> Tensor:
    row = (int(pages[0]) + torch.arange(len(pages))) % kv.shape[2]
    packed = kv.index_select(2, row.to(kv.device))
    return torch.zeros(packed.shape, dtype=kv.dtype, pin_memory=kv.is_cuda).copy_(packed)
