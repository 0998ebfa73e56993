"""The packed batch as PyTorch's jagged nested tensor: the library's own attention over unequal lengths."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from padding import longest
from torch import Tensor


def prepare(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Callable[..., Tensor]:
    offsets = starts.long()
    L, least = longest(starts), int(starts.diff().min())

    def attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # [T, H, D] -> [T, H, D]
        jagged = (
            torch.nested.nested_tensor_from_jagged(x, offsets, min_seqlen=least, max_seqlen=L).transpose(1, 2)
            for x in (q, k, v)
        )
        y = F.scaled_dot_product_attention(*jagged, is_causal=True)
        return y.transpose(1, 2).values().contiguous()

    return attention


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    return prepare(q, k, v, starts)(q, k, v, starts)
