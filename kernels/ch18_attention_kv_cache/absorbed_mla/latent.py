"""Attention in the latent space, step by step; rungs put the steps together."""

import torch
from torch import Tensor


def by_head(x: Tensor, w: Tensor) -> Tensor:
    """x [B, H, I], w [H, I, J] -> [B, H, J]: H products of [B, I] with [I, J].

    With the requests as rows each matrix is read once; as H*B products of a single row it would be copied B times.
    """
    return (x.transpose(0, 1) @ w).transpose(0, 1)


def absorbed_query(q: Tensor, w_uk: Tensor) -> Tensor:
    """q [B, H, N+R] -> [B, H, C+R]: a query that meets the cache itself, w_uk [H, N, C] moved over from the keys."""
    N = w_uk.shape[1]
    latent = by_head(q[..., :N], w_uk)
    return torch.cat((latent, q[..., N:]), dim=-1)


def weights(q: Tensor, w_uk: Tensor, cache: Tensor) -> Tensor:
    """Softmax weights [B, H, L]. All heads read the same cache, so they are the rows of one product.

    The scale is that of the queries as the model made them, N + R wide, not of what they became.
    """
    scores = absorbed_query(q, w_uk) @ cache.transpose(1, 2)
    return torch.softmax(scores * q.shape[-1] ** -0.5, dim=-1, dtype=torch.float32).to(q.dtype)


def absorbed(q: Tensor, cache: Tensor, w_uk: Tensor, w_uv: Tensor) -> Tensor:
    """q [B, H, N+R], cache [B, L, C+R], w_uk [H, N, C], w_uv [H, C, V] -> [B, H, V]."""
    mixed = weights(q, w_uk, cache) @ cache[..., : w_uk.shape[2]]  # [B, H, C], still latent
    return by_head(mixed, w_uv).contiguous()
