"""Gather each request's pages into one contiguous cache, then PyTorch's attention with a mask for the lengths.

The G query heads that share keys go in as if they were G tokens: then nothing has to be repeated for them.
"""

import torch
import torch.nn.functional as F
from gather import gather
from torch import Tensor


def run(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:  # -> [B, H, G, D]
    k, v = (gather(x, table, q.shape[0]).transpose(1, 2) for x in (k_pages, v_pages))  # [B, H, M*S, D]
    mask = torch.arange(k.shape[2], device=q.device) < lengths[:, None, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).contiguous()
