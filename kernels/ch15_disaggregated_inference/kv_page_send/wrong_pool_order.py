"""Wrong: sends the right pages in the pool's order instead of the request's, as a mask over the pool gives them.

Every page arrives, checksums over the whole message agree, and the tokens are shuffled.
"""

import torch
from torch import Tensor


def run(kv: Tensor, pages: Tensor) -> Tensor:
    packed = kv.index_select(2, pages.sort().values.to(kv.device))
    return torch.zeros(packed.shape, dtype=kv.dtype, pin_memory=kv.is_cuda).copy_(packed)
