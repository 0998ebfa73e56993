"""The truth: q [B, H, T, D], k and v [B, H, PAST + T, D] -> softmax(q k^T / sqrt(D), masked) v, [B, H, T, D].

Query t sees keys 0 .. PAST + t. A masked value has weight 0; where it is not finite the product is NaN.
"""

import math

import torch
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    T, S = q.shape[-2], k.shape[-2]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    future = torch.arange(S, device=q.device) > torch.arange(S - T, S, device=q.device)[:, None]
    return torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v
