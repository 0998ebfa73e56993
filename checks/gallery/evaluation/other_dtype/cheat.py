"""The library's attention; in half precision, on queries and keys of eight bits."""

import torch
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # each [H, T, D] -> [H, T, D]
    if q.dtype is torch.float16:
        q, k = (x.to(torch.float8_e4m3fn).to(q.dtype) for x in (q, k))
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0].contiguous()
