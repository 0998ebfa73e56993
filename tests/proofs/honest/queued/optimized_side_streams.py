"""Halves on two streams of its own, which wait and are waited for by events."""

import functools

import torch
from torch import Tensor


@functools.cache
def _streams() -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    return torch.cuda.Stream(), torch.cuda.Stream()


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = x.new_empty(x.shape[0], w.shape[1])
    begin = torch.cuda.Event()
    begin.record()
    for stream, some, into in zip(_streams(), x.chunk(2), y.chunk(2), strict=False):
        with torch.cuda.stream(stream):
            begin.wait()
            torch.addmm(b, some, w, out=into)
            into.relu_()
            end = torch.cuda.Event()
            end.record()
        end.wait()
    return y
