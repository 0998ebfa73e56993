"""Wrong: attention over the latent part alone. The R rotary dimensions, all that tells positions, are left out."""

import torch
from latent import absorbed_query, by_head
from torch import Tensor


def run(q: Tensor, cache: Tensor, w_uk: Tensor, w_uv: Tensor) -> Tensor:  # -> [B, H, V]
    latent = cache[..., : w_uk.shape[2]]
    scores = absorbed_query(q, w_uk)[..., : w_uk.shape[2]] @ latent.transpose(1, 2) * q.shape[-1] ** -0.5
    mixed = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype) @ latent
    return by_head(mixed, w_uv).contiguous()
