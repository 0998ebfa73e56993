"""The chain that models carry in their source: split, negate, join, two products, a sum; five kernels per tensor.

cos and sin are doubled to the head's width once, in prepare, as a model does once for all of its layers.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:  # cos, sin [T, 1, D]
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def full_width(table: Tensor) -> Tensor:  # [T, D/2] -> [T, 1, D]
    return torch.cat((table, table), dim=-1)[:, None]


def prepare(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Callable[..., tuple[Tensor, Tensor]]:
    wide_cos, wide_sin = full_width(cos), full_width(sin)
    return lambda q, k, *_: apply_rope(q, k, wide_cos, wide_sin)


def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return apply_rope(q, k, full_width(cos), full_width(sin))
