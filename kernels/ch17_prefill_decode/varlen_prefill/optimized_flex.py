"""FlexAttention over the whole packed batch: a block mask says which blocks one request shares with itself."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

compiled = torch.compile(flex_attention, dynamic=False)


def prepare(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Callable[..., Tensor]:
    T = q.shape[0]
    lengths = starts.diff().long()
    request = torch.arange(len(lengths), device=q.device).repeat_interleave(lengths)

    def same_request_and_past(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (request[query] == request[key]) & (query >= key)

    blocks = create_block_mask(same_request_and_past, None, None, T, T, device=str(q.device))

    def attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # [T, H, D] -> [T, H, D]
        heads_first = (x.transpose(0, 1)[None] for x in (q, k, v))  # [1, H, T, D]
        return compiled(*heads_first, block_mask=blocks)[0].transpose(0, 1).contiguous()

    attention(q, k, v, starts)  # compiles for these shapes, before the clock starts
    return attention


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    return prepare(q, k, v, starts)(q, k, v, starts)
