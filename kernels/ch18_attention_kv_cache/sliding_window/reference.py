"""The truth, in fp64: query i attends to the keys i - W + 1 .. i. q, k, v [B, H, L, D] -> [B, H, L, D]."""

import torch
from torch import Tensor

ROWS = 1024  # queries at a time: the scores of all would be 2 GB a head


def run(q: Tensor, k: Tensor, v: Tensor, window: Tensor) -> Tensor:
    L, W = q.shape[2], int(window)
    y = torch.empty_like(q)
    for first in range(0, L, ROWS):
        end, least = min(first + ROWS, L), max(0, first - W + 1)
        behind = torch.arange(first, end)[:, None] - torch.arange(least, end)[None, :]
        unseen = ((behind < 0) | (behind >= W)).to(q.device)
        scores = q[:, :, first:end] @ k[:, :, least:end].transpose(-1, -2) * q.shape[-1] ** -0.5
        y[:, :, first:end] = torch.softmax(scores.masked_fill(unseen, float("-inf")), dim=-1) @ v[:, :, least:end]
    return y
