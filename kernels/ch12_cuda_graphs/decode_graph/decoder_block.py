"""One decoder block for one new token per sequence, in the operators of an ordinary eager implementation.

Llama's shape: RMSNorm, query, key and value projections, rotary embedding, attention over a cache of fixed size,
output projection, RMSNorm, SwiGLU. The token's place in the cache is a tensor on the device, never a Python
number: no launch depends on a value that the host would have to know, so the same launches serve every position.
"""

import torch
import torch.nn.functional as F

EPSILON = 1e-5


def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMSNorm over the last dimension."""
    return F.rms_norm(x, weight.shape, weight, EPSILON)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of x [B, A, 1, E] by one position's cos and sin [E]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attend(
    q: torch.Tensor,  # [B, D]
    k: torch.Tensor,  # [B, D]
    v: torch.Tensor,  # [B, D]
    position: torch.Tensor,  # [1]
    frequencies: torch.Tensor,  # [E / 2]
    keys: torch.Tensor,  # [B, A, L, E], slot `position` is overwritten
    values: torch.Tensor,  # [B, A, L, E], slot `position` is overwritten
) -> torch.Tensor:
    """Put the new key and value into the cache, then attend to the slots up to and with `position`: [B, D]."""
    batch, heads, slots, width = keys.shape
    q, k, v = (part.view(batch, heads, 1, width) for part in (q, k, v))
    angles = position * frequencies
    angles = torch.cat((angles, angles))
    cos, sin = angles.cos(), angles.sin()
    keys.index_copy_(2, position, rotate(k, cos, sin))
    values.index_copy_(2, position, v)
    seen = torch.arange(slots, device=position.device) <= position
    mixed = F.scaled_dot_product_attention(
        rotate(q, cos, sin), keys, values, attn_mask=seen.expand(batch, heads, 1, slots)
    )
    return mixed.reshape(batch, heads * width)


def decode(
    x: torch.Tensor,  # [B, D]
    position: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    frequencies: torch.Tensor,
    norm1: torch.Tensor,  # [D]
    wq: torch.Tensor,  # [D, D], as are wk, wv and wo
    wk: torch.Tensor,
    wv: torch.Tensor,
    wo: torch.Tensor,
    norm2: torch.Tensor,  # [D]
    w_gate: torch.Tensor,  # [D, F], as is w_up
    w_up: torch.Tensor,
    w_down: torch.Tensor,  # [F, D]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The block: the new x [B, D], and both caches with one slot written."""
    h = norm(x, norm1)
    x = x + attend(h @ wq, h @ wk, h @ wv, position, frequencies, keys, values) @ wo
    h = norm(x, norm2)
    return x + (F.silu(h @ w_gate) * (h @ w_up)) @ w_down, keys, values
