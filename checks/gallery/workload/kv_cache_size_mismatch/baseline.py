"""Scores, softmax, average."""

import torch
from torch import Tensor


def run(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:  # q [B, H, 1, E], keys, values [B, H, L, E] -> as q
    scores = q @ keys.mT / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ values
