"""The truth, in fp64: query head h reads key/value head h // G. q [B, H*G, D], k, v [B, H, L, D] -> [B, H*G, D]."""

import torch
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    grouped = q.unflatten(1, (k.shape[1], -1))  # [B, H, G, D]
    scores = grouped @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return (torch.softmax(scores, dim=-1) @ v).flatten(1, 2)
