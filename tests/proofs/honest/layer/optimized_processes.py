"""A pool of one process that does one half of the rows, in shared memory, waited for."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch
from torch import Tensor


def _serve(line: Connection, x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> None:
    torch.set_num_threads(1)
    while line.recv():
        torch.addmm(b, x, w, out=y).relu_()
        line.send(True)


def prepare(x: Tensor, w: Tensor, b: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Start a process with shared memory for its half."""
    half = x.shape[0] // 2
    theirs = x.new_empty(half, x.shape[1]).share_memory_()
    found = x.new_empty(half, w.shape[1]).share_memory_()
    context = multiprocessing.get_context("fork")
    line, other = context.Pipe()
    args = (other, theirs, w.clone().share_memory_(), b.clone().share_memory_(), found)
    context.Process(target=_serve, args=args, daemon=True).start()

    def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        theirs.copy_(x[:half])
        line.send(True)
        lower = torch.addmm(b, x[half:], w).relu_()
        line.recv()
        return torch.cat((found, lower))

    return run
