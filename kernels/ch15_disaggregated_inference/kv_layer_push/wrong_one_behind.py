"""Wrong: one layer behind, to be safe, and the last layer is never sent: the decoder has zeros there."""

from typing import Any

import torch.distributed as dist
from prefill import DECODE, PREFILL, prefill
from torch import Tensor


def run(x: Tensor, kv: Tensor, up: Tensor, down: Tensor) -> Tensor:  # this rank's -> [L, T, 2D]
    cache = x.new_zeros(len(kv), x.shape[0], kv.shape[-1])
    handles: list[Any] = []

    def done(layer: int) -> None:
        if layer > 0:
            handles.append(dist.isend(cache[layer - 1], DECODE))

    if dist.get_rank() == PREFILL:
        prefill(x, kv, up, down, cache, done)
    else:
        handles += [dist.irecv(layer, PREFILL) for layer in cache[:-1]]
    for handle in handles:
        handle.wait()
    return cache
