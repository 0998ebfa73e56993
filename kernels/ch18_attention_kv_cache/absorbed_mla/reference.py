"""The truth, in fp64: keys and values of every head made from the latent cache, then attention. -> [B, H, V]."""

import torch
from torch import Tensor


def run(q: Tensor, cache: Tensor, w_uk: Tensor, w_uv: Tensor) -> Tensor:
    N, C = w_uk.shape[1:]
    y = q.new_empty(q.shape[0], q.shape[1], w_uv.shape[2])
    for request, (queries, tokens) in enumerate(zip(q, cache, strict=True)):  # all keys at once would be 17 GB
        latent, rope = tokens[:, :C], tokens[:, C:]
        keys = torch.einsum("lc,hnc->hln", latent, w_uk)
        values = torch.einsum("lc,hcv->hlv", latent, w_uv)
        scores = (keys @ queries[:, :N, None])[..., 0] + queries[:, N:] @ rope.T  # [H, L]
        weights = torch.softmax(scores * q.shape[-1] ** -0.5, dim=-1)
        y[request] = (weights[:, None] @ values)[:, 0]
    return y
