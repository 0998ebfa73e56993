"""The truth, in fp64, in one process: causal attention over the whole sequence, a head and 1024 rows at a time."""

import math

import torch
from torch import Tensor

ROWS = 1024  # at a time: the scores of all heads, or of all of a long sequence, would fill the memory


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # [2, S, H, D] each, all ranks' -> [2, S, H, D]
    queries, keys, values = (each.flatten(0, 1).transpose(0, 1) for each in (q, k, v))  # [H, 2*S, D]
    out = torch.empty_like(queries)
    for start in range(0, queries.shape[1], ROWS):
        stop = min(start + ROWS, queries.shape[1])
        later = torch.ones(stop - start, stop, dtype=torch.bool, device=q.device).triu(start + 1)
        for head in range(len(queries)):
            scores = queries[head, start:stop] @ keys[head, :stop].mT / math.sqrt(q.shape[-1])
            out[head, start:stop] = scores.masked_fill_(later, -math.inf).softmax(-1) @ values[head, :stop]
    return out.transpose(0, 1).reshape(q.shape)
