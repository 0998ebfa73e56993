"""The same bytes written by the SMs: an ordinary store, to an address that lies in the next GPU's memory."""

from collections.abc import Callable

import triton
import triton.language as tl
from shared import Window
from torch import Tensor

BLOCK = 4096  # 16 floats a thread: four stores of 16 bytes


@triton.jit
def write(there_pointer, x_pointer, N, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(there_pointer + at, tl.load(x_pointer + at, mask=at < N), mask=at < N)


def prepare(x: Tensor) -> Callable[..., Tensor]:
    window = Window(x)

    def step(x: Tensor) -> Tensor:  # this rank's [N] -> the [N] of the rank before
        here, there = window.turn()
        write[(triton.cdiv(len(x), BLOCK),)](there, x, len(x), BLOCK, num_warps=8)
        window.meet()
        return here

    return step


def run(x: Tensor) -> Tensor:
    return prepare(x)(x)
