"""The same with the expert's number as one more column of its row: one exchange there and one back."""

import torch
import torch.distributed as dist
from experts import expert, places
from torch import Tensor


def run(x: Tensor, ids: Tensor, scales: Tensor) -> Tensor:  # this rank's [T, D], [T], [E, D] -> [T, D]
    ranks, each = dist.get_world_size(), len(scales)
    tokens, width = x.shape
    slots = places(ids // each, ranks, tokens)
    rows = x.new_zeros(ranks * tokens, width + 1)
    rows[slots, :width] = x
    rows[slots, width] = (ids % each).to(x.dtype)  # bf16 holds whole numbers up to 256
    here = torch.empty_like(rows)
    dist.all_to_all_single(here, rows)
    done = expert(here[:, :width], here[:, width].long(), scales)
    back = torch.empty_like(done)
    dist.all_to_all_single(back, done)
    return back[slots]
