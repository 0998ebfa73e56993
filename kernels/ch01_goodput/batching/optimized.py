"""All requests as one batch: both weight matrices are read once for everybody."""

import torch
from mlp import logits


def run(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    return torch.softmax(logits(x, w1, w2), dim=-1)
