"""The library's operator, with a mask made on the spot: is_causal counts from the first key, not behind the cache."""

import torch
import torch.nn.functional as F
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # q [B, H, T, D], k and v [B, H, PAST + T, D] -> [B, H, T, D]
    T, S = q.shape[-2], k.shape[-2]
    seen = torch.arange(S, device=q.device) <= torch.arange(S - T, S, device=q.device)[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
