"""A copy per page: for each layer, for keys and for values, for each page of the request."""

from collections.abc import Callable

from staging import send_buffer
from torch import Tensor


def prepare(kv: Tensor, pages: Tensor) -> Callable[..., Tensor]:
    sent = send_buffer(kv, pages)

    def step(kv: Tensor, pages: Tensor) -> Tensor:  # kv [L, 2, POOL, ROW], pages [N] in host memory
        table = pages.tolist()
        for source, target in zip(kv.flatten(0, 1), sent.flatten(0, 1), strict=True):  # [POOL, ROW], [N, ROW]
            for slot, page in enumerate(table):
                target[slot].copy_(source[page], non_blocking=True)
        return sent

    return step


def run(kv: Tensor, pages: Tensor) -> Tensor:
    return prepare(kv, pages)(kv, pages)
