"""The three kernels. In each, program p of a rank meets program p of the others, and nobody else."""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from aisp.kernels.peers import PROGRAMS, barrier, block_of, share

BLOCK = 2048  # elements of a step: 16 bytes a thread
WARPS = 8


@triton.jit
def one_shot(x, data, signals, n, span, RANK: tl.constexpr, WORLD: tl.constexpr, BLOCK: tl.constexpr):
    """Show the own message to all, then read everybody's and add."""
    first = tl.program_id(0) * span
    mine = block_of(data, RANK, x.dtype.element_ty)
    for start in range(first, first + span, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(mine + at, tl.load(x + at, mask=at < n), mask=at < n)
    barrier(signals, RANK, WORLD)
    for start in range(first, first + span, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], tl.float32)
        for peer in tl.static_range(WORLD):  # in the order of ranks, so that all get the same bits
            theirs = block_of(data, peer, x.dtype.element_ty)
            total += tl.load(theirs + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(x + at, total.to(x.dtype.element_ty), mask=at < n)
    barrier(signals, RANK, WORLD)  # all have read: the next call may overwrite


@triton.jit
def one_shot_halves(
    x, data, signals, turns, n, span, half, RANK: tl.constexpr, WORLD: tl.constexpr, BLOCK: tl.constexpr
):
    """The same with two halves in turn: who signals in this call has read what was shown in the one before."""
    program = tl.program_id(0)
    first = program * span
    turn = tl.load(turns + program)
    shown = (turn % 2) * half
    mine = block_of(data, RANK, x.dtype.element_ty) + tl.multiple_of(shown, 16)
    for start in range(first, first + span, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(mine + at, tl.load(x + at, mask=at < n), mask=at < n)
    barrier(signals, RANK, WORLD)
    tl.store(turns + program, turn + 1)
    for start in range(first, first + span, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], tl.float32)
        for peer in tl.static_range(WORLD):
            theirs = block_of(data, peer, x.dtype.element_ty) + tl.multiple_of(shown, 16)
            total += tl.load(theirs + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(x + at, total.to(x.dtype.element_ty), mask=at < n)


@triton.jit
def two_shot(x, data, signals, n, part, RANK: tl.constexpr, WORLD: tl.constexpr, BLOCK: tl.constexpr):
    """Show the own message, add up the own part of it, then read everybody's part of the sum."""
    first = tl.program_id(0) * part * WORLD
    mine = block_of(data, RANK, x.dtype.element_ty)
    for start in range(first, first + part * WORLD, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(mine + at, tl.load(x + at, mask=at < n), mask=at < n)
    barrier(signals, RANK, WORLD)
    for start in range(first + RANK * part, first + (RANK + 1) * part, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], tl.float32)
        for peer in tl.static_range(WORLD):
            theirs = block_of(data, peer, x.dtype.element_ty)
            total += tl.load(theirs + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(mine + at, total.to(x.dtype.element_ty), mask=at < n)  # nobody else reads this part of this block
    barrier(signals, RANK, WORLD)
    for peer in tl.static_range(WORLD):
        theirs = block_of(data, peer, x.dtype.element_ty)
        for start in range(first + peer * part, first + (peer + 1) * part, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(x + at, tl.load(theirs + at, mask=at < n), mask=at < n)
    barrier(signals, RANK, WORLD)


def by_one_shot(x: Tensor) -> Callable[[Tensor], Tensor]:
    """Sum each message of x [C, N] over the ranks, in place."""
    n = x.shape[1]
    peers = share(n * x.element_size(), x.device)
    span = _span(n, BLOCK)
    grid = (triton.cdiv(n, span),)

    def step(x: Tensor) -> Tensor:
        for message in x.unbind():
            one_shot[grid](
                message, peers.data, peers.signals, n, span,
                RANK=peers.rank, WORLD=peers.world, BLOCK=BLOCK, num_warps=WARPS,
            )  # fmt: skip
        return x

    return step


def by_halves(x: Tensor) -> Callable[[Tensor], Tensor]:
    """As by_one_shot, with a barrier less and twice the memory."""
    n = x.shape[1]
    span = _span(n, BLOCK)
    grid = (triton.cdiv(n, span),)
    half = grid[0] * span
    peers = share(2 * half * x.element_size(), x.device)
    turns = x.new_zeros(PROGRAMS, dtype=torch.int32)  # of each program, on the device: a graph replays them too

    def step(x: Tensor) -> Tensor:
        for message in x.unbind():
            one_shot_halves[grid](
                message, peers.data, peers.signals, turns, n, span, half,
                RANK=peers.rank, WORLD=peers.world, BLOCK=BLOCK, num_warps=WARPS,
            )  # fmt: skip
        return x

    return step


def by_two_shot(x: Tensor) -> Callable[[Tensor], Tensor]:
    """As by_one_shot, each rank adding up its part alone."""
    n = x.shape[1]
    peers = share(n * x.element_size(), x.device)
    part = _span(n, BLOCK * peers.world) // peers.world
    grid = (triton.cdiv(n, part * peers.world),)

    def step(x: Tensor) -> Tensor:
        for message in x.unbind():
            two_shot[grid](
                message, peers.data, peers.signals, n, part,
                RANK=peers.rank, WORLD=peers.world, BLOCK=BLOCK, num_warps=WARPS,
            )  # fmt: skip
        return x

    return step


def _span(n: int, step: int) -> int:
    """Elements of a program: the fewest steps with which PROGRAMS programs reach all n."""
    return triton.cdiv(n, step * PROGRAMS) * step
