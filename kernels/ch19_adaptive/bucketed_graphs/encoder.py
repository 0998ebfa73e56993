"""A small text encoder for one request: rows of token vectors in, one vector out. Eager, some ten operators a layer.

Pre-norm layers: attention among all tokens of the request, then a two-layer MLP with GELU; at the end the mean over
the tokens. Norms have no weights, so that a layer is four matrices.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

HEAD = 64  # width of a head, where D is a multiple of it


def heads(D: int) -> int:
    return max(1, D // HEAD) if D % HEAD == 0 else 1


def encode(
    rows: Tensor,  # [n, D]
    wqkv: Tensor,  # [L, D, 3D]
    wo: Tensor,  # [L, D, D]
    w1: Tensor,  # [L, D, F]
    w2: Tensor,  # [L, F, D]
    length: Tensor | None = None,  # [1], on the device: the rows from there on are padding
) -> Tensor:
    """The request's vector [D]: the mean of its rows' outputs, summed in fp32."""
    n, D = rows.shape
    A = heads(D)
    real = None if length is None else torch.arange(n, device=rows.device) < length
    bias = None
    if real is not None:  # in the rows' dtype: what the attention kernels take without a conversion each
        bias = torch.zeros_like(real, dtype=rows.dtype).masked_fill_(~real, -torch.inf).expand(1, 1, n, n)
    h = rows
    for layer in range(wqkv.shape[0]):
        q, k, v = (F.layer_norm(h, (D,)) @ wqkv[layer]).view(n, 3, A, D // A).permute(1, 2, 0, 3)[:, None]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        h = h + mixed[0].transpose(0, 1).reshape(n, D) @ wo[layer]
        h = h + F.gelu(F.layer_norm(h, (D,)) @ w1[layer]) @ w2[layer]
    if real is None:
        return h.float().mean(0).to(h.dtype)
    return (h.float().masked_fill(~real[:, None], 0.0).sum(0) / length).to(h.dtype)
