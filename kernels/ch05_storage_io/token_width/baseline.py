"""Tokens widened to int64 on the host, as a data loader hands them out: eight bytes a token cross the bus."""

from collections.abc import Callable

import torch
from torch import Tensor
from widening import widened_on_host


def prepare(shard: Tensor, table: Tensor) -> Callable[..., Tensor]:
    return widened_on_host(shard, table, torch.int64)


def run(shard: Tensor, table: Tensor) -> Tensor:  # int16 [B, L], bf16 [V, D] -> [B, L, D]
    return prepare(shard, table)(shard, table)
