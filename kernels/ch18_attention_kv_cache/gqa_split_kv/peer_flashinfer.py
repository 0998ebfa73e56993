"""FlashInfer's packed attention: each key/value head is a request of L keys, the G query heads on it are its rows.

The cache is [B, H, L, D], so B*H such requests lie behind each other and nothing is copied. Packing and splitting are
the library's own, by a plan that depends on the shapes alone and is made in `prepare`.
"""

from collections.abc import Callable

import torch
from flashinfer import BatchPrefillWithRaggedKVCacheWrapper
from torch import Tensor

WORKSPACE_BYTES = 2**27  # what its documentation recommends; room for the parts


def prepare(q: Tensor, k: Tensor, v: Tensor) -> Callable[..., Tensor]:
    B, H, L, D = k.shape
    G = q.shape[1] // H
    attention = BatchPrefillWithRaggedKVCacheWrapper(
        torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=q.device),
        backend="fa2",  # its FlashAttention-3 kernels cannot split
    )
    heads = torch.arange(B * H + 1, dtype=torch.int32, device=q.device)
    attention.plan(heads, heads * L, G, 1, D, q_data_type=q.dtype)
    return lambda q, k, v: attention.run(q.view(B * H, G, D), k.view(-1, 1, D), v.view(-1, 1, D)).view(B, H * G, D)


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # q [B, H*G, D], k, v [B, H, L, D] -> [B, H*G, D]
    return prepare(q, k, v)(q, k, v)
