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

from aisp.store.outcomes import Correctness, FindingStatus, Limiter, State, Timing, Trigger, Validity, Verdict

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NOT_READ: Floats = np.empty(0)


INSTALLED_CHECK = "evaluation.installed"
"""The check whose suspicion puts rungs in quarantine, all of the run's: what it finds outlasts the run, and who of them
left it is not known. A person may say that it was his own doing; nothing else that was caught is forgiven."""
AUTHOR_CHECK = "evaluation.edits"
"""The check that knows which rung it was: then the others of the run are free."""


class ContradictionError(ValueError):
    """A record whose fields cannot all be true."""


@dataclass(frozen=True, slots=True)
class Samples:
    """One row per kept or discarded sample of an arm, as parallel arrays of equal length.

    Attributes:
        device_ms: event time per call (CPU targets: monotonic clock), finite and > 0. Where the stream was held, the
            reading of an empty event pair has been taken off.
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

    def __post_init__(self) -> None:
        for name in ("probe_ms", "cycles"):  # nobody read the SMs' counters: a CPU, or a run of before there were any
            if getattr(self, name) is _NOT_READ:
                object.__setattr__(self, name, np.full(len(self.device_ms), np.nan))
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
class Quality:
    """What an arm's samples say of themselves. None: too few samples to tell, or no such thing here.

    Attributes:
        drift: relative change of the time from the first to the last third of a replica's rounds, median over replicas.
        autocorrelation: of successive samples in a turn, lag one, -1..1; far from 0 fewer samples are worth as much.
        low_mode_ms, high_mode_ms, high_share: two modes where the samples fall into two (else None), and the
            share of samples in the slower one.
        throttled_share: share of samples set aside because the clock was low.
        resolution_ms: smallest step of the clock that took the samples.
        overhead_ms: reading of an empty event pair, already taken off; None where nothing was taken off.
        watch_us: what the sensors of all checks took around one sample, outside of the timed region.
    """

    drift: float | None = None
    autocorrelation: float | None = None
    low_mode_ms: float | None = None
    high_mode_ms: float | None = None
    high_share: float | None = None
    throttled_share: float | None = None
    resolution_ms: float | None = None
    overhead_ms: float | None = None
    watch_us: float | None = None


@dataclass(frozen=True, slots=True)
class Light:
    """An arm against the speed of light of its case.

    Attributes:
        spec_ms: least time by the datasheet, at boost clock; None for an unknown GPU.
        clock_ms: the same at the clock that the arm ran at.
        measured_ms: least time by the ceilings that were measured on this GPU; None before `aisp bench peak`.
        limiter: what sets the bound, of `measured_ms` where it is known.
        score: 1/(1 + (t - b)/(t0 - b)) with the bound b, the arm's time t and the baseline's t0: 0.5 for a time like
            the baseline's, 1 at the bound. None for the baseline itself, below the bound, where the baseline is at it.
        launch_eager_ms: where the host is the limiter, what an eager launch was measured to cost this host; else None.
    """

    spec_ms: float | None = None
    clock_ms: float | None = None
    measured_ms: float | None = None
    limiter: Limiter | None = None
    score: float | None = None
    launch_eager_ms: float | None = None

    def __post_init__(self) -> None:
        if self.score is not None and not 0 < self.score <= 1:
            raise ContradictionError(f"a score is above 0 and at most 1, not {self.score}")

    @property
    def bound_ms(self) -> float | None:
        """The bound that is compared with: of the measured ceilings, else of the datasheet."""
        return self.measured_ms if self.measured_ms is not None else self.spec_ms


@dataclass(frozen=True, slots=True)
class Naive:
    """What a careless evaluator would have said of a rung: baseline and rung in one process, the same inputs for every
    call, one pair of events around ten calls, torch.allclose with rtol = atol = 1e-2 on one shape.

    Attributes:
        base_ms, time_ms: of the baseline and of the rung, per call.
        accepts: whether allclose found the rung's outputs equal to the baseline's.
        note: why there are no times, "" where there are.
    """

    base_ms: float | None = None
    time_ms: float | None = None
    accepts: bool | None = None
    note: str = ""

    @property
    def speedup(self) -> float | None:
        """Baseline time over rung time, right or wrong."""
        if self.base_ms is None or not self.time_ms:
            return None
        return self.base_ms / self.time_ms


@dataclass(frozen=True, slots=True)
class FindingRecord:
    """What one check (checks.registry) said of one arm, or of the whole run where `arm` is ""."""

    check: str
    arm: str
    status: FindingStatus
    evidence: str  # a sentence with figures; cleaned

    def __post_init__(self) -> None:
        if self.status is not FindingStatus.PASSED and not self.evidence:
            raise ContradictionError(f"{self.check}: {self.status} without a word of evidence")


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A rung that was caught. It stays marked until its code changes and a run with every check finds nothing.

    Attributes:
        folder: of the target, as in RunRecord.
        code: digest of the target's code as it was caught (RunRecord.manifest["code"]).
        run_id, check, evidence, wall: where, by what, what was seen, when.
    """

    target: str
    folder: bytes
    rung: str
    code: str
    run_id: str
    check: str
    evidence: str
    wall: str


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
    calls: int | None = None  # calls in one sample; above 1 where one call is too short for an event pair
    sm_clock_mhz: float | None = None  # median over the kept samples, from the GPU's own counters
    sol: float | None = None  # share of the speed of light, light.bound_ms / median_ms (above 1.05 is a finding)
    light: Light | None = None
    quality: Quality | None = None
    naive: Naive | None = None  # what a careless evaluator says; None where it was not asked (quick runs)
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
        if self.calls is not None and self.calls < 1:
            raise ContradictionError(f"{self.rung}: {self.calls} calls in one sample")
        if self.sm_clock_mhz is not None and not (math.isfinite(self.sm_clock_mhz) and self.sm_clock_mhz > 0):
            raise ContradictionError(
                f"{self.rung}: {self.sm_clock_mhz} MHz is no clock; None says that it is not known"
            )
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
    """`rung` against `baseline`: speed-up = baseline time / rung time, with its 95 % interval.

    `cycles` is the same ratio of SM cycles, which a difference in clocks cannot move: as the SMs counted them, and in
    runs of before they did, time x clock of each sample.
    """

    rung: str
    baseline: str
    verdict: Verdict
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None  # noise floor as a ratio - 1, e.g. 0.005
    cycles: float | None = None
    cycles_low: float | None = None
    cycles_high: float | None = None
    p_value: float | None = None  # of a difference beyond the floor, from the bootstrap; for many targets at once
    note: str = ""  # why UNDECIDED or NONE, and what would decide it; that the clocks differed

    def __post_init__(self) -> None:
        ratios = (self.speedup, self.low, self.high, self.cycles, self.cycles_low, self.cycles_high)
        if any(r is not None and not (math.isfinite(r) and r > 0) for r in ratios):
            raise ContradictionError(f"{self.rung}: ratios must be finite and greater than zero, got {ratios}")
        if self.p_value is not None and not 0 <= self.p_value <= 1:
            raise ContradictionError(f"{self.rung}: a p-value lies in 0..1, not at {self.p_value}")
        if self.verdict in (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME) and None in ratios[:3]:
            raise ContradictionError(f"{self.rung}: {self.verdict} without a speed-up and its interval")
        if self.verdict is Verdict.FASTER and self.low is not None and self.low <= 1:
            raise ContradictionError(f"{self.rung}: faster, but the interval reaches down to {self.low}")
        if self.verdict is Verdict.SLOWER and self.high is not None and self.high >= 1:
            raise ContradictionError(f"{self.rung}: slower, but the interval reaches up to {self.high}")


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a run's life, for the list of steps with their durations."""

    name: str  # "verifier", "warm worker", "compile", "verify", "warm-up", "measure", "verdict"
    arm: str  # "" for the whole run
    start_ns: int
    duration_ms: float


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


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that this GPU was seen to do in one respect, at the clocks that ran.

    Attributes:
        name: "dram read", "bf16 dense", "launch graph node" ...: see engine.speed_of_light.CEILINGS.
        value: in `unit`; None where it could not be measured here, with `note` saying why.
        unit: "bytes/s", "flop/s" or "s".
        footprint_bytes: memory touched, where that matters.
    """

    name: str
    value: float | None
    unit: str
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    footprint_bytes: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.value is None and not self.note:
            raise ContradictionError(f"{self.name}: no value, and no reason why")
        if self.value is not None and not (math.isfinite(self.value) and self.value > 0):
            raise ContradictionError(f"{self.name}: {self.value} {self.unit} is no rate")
        clocks = [clock for clock in (self.sm_clock_mhz, self.memory_clock_mhz) if clock is not None]
        if not all(math.isfinite(clock) and clock > 0 for clock in clocks):
            raise ContradictionError(f"{self.name}: {clocks} MHz are no clocks; None says that one is not known")


@dataclass(frozen=True, slots=True)
class Peak:
    """One measurement of a GPU's ceilings."""

    id: str  # ULID
    gpu: str  # the driver's name of it
    gpu_uuid: str
    wall: str
    environment: str  # hash of the environment record
    ceilings: tuple[Ceiling, ...] = ()

    def ceiling(self, name: str) -> Ceiling | None:
        """The ceiling of this name that has a value, the highest where footprints differ; for times the lowest."""
        found = [c for c in self.ceilings if c.name == name and c.value is not None]
        if not found:
            return None
        return (min if found[0].unit == "s" else max)(found, key=lambda c: c.value or 0.0)


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
    findings: tuple[FindingRecord, ...] = ()

    def caught(self, rung: str) -> FindingRecord | None:
        """The first finding for which this arm's time is not a result, None where there is none."""
        return next((f for f in self.findings if f.arm == rung and f.status is FindingStatus.CAUGHT), None)

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
        caught = {f.arm for f in self.findings if f.status is FindingStatus.CAUGHT}
        told = [c.rung for c in self.comparisons if c.speedup is not None and {c.rung, c.baseline, ""} & caught]
        if told:
            raise ContradictionError(f"run {self.id}: a speed-up of {', '.join(told)}, which was caught")
        if not self.state.final and (self.duration_ms is not None or self.comparisons):
            raise ContradictionError(f"run {self.id}: results before its end")
        if self.state.final and self.state is not State.OK and not self.reason:
            raise ContradictionError(f"run {self.id}: ended {self.state} without a reason")
