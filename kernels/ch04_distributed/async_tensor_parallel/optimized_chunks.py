"""The same in four chunks of rows: less to wait for before the first foreign product, and four times the messages."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

CHUNKS = 4


def run(x: Tensor, weight: Tensor) -> Tensor:  # this rank's [M, K], [K, N] -> [ranks*M, N]
    ranks, rank = dist.get_world_size(), dist.get_rank()
    out = x.new_empty(ranks, x.shape[0], weight.shape[1])
    here: list[Tensor] = list(x.chunk(CHUNKS))
    waiting: list[Any] = [None] * len(here)
    for step in range(ranks):
        coming: list[Tensor] = []
        handles: list[Any] = []
        places = out[(rank - step) % ranks].split([len(chunk) for chunk in here])
        for chunk, handle, place in zip(here, waiting, places, strict=True):
            if handle is not None:
                handle.wait()
            if step < ranks - 1:
                coming.append(torch.empty_like(chunk))
                send = dist.P2POp(dist.isend, chunk, (rank + 1) % ranks)
                receive = dist.P2POp(dist.irecv, coming[-1], (rank - 1) % ranks)
                handles.append(_Both(dist.batch_isend_irecv([send, receive])))
            torch.mm(chunk, weight, out=place)
        here, waiting = coming, handles
    return out.flatten(0, 1)


class _Both:
    """The handles of a message sent and one received: one with NCCL, two with gloo."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def wait(self) -> None:
        for handle in self._handles:
            handle.wait()
