"""SDPA with the bias as a tensor [H, S, S], made once when the model is loaded: PyTorch's own way to add a bias."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def bias(slopes: Tensor, S: int, dtype: torch.dtype) -> Tensor:  # slopes [H] -> [1, H, S, S]
    """slope * (j - i) in the past, minus infinity in the future: the causal mask is a part of it."""
    place = torch.arange(S, device=slopes.device)
    distance = place[None, :] - place[:, None]
    made = torch.empty((1, len(slopes), S, S), dtype=dtype, device=slopes.device)
    for head, slope in enumerate(slopes):  # a head at a time: the fp32 values before rounding are S * S, not H * S * S
        made[0, head] = (slope * distance).masked_fill(distance > 0, float("-inf"))
    return made


def prepare(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Callable[..., Tensor]:
    mask = bias(slopes, q.shape[2], q.dtype)  # slopes are static, so this is load time

    def attend(q: Tensor, k: Tensor, v: Tensor, _: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return attend


def run(*inputs: Tensor) -> Tensor:  # q, k, v [B, H, S, D] fp16, slopes [H] fp32 -> [B, H, S, D] fp16
    return prepare(*inputs)(*inputs)
