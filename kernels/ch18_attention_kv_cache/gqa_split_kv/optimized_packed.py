"""Packed only: all query heads that share keys in one program, which walks through all keys."""

from split_kv import decode
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # q [B, H*G, D], k, v [B, H, L, D] -> [B, H*G, D]
    return decode(q, k, v, heads=q.shape[1] // k.shape[1], keys=k.shape[2])
