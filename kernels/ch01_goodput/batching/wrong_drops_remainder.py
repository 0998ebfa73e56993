"""Whole batches of eight only: requests that do not fill the last batch are never answered."""

import torch
from mlp import logits


def run(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    answers = x.new_zeros(x.shape[0], w2.shape[1])
    for group in range(x.shape[0] // 8):
        rows = slice(8 * group, 8 * group + 8)
        answers[rows] = torch.softmax(logits(x[rows], w1, w2), dim=-1)
    return answers
