"""The library's operator."""

import torch.nn.functional as F
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, causal: Tensor) -> Tensor:  # q, k, v [B, H, T, D], causal [1] -> [B, H, T, D]
    return F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
