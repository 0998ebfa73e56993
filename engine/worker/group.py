"""Joining the other ranks of an arm: one torch.distributed group for the lesson, one of our own to meet in."""

from __future__ import annotations

import datetime
import functools
import sys
from typing import Any

from aisp.checks.distributed import RENDEZVOUS_GROUP
from aisp.engine.worker import timers
from aisp.engine.worker.probe import Meeting

RENDEZVOUS_PATIENCE = datetime.timedelta(seconds=60)


class Ranks:
    """This process among those of its arm.

    Args:
        rank, ranks: which of how many.
        rendezvous: a path that no file has yet, the same for all.
        device: "cuda" (NCCL, a GPU each) or "cpu" (gloo).
        page: descriptor of a shared file in which kernels of all ranks can meet; None where samples are not timed.

    Attributes:
        meeting: where kernels of all ranks meet; None where they cannot.
    """

    def __init__(self, rank: int, ranks: int, rendezvous: str, device: str, page: int | None = None) -> None:
        self.rank = rank
        self.ranks = ranks
        self.meeting: Meeting | None = None
        self._ours: Any = None
        if ranks == 1:
            return
        import torch
        import torch.distributed as dist

        if device == "cuda":
            torch.cuda.set_device(rank)
            if rank:
                # The torch handles were saved for the first GPU while this process stood by: events recorded
                # there would time nothing of what this rank does.
                timers.stand_ready(anew=True)
        dist.init_process_group(
            "nccl" if device == "cuda" else "gloo",
            init_method=f"file://{rendezvous}",
            rank=rank,
            world_size=ranks,
            timeout=RENDEZVOUS_PATIENCE,
            device_id=torch.device("cuda", rank) if device == "cuda" else None,
        )
        # The lesson's collectives cannot be mixed up with ours.
        self._ours = dist.new_group(backend="gloo", timeout=RENDEZVOUS_PATIENCE, group_desc=RENDEZVOUS_GROUP)
        # As they are before the lesson is loaded.
        self._barrier, self._tensor = dist.barrier, torch.tensor
        self._greatest = functools.partial(dist.all_reduce, op=dist.ReduceOp.MAX)
        if device == "cuda" and page is not None:
            self.meeting = self._met(page)

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.ranks > 1

    def meet(self) -> None:
        """Wait until all are here."""
        if self._ours is not None:
            self._barrier(group=self._ours)

    def any(self, mine: bool) -> bool:
        """Whether one of the ranks says so."""
        if self._ours is None:
            return mine
        flag = self._tensor([int(mine)])
        self._greatest(flag, group=self._ours)
        return bool(flag.item())

    def _met(self, page: int) -> Meeting | None:
        """A meeting of kernels, where every rank can have one."""
        meeting, note = None, timers.stand_ready().hold.note
        if not note:
            try:
                meeting = Meeting(page, self.rank, self.ranks)
            except Exception as error:
                # Whatever is missing, of three libraries and a driver: the hosts meet all the same.
                note = f"{type(error).__name__}: {error}"
        if note:
            sys.stderr.write(f"{self.ranks} GPUs begin as their hosts do, tens of microseconds apart ({note})\n")
        return None if self.any(bool(note)) else meeting

    def part(self, whole: Any) -> Any:
        """This rank's slice of a tensor with a leading dimension of ranks."""
        return whole[self.rank] if self.several else whole

    def shape(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of such a slice."""
        return tuple(whole[1:]) if self.several else tuple(whole)

    def leave(self) -> None:
        """Take the group apart."""
        if self._ours is not None:
            import torch.distributed as dist

            dist.destroy_process_group()
            self._ours = None
