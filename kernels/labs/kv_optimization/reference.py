"""The truth in fp64: each new token sees its request's prompt, the new tokens before it and itself."""

import torch
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, new_k: Tensor, new_v: Tensor, lengths: Tensor) -> Tensor:
    # q, new_k, new_v [B, G, H, D]; k, v [B, L, H, D], of which lengths[b] tokens count -> [B, G, H, D]
    B, G, _, D = q.shape
    L = k.shape[1]
    place = torch.arange(L, device=q.device)
    prompt = (place[None, :] < lengths.to(q.device)[:, None])[:, None, :].expand(B, G, L)
    fresh = torch.ones(G, G, dtype=torch.bool, device=q.device).tril()[None].expand(B, G, G)
    seen = torch.cat((prompt, fresh), dim=2)[:, None]  # [B, 1, G, L + G]
    keys, values = torch.cat((k, new_k), dim=1), torch.cat((v, new_v), dim=1)
    scores = torch.einsum("bghd,bthd->bhgt", q, keys) * D**-0.5
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)
    return torch.einsum("bhgt,bthd->bghd", weights, values)
