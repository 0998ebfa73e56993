"""What jobs need of the engine: its events, its store, and the processes and the GPU of their slot."""

from __future__ import annotations

import copy
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aisp.engine import paths
from aisp.engine.arms import Limits
from aisp.engine.caches import Caches
from aisp.engine.gpus import GpuOwnership
from aisp.engine.pool import Pool
from aisp.engine.protocol import events
from aisp.engine.telemetry import Nvml
from aisp.kernels.catalog.contracts import Cache
from aisp.store import record as records

if TYPE_CHECKING:
    from aisp.store.writer import Store

T = TypeVar("T")


class StoreCall(Protocol):
    """Lets the one writer of the store do some work, off the loop; what the work returns."""

    async def __call__(self, work: Callable[[Store], T], /) -> T: ...


@dataclass(slots=True)
class Services:
    """What a run needs of the engine."""

    publish: Callable[[events.Event], None]
    store: StoreCall
    pool: Pool
    nvml: Nvml
    snapshots_dir: Path
    limits: Limits = field(default_factory=Limits.from_environment)
    gpu: int = 0  # NVML's index of the slot's GPU, or of the first where a job uses several
    gpus: tuple[int, ...] = ()  # all of them; empty: that one
    on_lost_gpu: Callable[[str], None] = lambda reason: None
    ownership: GpuOwnership = field(init=False)  # of these GPUs
    refuse_contended: bool = os.environ.get("AISP_REFUSE_CONTENDED", "") not in ("", "0")
    peaks: dict[int, records.Peak] = field(default_factory=dict)  # by GPU: the newest ceilings of it
    pairs_ms: dict[tuple[int, Cache], float | None] = field(default_factory=dict)  # by GPU: see Crew.pair_ms
    # How many processes the slot's next runs will take, and how many of them use torch's compiler: of two at most.
    next_processes: Callable[[], Sequence[tuple[int, int]]] = tuple
    # What has become of the installation since the run began; to be asked when none of its processes is left.
    look_after: Callable[[str], Awaitable[Mapping[str, Any]]] | None = None
    caches: Caches = field(default_factory=lambda: Caches(paths.compiled_dir(), paths.cache_links_dir()))

    def __post_init__(self) -> None:
        self.ownership = GpuOwnership(self.nvml, *(self.gpus or (self.gpu,)))

    @property
    def peak(self) -> records.Peak | None:
        """The newest ceilings of the GPU; None where none were measured."""
        return self.peaks.get(self.gpu)

    def patient(self, patience_s: float) -> Services:
        """The same, with limits of at most `patience_s` for a rung's sign of progress; 0 leaves them as they are."""
        if not patience_s:
            return self
        other = copy.copy(self)
        other.limits = self.limits.within(patience_s)
        return other

    async def look_at_gpu(self) -> str:
        """Wait until the GPU is as it was before its last use. Returns why it is set aside, or ""."""
        pending = await self.ownership.settled()
        if pending:
            self.on_lost_gpu(pending)
        return f"the GPU is set aside: {pending}" if pending else ""
