"""Padded, with the padding masked explicitly: the mask is right, needless, and shuts out the fast kernels."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from padding import longest, pad, places, unpad
from torch import Tensor


def prepare(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Callable[..., Tensor]:
    B, L = len(starts) - 1, longest(starts)
    rows = places(starts, L)
    token = torch.arange(L, device=q.device)
    past = token[:, None] >= token[None, :]  # [L, L]
    # Column 0 is always allowed: a row with nothing to attend to would be NaN.
    real = (token[None, :] < starts.diff()[:, None]) | (token == 0)[None, :]  # [B, L]
    mask = past & real[:, None, None, :]  # [B, 1, L, L]

    def attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # [T, H, D] -> [T, H, D]
        q, k, v = (pad(x, rows, B, L) for x in (q, k, v))
        return unpad(F.scaled_dot_product_attention(q, k, v, attn_mask=mask), rows)

    return attention


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    return prepare(q, k, v, starts)(q, k, v, starts)
