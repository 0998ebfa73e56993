"""Deal the sequence out from both ends: of 2n chunks rank r gets chunk r and chunk 2n - 1 - r.

In the order of the sequence it holds chunks 2r and 2r + 1. Both orders give a rank as many rows, an odd number too.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def front_rows(rows: int, rank: int) -> int:
    """How many of the `rows` of a rank are in its chunk from the front: a chunk of even number has rows // 2."""
    return rows // 2 if rank % 2 == 0 else rows - rows // 2


def deal(*parts: Tensor) -> list[Tensor]:
    """This rank's rows in the zigzag order, from those that it holds in the order of the sequence."""
    return _exchange(parts, _in_order, _in_zigzag, _ranks_in_zigzag, _ranks_in_order)


def undeal(*parts: Tensor) -> list[Tensor]:
    """The way back: rows in the order of the sequence."""
    return _exchange(parts, _in_zigzag, _in_order, _ranks_in_order, _ranks_in_zigzag)


def _in_order(rows: Tensor) -> dict[int, Tensor]:
    first = 2 * dist.get_rank()
    return {first: rows[: len(rows) // 2], first + 1: rows[len(rows) // 2 :]}


def _in_zigzag(rows: Tensor) -> dict[int, Tensor]:
    front = front_rows(len(rows), dist.get_rank())
    return {dist.get_rank(): rows[:front], 2 * dist.get_world_size() - 1 - dist.get_rank(): rows[front:]}


def _ranks_in_order(chunk: int) -> int:
    return chunk // 2


def _ranks_in_zigzag(chunk: int) -> int:
    return min(chunk, 2 * dist.get_world_size() - 1 - chunk)


def _exchange(
    parts: tuple[Tensor, ...],
    before: Callable[[Tensor], dict[int, Tensor]],
    after: Callable[[Tensor], dict[int, Tensor]],
    goes_to: Callable[[int], int],
    comes_from: Callable[[int], int],
) -> list[Tensor]:
    """Move each chunk between the ranks that hold it before and after, all tensors' in one batch."""
    results = [torch.empty_like(each) for each in parts]
    messages = []
    for part, result in zip(parts, results, strict=True):
        have, want = before(part), after(result)
        messages += [dist.P2POp(dist.isend, have[each], goes_to(each)) for each in have if each not in want]
        messages += [dist.P2POp(dist.irecv, want[each], comes_from(each)) for each in want if each not in have]
    handles: list[Any] = dist.batch_isend_irecv(messages)
    for part, result in zip(parts, results, strict=True):
        have, want = before(part), after(result)
        for chunk in have.keys() & want.keys():
            want[chunk].copy_(have[chunk])
    for handle in handles:
        handle.wait()
    return results
