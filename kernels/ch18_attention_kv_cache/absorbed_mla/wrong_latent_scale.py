"""Wrong: scores are scaled by the absorbed query's width, C + R, and not by the model's own, N + R.

A library's attention does so unasked when it is handed the absorbed query: its default scale is the last dimension's.
The softmax becomes flatter, and nothing else looks odd.
"""

import torch
from latent import absorbed_query, by_head
from torch import Tensor


def run(q: Tensor, cache: Tensor, w_uk: Tensor, w_uv: Tensor) -> Tensor:  # -> [B, H, V]
    query = absorbed_query(q, w_uk)
    scores = query @ cache.transpose(1, 2) * query.shape[-1] ** -0.5
    mixed = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype) @ cache[..., : w_uk.shape[2]]
    return by_head(mixed, w_uv).contiguous()
