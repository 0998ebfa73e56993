"""The kernel: a program has the same rows on every rank, shows its own, and normalises the sum of all."""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from aisp.kernels.peers import PROGRAMS, barrier, block_of, share

EPS = 1e-5


@triton.jit
def all_reduce_norm(
    x, residual, weight, y, hidden, data, signals, T, D, eps,
    RANK: tl.constexpr, WORLD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One layer: x, residual, y and hidden [T, D], weight [D]."""
    program = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < D
    mine = block_of(data, RANK, x.dtype.element_ty)
    for row in range(program, T, tl.num_programs(0)):
        at = row * D + column
        tl.store(mine + at, tl.load(x + at, mask=inside), mask=inside)
    barrier(signals, RANK, WORLD)
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    for row in range(program, T, tl.num_programs(0)):
        at = row * D + column
        total = tl.zeros([BLOCK], tl.float32)
        for peer in tl.static_range(WORLD):  # in the order of ranks, so that all get the same bits
            theirs = block_of(data, peer, x.dtype.element_ty)
            total += tl.load(theirs + at, mask=inside, other=0.0).to(tl.float32)
        total += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(hidden + at, total.to(hidden.dtype.element_ty), mask=inside)
        norm = tl.rsqrt(tl.sum(total * total, 0) / D + eps)
        tl.store(y + at, (total * norm * scale).to(y.dtype.element_ty), mask=inside)
    barrier(signals, RANK, WORLD)  # all have read: the next layer may overwrite


def layers(x: Tensor) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    """All layers of a step on tensors as x [L, T, D], a launch each."""
    _, T, D = x.shape
    peers = share(T * D * x.element_size(), x.device)
    block = triton.next_power_of_2(D)
    warps = min(16, max(4, block // 512))  # 16 elements a thread, where there are as many
    grid = (min(T, PROGRAMS),)

    def step(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        y, hidden = torch.empty_like(x), torch.empty_like(x)
        for layer in range(len(x)):
            all_reduce_norm[grid](
                x[layer], residual[layer], weight[layer], y[layer], hidden[layer], peers.data, peers.signals, T, D, EPS,
                RANK=peers.rank, WORLD=peers.world, BLOCK=block, num_warps=warps,
            )  # fmt: skip
        return y, hidden

    return step
