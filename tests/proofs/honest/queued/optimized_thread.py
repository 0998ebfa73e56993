"""A thread of its own launches one half on a stream of its own, and is joined."""

import functools
import threading

import torch
from torch import Tensor


@functools.cache
def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = x.new_empty(x.shape[0], w.shape[1])
    half, here, there = x.shape[0] // 2, torch.cuda.current_stream(), _stream()
    there.wait_stream(here)

    def launch() -> None:
        with torch.cuda.stream(there):
            torch.addmm(b, x[:half], w, out=y[:half])
            y[:half].relu_()

    other = threading.Thread(target=launch)
    other.start()
    torch.addmm(b, x[half:], w, out=y[half:])
    y[half:].relu_()
    other.join()
    here.wait_stream(there)
    return y
