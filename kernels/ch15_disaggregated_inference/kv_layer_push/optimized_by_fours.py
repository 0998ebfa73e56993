"""The same, four layers a message: a quarter of the fixed costs, and the last four have nothing to hide behind."""

from typing import Any

import torch.distributed as dist
from prefill import DECODE, PREFILL, prefill
from torch import Tensor

LAYERS = 4  # of a message


def run(x: Tensor, kv: Tensor, up: Tensor, down: Tensor) -> Tensor:  # this rank's -> [L, T, 2D], on both
    cache = x.new_empty(len(kv), x.shape[0], kv.shape[-1])
    parts = cache.split(LAYERS)
    handles: list[Any] = []

    def done(layer: int) -> None:
        if layer % LAYERS == LAYERS - 1 or layer == len(kv) - 1:
            handles.append(dist.isend(parts[layer // LAYERS], DECODE))

    if dist.get_rank() == PREFILL:
        prefill(x, kv, up, down, cache, done)
    else:
        handles += [dist.irecv(part, PREFILL) for part in parts]
    for handle in handles:
        handle.wait()
    return cache
