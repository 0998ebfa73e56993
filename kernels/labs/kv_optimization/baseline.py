"""A contiguous cache with room for the longest request that the model allows, for every request; SDPA over it."""

import torch
import torch.nn.functional as F
from serving import CONTEXT, sent
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, new_k: Tensor, new_v: Tensor, lengths: Tensor) -> Tensor:
    # q, new_k, new_v [B, G, H, D] fp16; k, v [B, L, H, D] fp16; lengths [B] in host memory -> [B, G, H, D] fp16
    B, G, H, D = q.shape
    L = k.shape[1]
    room = max(CONTEXT, L + G)
    keys = torch.empty((B, H, room, D), dtype=k.dtype, device=k.device)
    values = torch.empty_like(keys)
    keys[:, :, :L] = k.transpose(1, 2)
    values[:, :, :L] = v.transpose(1, 2)
    ends = sent(lengths, q.device)
    request = torch.arange(B, device=q.device)
    longest = int(lengths.max())  # in host memory: nothing waits for the GPU
    place = torch.arange(longest + G, device=q.device)
    # What lies behind a shorter request's end must not be NaN: a masked weight is zero, and zero times NaN is not.
    keys[:, :, L : longest + G] = 0
    values[:, :, L : longest + G] = 0
    y = torch.empty_like(q)
    for step in range(G):
        keys[request, :, ends + step] = new_k[:, step]
        values[request, :, ends + step] = new_v[:, step]
        last = longest + step + 1
        seen = (place[:last] <= (ends + step)[:, None])[:, None, None]  # [B, 1, 1, last]
        query = q[:, step].unsqueeze(2)
        y[:, step] = F.scaled_dot_product_attention(
            query, keys[:, :, :last], values[:, :, :last], attn_mask=seen
        ).squeeze(2)
    return y
