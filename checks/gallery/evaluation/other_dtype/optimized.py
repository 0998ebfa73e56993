"""The library's attention."""

import torch
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # each [H, T, D] -> [H, T, D]
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0].contiguous()
