"""Eight blocks of rows, in turn on four streams that last."""

import functools

import torch
from torch import Tensor

BLOCKS = 8


@functools.cache
def _streams() -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream() for _ in range(4)]


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = x.new_empty(x.shape[0], w.shape[1])
    here, streams = torch.cuda.current_stream(), _streams()
    for stream in streams:
        stream.wait_stream(here)
    for number, (some, into) in enumerate(zip(x.chunk(BLOCKS), y.chunk(BLOCKS), strict=True)):
        with torch.cuda.stream(streams[number % len(streams)]):
            torch.addmm(b, some, w, out=into)
            into.relu_()
    for stream in streams:
        here.wait_stream(stream)
    return y
