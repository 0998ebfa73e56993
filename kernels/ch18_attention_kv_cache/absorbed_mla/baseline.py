"""By the book: keys and values of every head and token are made from the cache, then ordinary attention."""

import torch
import torch.nn.functional as F
from torch import Tensor


def run(
    q: Tensor, cache: Tensor, w_uk: Tensor, w_uv: Tensor
) -> Tensor:  # q [B, H, N+R], cache [B, L, C+R] -> [B, H, V]
    H, _, C = w_uk.shape
    latent, rope = cache[..., :C], cache[..., C:]
    keys = F.linear(latent, w_uk.flatten(0, 1)).unflatten(-1, (H, -1))  # [B, L, H, N]
    keys = torch.cat((keys, rope[:, :, None].expand(-1, -1, H, -1)), dim=-1)
    values = (latent @ w_uv.transpose(0, 1).flatten(1)).unflatten(-1, (H, -1))  # [B, L, H, V]
    y = F.scaled_dot_product_attention(q[:, :, None], keys.transpose(1, 2), values.transpose(1, 2))
    return y[:, :, 0].contiguous()
