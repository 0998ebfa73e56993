"""Wrong: the decoder prefills as well rather than wait, and its prompt is not the one that was asked about."""

import torch.distributed as dist
from prefill import prefill
from torch import Tensor


def run(x: Tensor, kv: Tensor, up: Tensor, down: Tensor) -> Tensor:  # this rank's -> [L, T, 2D]
    cache = x.new_empty(len(kv), x.shape[0], kv.shape[-1])
    prefill(x, kv, up, down, cache)
    dist.barrier()
    return cache
