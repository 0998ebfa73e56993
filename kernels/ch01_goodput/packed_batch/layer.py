"""What every rung computes, and which tokens are real."""

import torch
import torch.nn.functional as F
from torch import Tensor


def mlp(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """One MLP block, token by token: x [..., D] through w1 [D, H] and w2 [H, D] to [..., D]."""
    return F.gelu(x @ w1, approximate="tanh") @ w2


def real_tokens(lengths: Tensor, L: int) -> Tensor:
    """[B, L] bool: where a sequence has a token and not padding."""
    return torch.arange(L, device=lengths.device) < lengths[:, None]
