"""Wrong: parts are averaged, each with the same weight, as if every block had the same sum of exponentials."""

import torch.distributed as dist
from blocks import attend
from ring import rounds
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # this rank's [S, H, D] each -> [S, H, D]
    rank = dist.get_rank()
    out = q.new_zeros(q.shape).float()
    for source, keys, values in rounds(k, v):
        if source <= rank:
            part, _ = attend(q, keys, values, causal=source == rank)
            out += part
    return (out / (rank + 1)).to(q.dtype)
