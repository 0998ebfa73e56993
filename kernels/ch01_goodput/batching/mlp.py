"""The network that every rung serves. It takes one request [D] or a batch [R, D] alike."""

import torch
import torch.nn.functional as F


def logits(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Two layers: x [..., D] through w1 [D, H] and w2 [H, C] to [..., C]."""
    return F.gelu(x @ w1) @ w2
