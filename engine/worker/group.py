"""Joining the other ranks of an arm: one torch.distributed group for the lesson, one of our own to meet in."""

from __future__ import annotations

import datetime
from typing import Any

from aisp.checks.distributed import RENDEZVOUS_GROUP
from aisp.engine.worker import timers

RENDEZVOUS_PATIENCE = datetime.timedelta(seconds=60)


class Ranks:
    """This process among those of its arm.

    Args:
        rank, ranks: which of how many.
        rendezvous: a path that no file has yet, the same for all.
        device: "cuda" (NCCL, a GPU each) or "cpu" (gloo).
    """

    def __init__(self, rank: int, ranks: int, rendezvous: str, device: str) -> None:
        self.rank = rank
        self.ranks = ranks
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
        self._barrier = dist.barrier  # as it is before the lesson is loaded

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.ranks > 1

    def meet(self) -> None:
        """Wait until all are here."""
        if self._ours is not None:
            self._barrier(group=self._ours)

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
