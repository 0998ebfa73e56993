"""The newest quarter of the cache."""

import torch
from torch import Tensor


def run(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:  # q [B, H, 1, E], keys, values [B, H, L, E] -> as q
    newest = keys.shape[2] // 4
    scores = q @ keys[:, :, -newest:].mT / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ values[:, :, -newest:]
