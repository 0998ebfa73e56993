"""Widening on the host, to a width that the rung chooses: what baseline.py and baseline_int32.py share."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from tokens import OFFSET, Sent, host_buffer
from torch import Tensor


def widened_on_host(shard: Tensor, table: Tensor, dtype: torch.dtype) -> Callable[..., Tensor]:
    """The callable to time: widen into a kept buffer, send that, look the rows up."""
    staging = host_buffer(shard, dtype, table.device)
    sent = Sent(table.device)

    def step(shard: Tensor, table: Tensor) -> Tensor:
        sent.wait()
        staging.copy_(shard).add_(OFFSET)
        ids = torch.empty(staging.shape, dtype=dtype, device=table.device)
        ids.copy_(staging, non_blocking=True)
        sent.mark()
        return F.embedding(ids, table)

    return step
