"""How far other users of the processors can have moved the times of a run on a CPU.

Around the turns of each arm it reads how long the arm's threads stood in line for a processor (schedstat, in ns).
Around all turns of a replica it reads how much processor time others took and the hypervisor took (/proc/stat; of the
slot's cores, where it has some of its own), and for how long anything on the machine stood in line (pressure stall
information, in us). All of it lies outside of every sample.

One process per arm cannot show what neighbours do to it: they come for seconds, and meet some turns and not others. So
the noise floor of a comparison without an A/A arm is at least what the busier of its two arms can have lost to them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aisp.engine.environment import pressure_s, processor_time, processors, slot_cores

QUIET_CORES = 0.05  # of others' processor time: less is the machine's own housekeeping
MOST_FACTOR = 10.0

RULE = {
    "quiet_cores": QUIET_CORES,
    "floor": "without an A/A arm at least the factor by which neighbours can have lengthened one of the two arms",
}
"""As the manifest of a run on a CPU states it."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What the kernel says of all threads of a process, in ms: how long they ran, and how long they stood in line."""

    ran_ms: float
    waited_ms: float

    @classmethod
    def of(cls, pid: int) -> Scheduled:
        """Up to now; zeros where the kernel keeps no count, or the process is gone."""
        ran = waited = 0
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError):
                ran_ns, waited_ns, _ = path.read_text().split()
                ran, waited = ran + int(ran_ns), waited + int(waited_ns)
        return cls(ran / 1e6, waited / 1e6)

    def alone_ms(self, later: Scheduled, wall_ms: float) -> float:
        """What the wall time until `later` would have been without neighbours, in ms.

        It is never less than the work of the threads takes on all processors.
        """
        ran_ms, waited_ms = max(later.ran_ms - self.ran_ms, 0.0), max(later.waited_ms - self.waited_ms, 0.0)
        return min(max(wall_ms - waited_ms, ran_ms / processors()), wall_ms)


class Crowd:
    """How long a process takes for what happens within, and how long it would have taken without neighbours.

    Attributes:
        wall_ms: by the engine's clock.
        alone_ms: without the time in which its threads stood in line for a processor.
        ran_ms: processor time of its threads.
    """

    def __init__(self, pid: int) -> None:
        self.wall_ms = self.alone_ms = self.ran_ms = 0.0
        self._pid = pid

    def __enter__(self) -> Crowd:
        self._before, self._start_ns = Scheduled.of(self._pid), time.monotonic_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_ms = (time.monotonic_ns() - self._start_ns) / 1e6
        later = Scheduled.of(self._pid)
        self.alone_ms = self._before.alone_ms(later, self.wall_ms)
        self.ran_ms = max(later.ran_ms - self._before.ran_ms, 0.0)


@dataclass(slots=True)
class Waits:
    """What one arm met over all of its turns.

    Attributes:
        wall_ms, alone_ms, ran_ms: of Crowd, added up.
        others_cores: processors that others kept busy, of `cores`; the most of any replica. None where unknown.
        stolen_share: of the processor time that was asked for, what the hypervisor took; the most of any replica.
        pressure_share: of the time, that in which anything on the machine stood in line; likewise.
    """

    wall_ms: float = 0.0
    alone_ms: float = 0.0
    ran_ms: float = 0.0
    cores: int = 0
    others_cores: float | None = None
    stolen_share: float = 0.0
    pressure_share: float | None = None

    def add(self, crowd: Crowd) -> None:
        """One turn."""
        self.wall_ms += crowd.wall_ms
        self.alone_ms += crowd.alone_ms
        self.ran_ms += crowd.ran_ms

    @property
    def share(self) -> float | None:
        """Share of the time of its turns in which its threads stood in line because of others. None where it is not
        known.
        """
        if not self.wall_ms:
            return None
        if self.others_cores is not None and self.others_cores < QUIET_CORES:
            return 0.0  # its threads are in each other's way alone
        if not self.ran_ms:  # the kernel keeps no count by thread
            return self.pressure_share
        return max(0.0, 1.0 - self.alone_ms / self.wall_ms)

    @property
    def factor(self) -> float:
        """How much longer neighbours can have made its turns.

        They do so by the queue and the hypervisor, or by their share of caches, memory and clock. That share is taken
        to be their share of the processors, and at most doubles a time.
        """
        if not self.wall_ms:
            return 1.0  # a GPU's turns are not asked about
        queue = (1.0 - (self.share or 0.0)) * (1.0 - self.stolen_share)
        others = self.others_cores if self.others_cores is not None and self.others_cores >= QUIET_CORES else 0.0
        shared = 1.0 + (min(others / self.cores, 1.0) if self.cores else 0.0)
        return max(1.0 / max(queue, 1.0 / MOST_FACTOR), shared)

    def members(self) -> dict[str, Any]:
        """Members of an arm's quality in a record; empty where no turn was on a CPU."""
        if not self.wall_ms:
            return {}
        return {
            "busy_factor": self.factor,
            "waited_share": self.share,
            "others_cores": None if self.others_cores is None else max(self.others_cores, 0.0),
            "cores": self.cores or None,
            "stolen_share": self.stolen_share if self.cores else None,
        }


@contextlib.contextmanager
def around(waits: Sequence[Waits]) -> Iterator[None]:
    """Note what the machine as a whole did during the turns of one replica."""
    before, pressed, ran_ms = processor_time(), pressure_s(), sum(each.ran_ms for each in waits)
    start_s, own_s = time.monotonic(), time.process_time()
    try:
        yield
    finally:
        wall_s = max(time.monotonic() - start_s, 1e-3)
        # Where a slot has cores of its own, the engine is not on them.
        own_s = 0.0 if slot_cores.get() else time.process_time() - own_s
        own_s += (sum(each.ran_ms for each in waits) - ran_ms) / 1e3
        after, pressed_after = processor_time(), pressure_s()
        for each in waits:
            each.cores = processors()
            if pressed is not None and pressed_after is not None:
                each.pressure_share = max(each.pressure_share or 0.0, min((pressed_after - pressed) / wall_s, 1.0))
            if before is None or after is None:
                continue
            busy_s, stolen_s = after.busy_s - before.busy_s, after.stolen_s - before.stolen_s
            each.others_cores = max(each.others_cores or 0.0, (busy_s - own_s) / wall_s)
            if busy_s + stolen_s > 0:
                each.stolen_share = max(each.stolen_share, stolen_s / (busy_s + stolen_s))
