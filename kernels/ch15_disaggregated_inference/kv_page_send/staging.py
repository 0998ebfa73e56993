"""The send buffer that every rung fills."""

import torch
from torch import Tensor


def send_buffer(kv: Tensor, pages: Tensor) -> Tensor:
    """[L, 2, N, ROW] in host memory, page-locked where the cache is on a GPU: a network card reads it from there.

    Page-locking takes longer than the copy, so a server does it once, and each rung in prepare.
    """
    L, parts, _, ROW = kv.shape
    return torch.zeros(L, parts, len(pages), ROW, dtype=kv.dtype, pin_memory=kv.is_cuda)
