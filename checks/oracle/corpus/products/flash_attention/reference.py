"""The truth: q, k, v [B, H, T, D], causal [1] -> softmax(q k^T / sqrt(D), masked where causal) v, [B, H, T, D].

A masked value has weight 0; where it is not finite the product is NaN.
"""

import math

import torch
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, causal: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if int(causal):
        t = torch.arange(q.shape[-2], device=q.device)
        scores = scores.masked_fill(t > t[:, None], -math.inf)
    return torch.softmax(scores, dim=-1) @ v
