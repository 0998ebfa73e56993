"""Pieces of equal length over all requests: a long request has many, a short one has one or two."""

from collections.abc import Callable

from split_kv import decode, even
from torch import Tensor

CHUNK = 512  # keys of a piece at most: 256 KB of keys and values, beside which 8 KB of partial results are little


def prepare(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Callable[..., Tensor]:
    return decode(lambda length: even(length, -(-length // CHUNK)), starts)


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # q [B, H, G, D], k, v [T, H, D] -> [B, H, G, D]
    return prepare(q, k, v, starts)(q, k, v, starts)
