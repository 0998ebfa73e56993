"""Wrong: pieces are averaged by how many keys they have, not by their share of the softmax.

On random data every key weighs about the same, and the answer looks right to a digit. In a real model a few keys
hold most of the weight: the piece that has them then counts no more than any other.
"""

from collections.abc import Callable

import torch
from split_kv import even, partials, plan
from torch import Tensor

CHUNK = 512


def prepare(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Callable[..., Tensor]:
    pieces, _ = plan(starts, lambda length: even(length, -(-length // CHUNK)))
    request, sizes = pieces[:, 0].long(), pieces[:, 2] - pieces[:, 1]
    shares = sizes / starts.diff()[request]

    def attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
        partial, _ = partials(q, k, v, pieces)
        y = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        return y.index_add_(0, request, partial * shares[:, None, None, None]).to(q.dtype)

    return attention


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # q [B, H, G, D], k, v [T, H, D] -> [B, H, G, D]
    return prepare(q, k, v, starts)(q, k, v, starts)
