"""Batches of eight: most of the gain, and nobody waits for more than seven others to arrive."""

import torch
from mlp import logits


def run(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.softmax(logits(group, w1, w2), dim=-1) for group in x.split(8)])
