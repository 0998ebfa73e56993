"""Sequences sorted by length, in groups of eight that are padded to the longest of their own."""

from collections.abc import Callable

import torch
from layer import mlp, real_tokens
from torch import Tensor

GROUP = 8  # sequences


def prepare(x: Tensor, lengths: Tensor, w1: Tensor, w2: Tensor) -> Callable[..., Tensor]:
    groups = [
        (rows, int(lengths[rows].max()), real_tokens(lengths[rows], int(lengths[rows].max()))[:, :, None])
        for rows in lengths.argsort().split(GROUP)
    ]

    def step(x: Tensor, lengths: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        for rows, longest, real in groups:
            y[rows, :longest] = torch.where(real, mlp(x[rows, :longest], w1, w2), 0.0)
        return y

    return step


def run(x: Tensor, lengths: Tensor, w1: Tensor, w2: Tensor) -> Tensor:  # x [B, L, D] -> [B, L, D]
    return prepare(x, lengths, w1, w2)(x, lengths, w1, w2)
