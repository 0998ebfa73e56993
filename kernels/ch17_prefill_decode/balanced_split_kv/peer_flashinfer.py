"""FlashInfer's packed attention with one query per request, its caches cut into pieces of 512 keys as in optimized.py.

Left to itself its plan splits only where requests times heads are too few for the GPU, which they are not here; then
the long request would be one piece, as in baseline.py. The plan is made in `prepare`, as `starts` is static.
"""

from collections.abc import Callable

import torch
from flashinfer import BatchPrefillWithRaggedKVCacheWrapper
from torch import Tensor

CHUNK = 512  # keys
ROWS = 16  # query heads of a group that it reserves room for, where a group has at most so many


def prepare(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Callable[..., Tensor]:
    B, H, G, D = q.shape
    pieces = k.shape[0] // CHUNK + B
    # An fp32 output and a log-sum-exp for each piece, padded as the plan pads them.
    room = 2**20 + 4 * pieces * H * G * ROWS * (D + 1)
    attention = BatchPrefillWithRaggedKVCacheWrapper(
        torch.empty(room, dtype=torch.uint8, device=q.device),
        backend="fa2",  # its FlashAttention-3 kernels cannot split
    )
    one_each = torch.arange(B + 1, dtype=torch.int32, device=q.device)
    attention.plan(one_each, starts, H * G, H, D, q_data_type=q.dtype, fixed_split_size=CHUNK)
    return lambda q, k, v, starts: attention.run(q.view(B, H * G, D), k, v).view(B, H, G, D)


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # q [B, H, G, D], k, v [T, H, D] -> [B, H, G, D]
    return prepare(q, k, v, starts)(q, k, v, starts)
