"""Half of it: w_uk is absorbed into the query, values are still made for every head and token."""

from latent import weights
from torch import Tensor


def run(q: Tensor, cache: Tensor, w_uk: Tensor, w_uv: Tensor) -> Tensor:  # -> [B, H, V]
    H, _, C = w_uk.shape
    values = (cache[..., :C] @ w_uv.transpose(0, 1).flatten(1)).unflatten(-1, (H, -1))  # [B, L, H, V]
    return (weights(q, w_uk, cache)[:, :, None] @ values.transpose(1, 2))[:, :, 0].contiguous()
