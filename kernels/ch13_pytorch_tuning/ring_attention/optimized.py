"""The ring over rows dealt out from both ends: every rank works off half a block in every round."""

import torch.distributed as dist
from blocks import attend, merge
from ring import rounds
from torch import Tensor
from zigzag import deal, front_rows, undeal


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # this rank's [S, H, D] each -> [S, H, D]
    rank, rows = dist.get_rank(), len(q)
    back = slice(front_rows(rows, rank), rows)
    q, k, v = deal(q, k, v)
    for source, keys, values in rounds(k, v):
        if source == rank:
            part, lse = attend(q, keys, values, causal=True)
            out = part.float()
        elif source < rank:  # its front is before both of our chunks, its back behind both
            front = front_rows(rows, source)
            merge(out, lse, *attend(q, keys[:front], values[:front], causal=False))
        else:  # all of it lies between our two chunks
            merge(out[back], lse[back], *attend(q[back], keys, values, causal=False))
    (ordered,) = undeal(out.to(q.dtype))
    return ordered
