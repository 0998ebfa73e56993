"""Lengths rounded up to a few buckets, and the fixed buffers that requests are copied into.

Rungs differ in which buckets there are and in how the encoder runs on a bucket's buffers, in nothing else.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SMALLEST = 8  # attention kernels want a bias whose rows are 16 bytes long or a multiple of that

Call = Callable[[], Tensor]
"""Run the encoder on a bucket's buffers, and give back its output [D], which the next call may overwrite."""


def powers(S: int) -> list[int]:
    """8, 16, 32, ... up to the first that holds S rows."""
    sizes = [SMALLEST]
    while sizes[-1] < S:
        sizes.append(2 * sizes[-1])
    return sizes


def bucketed(x: Tensor, sizes: Sequence[int], on_bucket: Callable[[Tensor, Tensor], Call]) -> Callable[..., Tensor]:
    """The step that serves every request of x [R, S, D] in the smallest of `sizes` (ascending) that holds it.

    `on_bucket(rows, length)` is asked once per bucket, with its buffers: rows [size, D] and length [1], on the device.
    """
    R, _, D = x.shape
    places: dict[int, tuple[Tensor, Tensor, Call]] = {}
    for size in reversed(sizes):  # the largest first: graphs that share a pool then fit into its memory
        rows = torch.zeros(size, D, dtype=x.dtype, device=x.device)
        length = torch.ones(1, dtype=torch.int64, device=x.device)
        places[size] = rows, length, on_bucket(rows, length)

    def step(x: Tensor, lengths: Tensor, *_: Tensor) -> Tensor:
        y = torch.empty(R, D, dtype=x.dtype, device=x.device)
        for request, n in enumerate(lengths.tolist()):
            rows, length, call = places[next(size for size in sizes if size >= n)]
            rows[:n].copy_(x[request, :n])
            rows[n:].zero_()  # a NaN that an earlier request left here would be 0 * NaN in this one
            length.fill_(n)
            y[request].copy_(call())
        return y

    return step
