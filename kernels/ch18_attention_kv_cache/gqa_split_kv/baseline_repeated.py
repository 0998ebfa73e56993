"""Keys and values repeated for every query head of their group, as many models' code still does."""

import torch.nn.functional as F
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # q [B, H*G, D], k, v [B, H, L, D] -> [B, H*G, D]
    G = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(G, dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q[:, :, None], k, v)[:, :, 0].contiguous()
