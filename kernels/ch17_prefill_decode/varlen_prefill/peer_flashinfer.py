"""FlashInfer's packed prefill: on Hopper its FlashAttention-3 kernels, which take the same boundaries as optimized.py.

It hands tiles of different length to the SMs by a plan made on the host, in `prepare` as `starts` is static. Its CUDA
is compiled by nvcc when first asked for, which takes minutes, and kept in ~/.cache/flashinfer.
"""

from collections.abc import Callable

import torch
from flashinfer import BatchPrefillWithRaggedKVCacheWrapper
from torch import Tensor

WORKSPACE_BYTES = 2**27  # what its documentation recommends


def prepare(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Callable[..., Tensor]:
    _, H, D = q.shape
    prefill = BatchPrefillWithRaggedKVCacheWrapper(torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=q.device))
    prefill.plan(starts, starts, H, H, D, causal=True, q_data_type=q.dtype)
    return lambda q, k, v, starts: prefill.run(q, k, v)


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # q, k, v [T, H, D] -> [T, H, D]
    return prepare(q, k, v, starts)(q, k, v, starts)
