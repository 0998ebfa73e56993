"""Memory that every rank of a lesson can address, and a barrier that kernels hold among one another.

    from aisp.kernels.peers import PROGRAMS, barrier, share

    peers = share(nbytes, x.device)  # collective: every rank calls it, with the same size
    kernel[(programs,)](x, peers.data, peers.signals, ..., RANK=peers.rank, WORLD=peers.world)

Each rank owns a block of `nbytes` and some signals. `data` and `signals` are tables of addresses, one for each rank, as
this rank's process and GPU know them: on GPUs the blocks are torch's symmetric memory, and a load from another rank's
address goes over NVLink. On a CPU they are a file that all processes map, and what runs in Triton's interpreter is the
same kernel.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import triton
import triton.language as tl

PROGRAMS = 128  # at most, of a grid with a barrier: all of them run at once on a GPU with as many multiprocessors
ALIGNMENT_BYTES = 256


@dataclass(frozen=True, slots=True)
class Peers:
    """The blocks of all ranks.

    Attributes:
        rank, world: which of how many.
        data: addresses of the blocks, int64 [world], on this rank's device.
        signals: addresses of their signals: int32 [PROGRAMS, world] each, zero between two calls.
        kept: what keeps the memory alive.
    """

    rank: int
    world: int
    data: torch.Tensor
    signals: torch.Tensor
    kept: tuple[Any, ...] = field(repr=False)


def share(nbytes: int, device: torch.device) -> Peers:
    """Make this rank's block of `nbytes` and learn where the others' are. Its contents are zero.

    Raises:
        RuntimeError: the GPUs cannot address one another's memory.
        OSError: there is too little room for the file on a machine without GPUs.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    nbytes = triton.cdiv(max(nbytes, 1), ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    whole = nbytes + triton.cdiv(4 * PROGRAMS * world, ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    bases, kept = (_on_gpus if device.type == "cuda" else _on_cpu)(whole, device, rank, world)
    return Peers(
        rank,
        world,
        torch.tensor(bases, dtype=torch.int64, device=device),
        torch.tensor([base + nbytes for base in bases], dtype=torch.int64, device=device),
        kept,
    )


def _on_gpus(whole: int, device: torch.device, rank: int, world: int) -> tuple[list[int], tuple[Any, ...]]:
    import torch.distributed._symmetric_memory as symm_mem  # on a CPU nothing of it is needed

    block = symm_mem.empty(whole, dtype=torch.uint8, device=device)
    handle = symm_mem.rendezvous(block, dist.group.WORLD)
    block.zero_()
    torch.cuda.synchronize(device)
    dist.barrier()  # nobody signals into a block that is not zero yet
    # A block may lie inside of a larger allocation, at the same place on every rank.
    inside = block.data_ptr() - handle.buffer_ptrs[rank]
    return [handle.buffer_ptrs[peer] + inside for peer in range(world)], (block, handle)


def _on_cpu(whole: int, _: torch.device, rank: int, world: int) -> tuple[list[int], tuple[Any, ...]]:
    name: list[Any] = [None]
    if rank == 0:
        descriptor, name[0] = tempfile.mkstemp()  # where ranks leave one another things; it goes with the run
        try:
            os.posix_fallocate(descriptor, 0, whole * world)  # too little room is an error here, no signal later
        except OSError:
            Path(name[0]).unlink()
            raise
        finally:
            os.close(descriptor)
    dist.broadcast_object_list(name, src=0)
    blocks = torch.from_file(name[0], shared=True, size=whole * world, dtype=torch.uint8)
    dist.barrier()
    if rank == 0:
        Path(name[0]).unlink()  # the mappings hold it
    return [blocks.data_ptr() + peer * whole for peer in range(world)], (blocks,)


@triton.jit
def block_of(data, peer, dtype: tl.constexpr):
    """Pointer to the first element of a rank's block. Blocks are aligned, which wide loads have to be told."""
    return tl.multiple_of(tl.load(data + peer).to(tl.pointer_type(dtype)), 16)


@triton.jit
def barrier(signals, RANK: tl.constexpr, WORLD: tl.constexpr):
    """Wait until this program has come here on every rank. What any of them wrote before is seen by all after it.

    A signal is a count: raised by the other rank, lowered by the one that waited for it. So all are zero after a call,
    and a rank that is already at its next barrier does no harm.
    """
    program = tl.program_id(0)
    tl.debug_barrier()  # all threads have written before the one that signals releases their writes
    for peer in tl.static_range(WORLD):
        if peer != RANK:
            theirs = tl.load(signals + peer).to(tl.pointer_type(tl.int32))
            tl.atomic_add(theirs + program * WORLD + RANK, 1, sem="release", scope="sys")
    mine = tl.load(signals + RANK).to(tl.pointer_type(tl.int32))
    for peer in tl.static_range(WORLD):
        if peer != RANK:
            signal = mine + program * WORLD + peer
            while tl.atomic_add(signal, 0, sem="acquire", scope="sys") == 0:
                pass
            tl.atomic_add(signal, -1, sem="relaxed", scope="sys")
    tl.debug_barrier()  # no thread reads before the one that waited has acquired
