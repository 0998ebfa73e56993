"""The mask ends one slot early: the new token is written to the cache but does not see itself."""

import torch
import torch.nn.functional as F
from decoder_block import norm, rotate


def run(
    x, position, keys, values, frequencies, norm1, wq, wk, wv, wo, norm2, w_gate, w_up, w_down
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch, heads, slots, width = keys.shape
    h = norm(x, norm1)
    q, k, v = ((h @ w).view(batch, heads, 1, width) for w in (wq, wk, wv))
    angles = position * frequencies
    angles = torch.cat((angles, angles))
    cos, sin = angles.cos(), angles.sin()
    keys.index_copy_(2, position, rotate(k, cos, sin))
    values.index_copy_(2, position, v)
    seen = torch.arange(slots, device=x.device) < position
    mixed = F.scaled_dot_product_attention(
        rotate(q, cos, sin), keys, values, attn_mask=seen.expand(batch, heads, 1, slots)
    )
    x = x + mixed.reshape(batch, heads * width) @ wo
    h = norm(x, norm2)
    return x + (F.silu(h @ w_gate) * (h @ w_up)) @ w_down, keys, values
