"""Absorbed: w_uk goes into the query, w_uv onto the output, and attention reads the latent cache as it is."""

from latent import absorbed
from torch import Tensor


def run(q: Tensor, cache: Tensor, w_uk: Tensor, w_uv: Tensor) -> Tensor:  # -> [B, H, V]
    return absorbed(q, cache, w_uk, w_uv)
