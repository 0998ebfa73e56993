"""Packed and split: a program takes all query heads that share a key, and a stretch of them."""

from split_kv import decode, stretch
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # q [B, H*G, D], k, v [B, H, L, D] -> [B, H*G, D]
    return decode(q, k, v, heads=q.shape[1] // k.shape[1], keys=stretch(k))
