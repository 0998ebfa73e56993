"""What the store remembers of a run: frozen records that cannot contradict themselves.

Times are milliseconds where the name ends in `_ms`, nanoseconds of CLOCK_MONOTONIC where it ends in `_ns`
(comparable within one `epoch`, the life of one engine process), and `wall` is a label in ISO 8601 UTC, never
used for arithmetic. None means "could not be measured" and is drawn as a dash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from store.outcomes import Correctness, State, Timing, Trigger, Validity, Verdict

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class ContradictionError(ValueError):
    """A record whose fields cannot all be true."""


@dataclass(frozen=True, slots=True)
class Samples:
    """One row per kept or discarded sample of an arm, as parallel arrays of equal length.

    Attributes:
        device_ms: event time per call (CPU targets: process clock), finite and > 0.
        host_ms: host time of the call's launch.
        end_ns: CLOCK_MONOTONIC when the sample was complete; the time axis shared with telemetry.
        round: index of the ABBA round within its replica.
        replica: index of the fresh process.
        inputs: which of the K input sets the call ran on.
        discarded: 0 where kept, else a code of `DISCARDED`.
    """

    device_ms: Floats
    host_ms: Floats
    end_ns: Ints
    round: Ints
    replica: Ints
    inputs: Ints
    discarded: Ints

    def __post_init__(self) -> None:
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


DISCARDED: Mapping[int, str] = {1: "clock below 75 % of the reference", 2: "host time leaked into the sample"}


@dataclass(frozen=True, slots=True)
class ArmRecord:
    """One rung's part in a run. `rung` is the file's name; the A/A arm is "baseline (A/A)"."""

    rung: str
    state: State
    correctness: Correctness = Correctness.UNKNOWN
    timing: Timing = Timing.NONE
    median_ms: float | None = None
    low_ms: float | None = None  # 95 % interval of the median
    high_ms: float | None = None
    sample_count: int = 0
    sol: float | None = None  # share of the speed of light, 0..1 (above 1.05 is a finding)
    max_error: float | None = None  # worst error in units of the tolerance; above 1 is wrong
    peak_bytes: int | None = None  # most device memory held during a call, beyond the inputs
    exit_code: int | None = None
    signal: int | None = None
    signal_sent_by_us: bool = False
    dirty_exit: bool = False  # the result is whole, but the process had to be killed afterwards
    reason: str = ""  # one sentence: what happened and the next move
    detail: str = ""  # traceback cut to the user's frames, or the mismatch; cleaned text
    sources: str = ""  # sha256 of the rung's own file as it ran

    def __post_init__(self) -> None:
        times = (self.median_ms, self.low_ms, self.high_ms)
        if any(t is not None and not (math.isfinite(t) and t > 0) for t in times):
            raise ContradictionError(f"{self.rung}: times must be finite and greater than zero, got {times}")
        if self.median_ms is not None:
            if self.timing is Timing.NONE:
                raise ContradictionError(f"{self.rung}: a time without the way it was taken")
            if self.sample_count < 1:
                raise ContradictionError(f"{self.rung}: a time without samples")
            if self.correctness is not Correctness.CORRECT:
                raise ContradictionError(f"{self.rung}: a time for outputs that were not found correct")
        if self.low_ms is not None and self.high_ms is not None and self.low_ms > self.high_ms:
            raise ContradictionError(f"{self.rung}: interval {self.low_ms}..{self.high_ms} is upside down")
        if self.state is State.OK and self.correctness is not Correctness.CORRECT:
            raise ContradictionError(f"{self.rung}: ok, but {self.correctness}")
        if self.state is State.INCORRECT and self.correctness is not Correctness.WRONG:
            raise ContradictionError(f"{self.rung}: incorrect, but {self.correctness}")
        if self.state is State.CRASHED and self.signal is None:
            raise ContradictionError(f"{self.rung}: crashed without a signal")
        if not self.state.final and self.reason:
            raise ContradictionError(f"{self.rung}: a reason for an end that has not come")


@dataclass(frozen=True, slots=True)
class ComparisonRecord:
    """`rung` against `baseline`: speed-up = baseline time / rung time, with its 95 % interval."""

    rung: str
    baseline: str
    verdict: Verdict
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None  # noise floor as a ratio - 1, e.g. 0.005
    note: str = ""  # why UNDECIDED or NONE, and what would decide it

    def __post_init__(self) -> None:
        ratios = (self.speedup, self.low, self.high)
        if any(r is not None and not (math.isfinite(r) and r > 0) for r in ratios):
            raise ContradictionError(f"{self.rung}: ratios must be finite and greater than zero, got {ratios}")
        if self.verdict in (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME) and None in ratios:
            raise ContradictionError(f"{self.rung}: {self.verdict} without a speed-up and its interval")
        if self.verdict is Verdict.FASTER and self.low is not None and self.low <= 1:
            raise ContradictionError(f"{self.rung}: faster, but the interval reaches down to {self.low}")
        if self.verdict is Verdict.SLOWER and self.high is not None and self.high >= 1:
            raise ContradictionError(f"{self.rung}: slower, but the interval reaches up to {self.high}")


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a run's life, for the list of steps with their durations."""

    name: str  # "warm worker", "compile", "verify", "warm-up", "measure", "verdict"
    arm: str  # "" for the whole run
    start_ns: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Telemetry:
    """GPU state at 20 Hz, parallel arrays; NaN and -1 where the driver gave no answer."""

    at_ns: Ints
    sm_clock_mhz: Floats
    memory_clock_mhz: Floats
    temperature_c: Floats
    power_w: Floats
    throttle: Ints  # NVML's clocks-event-reasons bit mask, -1 unknown


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run of one target: the unit that is planned, journalled, finished and remembered."""

    id: str  # ULID: sorts by creation
    target: str
    folder: bytes  # os.fsencode of the target's folder: any byte but NUL may stand in a path
    title: str
    device: str  # "cuda" or "cpu"
    case: str
    quick: bool
    trigger: Trigger
    seed: int
    epoch: str  # the engine process's own ULID
    seq: int  # order within the epoch
    wall: str
    snapshot: str  # hash of the source snapshot that ran
    state: State
    correctness: Correctness = Correctness.UNKNOWN
    validity: Validity = Validity.UNKNOWN
    verdict: Verdict = Verdict.NONE  # the best honest rung's against the baseline
    attempt: int = 1
    start_ns: int | None = None
    duration_ms: float | None = None
    reason: str = ""
    environment: str = ""  # hash of the environment record
    manifest: Mapping[str, object] = field(default_factory=dict)  # stop rule, replicas, sets, tolerances
    flags: tuple[str, ...] = ()  # "contended", "clocks=unlocked", "wall_jump"
    arms: tuple[ArmRecord, ...] = ()
    comparisons: tuple[ComparisonRecord, ...] = ()
    steps: tuple[StepRecord, ...] = ()

    def __post_init__(self) -> None:
        if self.state is State.OK:
            if self.correctness is not Correctness.CORRECT:
                raise ContradictionError(f"run {self.id}: ok, but {self.correctness}")
            bad = [arm.rung for arm in self.arms if arm.state not in (State.OK, State.UNAVAILABLE)]
            if bad:
                raise ContradictionError(f"run {self.id}: ok, but {', '.join(bad)} did not end well")
        if self.state is State.INCORRECT and self.correctness is not Correctness.WRONG:
            raise ContradictionError(f"run {self.id}: incorrect, but {self.correctness}")
        if self.verdict in (Verdict.FASTER, Verdict.SLOWER) and self.validity is Validity.CAUGHT:
            raise ContradictionError(f"run {self.id}: a verdict on a time that was caught cheating")
        if not self.state.final and (self.duration_ms is not None or self.comparisons):
            raise ContradictionError(f"run {self.id}: results before its end")
        if self.state.final and self.state is not State.OK and not self.reason:
            raise ContradictionError(f"run {self.id}: ended {self.state} without a reason")
