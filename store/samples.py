"""What the store keeps of a run beside its record: samples and telemetry, as parallel arrays.

None of a frontend's start needs numpy, so they stand apart from the record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from aisp.store.record import ContradictionError
from aisp.store.record.run import RANK_COLUMNS as RANK_COLUMNS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NOT_READ: Floats = np.empty(0)

T = TypeVar("T", "Samples", "Telemetry")


def frozen(kind: type[T], lists: object) -> T:
    """Samples or telemetry from an object that has a growing list under each of its arrays' names."""
    dtypes: dict[str, Any] = {column.name: np.int64 if column.type == "Ints" else np.float64 for column in fields(kind)}
    return kind(**{name: np.array(getattr(lists, name), dtype) for name, dtype in dtypes.items()})


@dataclass(frozen=True, slots=True)
class Samples:
    """One row per kept or discarded sample of an arm, as parallel arrays of equal length.

    Attributes:
        device_ms: event time per call (CPU targets: monotonic clock), finite and > 0. Where the stream was held, the
            reading of the event pair itself has been taken off.
        host_ms: host time of the launch, per call (CPU targets: CPU time of the process, all threads).
        end_ns: CLOCK_MONOTONIC when the sample was complete; the time axis shared with telemetry.
        round: index of the ABBA round within its replica.
        replica: index of the fresh process.
        inputs: which of the K input sets the call ran on; -1 for a sample of several calls on several sets.
        discarded: 0 where kept, else a code of `DISCARDED`.
        sm_clock_mhz: of the GPU during the sample, by its own cycle counter over its own nanosecond timer; NaN unknown.
        probe_ms: time per call by the SMs' nanosecond timer, read before and after the events, less what it reads
            around nothing: a second clock, near `device_ms`, and possibly below zero for a call that hardly takes any;
            NaN unknown.
        cycles: SM cycles per call by the SMs' cycle counter between the same readings, less what it reads around
            nothing; NaN unknown.
        rank_ms: where several ranks are the arm, [samples, ranks]: each one's own time per call, from when it left the
            barrier; `device_ms` is the longest of them. Of one process [samples, 0], as the two that follow.
        rank_late_us: how long after the first rank each one left the barrier.
        rank_clock_mhz: SM clock of each rank's GPU; NaN unknown.
    """

    device_ms: Floats
    host_ms: Floats
    end_ns: Ints
    round: Ints
    replica: Ints
    inputs: Ints
    discarded: Ints
    sm_clock_mhz: Floats
    probe_ms: Floats = field(default_factory=lambda: _NOT_READ)
    cycles: Floats = field(default_factory=lambda: _NOT_READ)
    rank_ms: Floats = field(default_factory=lambda: _NOT_READ)
    rank_late_us: Floats = field(default_factory=lambda: _NOT_READ)
    rank_clock_mhz: Floats = field(default_factory=lambda: _NOT_READ)

    @property
    def ranks(self) -> int:
        """Number of ranks with times of their own; 0 where one process is the arm."""
        return int(self.rank_ms.shape[1])

    @property
    def processes(self) -> int:
        """In how many fresh processes they were taken."""
        return len(np.unique(self.replica))

    def __post_init__(self) -> None:
        for name in ("probe_ms", "cycles"):  # nobody read the SMs' counters: a CPU, or a run of before there were any
            if getattr(self, name) is _NOT_READ:
                object.__setattr__(self, name, np.full(len(self.device_ms), np.nan))
        for name in RANK_COLUMNS:
            if not getattr(self, name).size:
                object.__setattr__(self, name, np.empty((len(self.device_ms), 0)))
        if len({getattr(self, name).shape for name in RANK_COLUMNS}) > 1:
            raise ContradictionError("what the ranks did is not reported of the same samples and ranks everywhere")
        lengths = {len(getattr(self, name)) for name in self.__slots__}
        if len(lengths) > 1:
            raise ContradictionError(f"sample arrays differ in length: {sorted(lengths)}")
        if len(self.device_ms) and not (np.isfinite(self.device_ms).all() and (self.device_ms > 0).all()):
            raise ContradictionError("every sample's time must be finite and greater than zero")

    def __len__(self) -> int:
        return len(self.device_ms)

    @property
    def kept_ms(self) -> Floats:
        """Times of the samples that count."""
        return np.asarray(self.device_ms[self.discarded == 0], np.float64)


TELEMETRY_REACH_NS = 250_000_000
"""How far from a moment a reading may lie that speaks for it: five readings at 20 Hz."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """GPU state at 20 Hz, parallel arrays; NaN and -1 where the driver gave no answer."""

    at_ns: Ints
    sm_clock_mhz: Floats
    memory_clock_mhz: Floats
    temperature_c: Floats
    power_w: Floats
    throttle: Ints  # NVML's clocks-event-reasons bit mask, -1 unknown

    def at(self, end_ns: Ints) -> Telemetry:
        """The GPU's state at these moments, say at the end of each sample: the nearest reading, before or after.

        Args:
            end_ns: CLOCK_MONOTONIC of the same epoch, in any order.

        Returns:
            Arrays as long as `end_ns`; `at_ns` says when the reading was taken. Where none lies within
            `TELEMETRY_REACH_NS`, at_ns and throttle are -1 and the others NaN.
        """
        wanted = np.asarray(end_ns, np.int64)
        order = np.argsort(self.at_ns, kind="stable")
        times = np.asarray(self.at_ns, np.int64)[order]
        if not len(times):
            unknown, none = np.full(len(wanted), np.nan), np.full(len(wanted), -1, np.int64)
            return Telemetry(none, unknown, unknown.copy(), unknown.copy(), unknown.copy(), none.copy())
        after = np.searchsorted(times, wanted).clip(max=len(times) - 1)
        before = (after - 1).clip(min=0)
        nearest = np.where(abs(wanted - times[before]) <= abs(times[after] - wanted), before, after)
        near = abs(times[nearest] - wanted) <= TELEMETRY_REACH_NS
        taken = order[nearest]

        def floats(values: Floats) -> Floats:
            return np.where(near, np.asarray(values, np.float64)[taken], np.nan)

        return Telemetry(
            at_ns=np.where(near, times[nearest], -1),
            sm_clock_mhz=floats(self.sm_clock_mhz),
            memory_clock_mhz=floats(self.memory_clock_mhz),
            temperature_c=floats(self.temperature_c),
            power_w=floats(self.power_w),
            throttle=np.where(near, np.asarray(self.throttle, np.int64)[taken], -1),
        )
