"""The record of a run: frozen structs that cannot contradict themselves.

What the verdict makes, the store seals, the wire carries, `store.results` reads, the screens draw and `--json` prints
is this one thing. Times are milliseconds where the name ends in `_ms`, nanoseconds of CLOCK_MONOTONIC where it ends in
`_ns` (comparable within one `epoch`, the life of one engine process), and `wall` is a label in ISO 8601 UTC, never used
for arithmetic. None means "could not be measured" and is drawn as a dash. Texts are clean (`store.text`): whatever they
came from, a record holds nothing that a terminal would act upon.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import (
    SUPERSEDED,
    TWIN_SUFFIX,
    Correctness,
    FindingStatus,
    Limiter,
    State,
    Timing,
    Trigger,
    Validity,
    Verdict,
)
from aisp.store.text import clean, clean_line

EVIDENCE_CHARS = 4000
"""Longest evidence of a finding; a longer one is cut in the middle."""
REASON_CHARS = 4000
"""The same of a reason or a note."""


INSTALLED_CHECK = "evaluation.installed"
"""The check whose suspicion puts rungs in quarantine, all of the run's: what it finds outlasts the run, and who of them
left it is not known. A person may say that it was his own doing; nothing else that was caught is forgiven."""
AUTHOR_CHECK = "evaluation.edits"
"""The check that knows which rung it was: then the others of the run are free."""


class ContradictionError(ValueError):
    """A record whose fields cannot all be true."""


def clean_lines(record: msgspec.Struct, *names: str, limit: int = 512) -> None:
    """Make these texts of a new record clean, each on one line."""
    for name in names:
        text = getattr(record, name)
        if (cleaned := clean_line(text, limit=limit)) != text:
            msgspec.structs.force_setattr(record, name, cleaned)


RANK_COLUMNS = ("rank_ms", "rank_late_us", "rank_clock_mhz")
"""The arrays of `store.samples.Samples` that have a row per sample and a column per rank."""
DISCARDED: Mapping[int, str] = {1: "clock below 75 % of its usual", 2: "host time leaked into the sample"}


BUSY = 0.02
"""By how much longer others must be able to have made an arm's turns, as a ratio - 1: less says nothing."""


class Quality(msgspec.Struct, frozen=True):
    """What an arm's samples say of themselves. None: too few samples to tell, or no such thing here.

    Attributes:
        drift: relative change of the time from the first to the last third of a replica's rounds, median over replicas.
        autocorrelation: of successive samples in a turn, lag one, -1..1; far from 0 fewer samples are worth as much.
        low_mode_ms, high_mode_ms, high_share: two modes where the samples fall into two (else None), and the
            share of samples in the slower one.
        throttled_share: share of samples set aside because the clock was low.
        resolution_ms: smallest step of the clock that took the samples.
        overhead_ms: what an event pair reads beyond the calls, already taken off; None where nothing was taken off.
        watch_us: what the sensors of all checks took around one sample, outside of the timed region.
        right_by_stated, right_by_derived: calls whose outputs were found right by each tolerance policy
            (outcomes.TolerancePolicy): the stated one on the lesson's own values, the derived one on drawn shapes and
            other kinds of values. None in records of before this was kept.
        outside_ms: time per call by the judge's clock, in its own process; None where the arm was judged inside.
        outside_error: relative error of that: two on either side are its 95 % interval.
        outside_copies_ms: what the judge took off that for the copies of a call. None: nothing, or a record of before.
        outside_read: outputs of the judge's batches that it read, and found right.
        outside_sets: sets of inputs that there was memory for, where that made the judge's batches smaller; else None.
        inside: why the arm was judged inside, as a clause; None where it was judged outside, and in records of before.
        profiler_ms: of one call, from the first start to the last end of what the GPU did, by CUPTI's records of a few
            samples behind a hold. Of the rung's process, and part of no verdict. None where none were recorded.
        busy_factor: how much longer others on the processors can have made its turns on a CPU; 1 where nobody did.
        waited_share: of the time of its turns, that in which its threads stood in line because of others.
        others_cores, cores: processors that others kept busy meanwhile, of so many.
        stolen_share: of the processor time that was asked for, what the hypervisor took.
        between, between_freedom: of a run's first baseline: the standard deviation of the log time between processes of
            the same code, as its A/A arm shows it, and its degrees of freedom. No rung has a say in it.
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
    right_by_stated: int | None = None
    right_by_derived: int | None = None
    outside_ms: float | None = None
    outside_error: float | None = None
    outside_copies_ms: float | None = None
    outside_read: int | None = None
    outside_sets: int | None = None
    inside: str | None = None
    profiler_ms: float | None = None
    busy_factor: float | None = None
    waited_share: float | None = None
    others_cores: float | None = None
    cores: int | None = None
    stolen_share: float | None = None
    between: float | None = None
    between_freedom: float | None = None

    @property
    def busy(self) -> bool:
        """Whether others on the processors can have slowed it: never on a GPU, and in no record of before."""
        return self.busy_factor is not None and self.busy_factor > 1.0 + BUSY


class LinkUse(msgspec.Struct, frozen=True):
    """What a call carries over a link: the bytes that its lesson counts, in its median time.

    Attributes:
        over: the link, `pcie` or `nvlink`.
        in_bytes_per_s, out_bytes_per_s: into a GPU and out of it, of each rank where there are several; None for a
            direction that the case does not use.
        in_share, out_share: of what that direction can carry; None where that is not known.
        measured: the shares are of measured ceilings, else of the datasheet.
    """

    over: Limiter
    in_bytes_per_s: float | None = None
    out_bytes_per_s: float | None = None
    in_share: float | None = None
    out_share: float | None = None
    measured: bool = False

    def __post_init__(self) -> None:
        if self.over not in (Limiter.PCIE, Limiter.NVLINK):
            raise ContradictionError(f"{self.over} is no link")
        if self.in_bytes_per_s is None and self.out_bytes_per_s is None:
            raise ContradictionError(f"{self.over}: a link in use, and no direction of it")

    @property
    def directions(self) -> list[tuple[str, float, float | None]]:
        """Directions that are used, "in" and "out", each with its bytes/s and its share."""
        both = (("in", self.in_bytes_per_s, self.in_share), ("out", self.out_bytes_per_s, self.out_share))
        return [(name, rate, share) for name, rate, share in both if rate is not None]


class RooflineBound(msgspec.Struct, frozen=True):
    """An arm against the speed of light of its case.

    Attributes:
        spec_ms: least time by the datasheet, at boost clock; None for an unknown GPU.
        clock_ms: the same at the clock that the arm ran at.
        measured_ms: least time by the ceilings that were measured on this GPU; None before `aisp peak`.
        limiter: what sets the bound, of `measured_ms` where it is known.
        score: 1/(1 + (t - b)/(t0 - b)) with the bound b, the arm's time t and the baseline's t0: 0.5 for a time like
            the baseline's, 1 at the bound. None for the baseline itself, below the bound, where the baseline is at it.
        launch_eager_ms: where the host is the limiter, what an eager launch was measured to cost this host; else None.
        link: what the arm carries over the link that its lesson names; None where it names none.
    """

    spec_ms: float | None = None
    clock_ms: float | None = None
    measured_ms: float | None = None
    limiter: Limiter | None = None
    score: float | None = None
    launch_eager_ms: float | None = None
    link: LinkUse | None = None

    def __post_init__(self) -> None:
        if self.score is not None and not 0 < self.score <= 1:
            raise ContradictionError(f"a score is above 0 and at most 1, not {self.score}")

    @property
    def bound_ms(self) -> float | None:
        """The bound that is compared with: of the measured ceilings, else of the datasheet."""
        return self.measured_ms if self.measured_ms is not None else self.spec_ms

    @property
    def basis(self) -> str:
        """What that bound is of: "measured" ceilings or the "datasheet"; "" for none."""
        return "measured" if self.measured_ms is not None else "datasheet" if self.spec_ms is not None else ""


class Naive(msgspec.Struct, frozen=True):
    """What a naive harness would have said of a rung: baseline and rung in one process, the same inputs for every
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

    def __post_init__(self) -> None:
        clean_lines(self, "note", limit=REASON_CHARS)

    @property
    def speedup(self) -> float | None:
        """Baseline time over rung time, right or wrong."""
        if self.base_ms is None or not self.time_ms:
            return None
        return self.base_ms / self.time_ms


class RuleSaid(msgspec.Struct, frozen=True):
    """What the problem's own rule (rule.py of the target) says of a rung's outputs.

    Attributes:
        name: the rule, in a few words.
        right: of all calls that it was asked about; None where it could not be asked.
        detail: what is wrong, or why it could not be asked.
        alone: it is the judge: the arm's correctness is what it says.
        ours: what comparing with the reference would say is wrong, where that rule is the judge.
    """

    name: str
    right: bool | None = None
    detail: str = ""
    alone: bool = False
    ours: str = ""

    def __post_init__(self) -> None:
        clean_lines(self, "name", "detail", "ours", limit=REASON_CHARS)


class Rank(msgspec.Struct, frozen=True):
    """What one rank of an arm did, over the samples that count.

    Attributes:
        median_ms: its own time per call, from when it left the barrier.
        slowest_share: share of the samples in which it took longest; where several did, the first of them has it.
        late_us: how much later than the first rank it left the barrier, median.
        sm_clock_mhz: of its GPU, median; None where it is not known.
    """

    median_ms: float
    slowest_share: float
    late_us: float
    sm_clock_mhz: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.median_ms) and self.median_ms > 0):
            raise ContradictionError(f"a rank's time must be finite and greater than zero, not {self.median_ms}")


class Ranks(msgspec.Struct, frozen=True):
    """What the ranks of an arm did, each for itself. The arm's own times are those of the slowest in each sample.

    Attributes:
        each: rank by rank, two at least.
        skew_us, skew_most_us: how far apart the first and the last leave the barrier: median, and 95 % are within.
            Who leaves first may wait for the last, so that differences of this size say nothing of a rank.
    """

    each: tuple[Rank, ...]
    skew_us: float
    skew_most_us: float

    def __post_init__(self) -> None:
        if len(self.each) < 2:
            raise ContradictionError(f"{len(self.each)} of several ranks")


class Finding(msgspec.Struct, frozen=True):
    """What one check (checks.registry) said of one arm, or of the whole run where `arm` is ""."""

    check: str
    arm: str
    status: FindingStatus
    evidence: str  # a sentence with figures

    def __post_init__(self) -> None:
        clean_lines(self, "check", "arm")
        clean_lines(self, "evidence", limit=EVIDENCE_CHARS)
        if self.status is not FindingStatus.PASSED and not self.evidence:
            raise ContradictionError(f"{self.check}: {self.status} without a word of evidence")


class Quarantine(msgspec.Struct, frozen=True):
    """A rung that was caught. It stays marked until a run of other code, or two of the same, find nothing.

    Attributes:
        folder: of the target, as in Run.
        code: digest of the target's code as it was caught (Run.manifest["code"]).
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

    def __post_init__(self) -> None:
        clean_lines(self, "target", "rung", "run_id", "check", "wall")
        clean_lines(self, "evidence", limit=EVIDENCE_CHARS)


class Arm(msgspec.Struct, frozen=True):
    """One rung's part in a run.

    Attributes:
        rung: its name, the file's; that of the A/A arm ends in `TWIN_SUFFIX`.
        role: what the rung is in its target; None for one that a name of no role gives none, where nothing else is
            said.
        twin: this is the A/A arm, the baseline against itself.
    """

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
    light: RooflineBound | None = None
    quality: Quality | None = None
    naive: Naive | None = None  # what a naive harness says; None where it was not asked (quick runs)
    rule: RuleSaid | None = None  # what the problem's own rule says; None where it has none
    ranks: Ranks | None = None  # what each of several ranks did; None where one process is the arm, and without times
    max_error: float | None = None  # worst error in units of the tolerance; above 1 is wrong
    peak_bytes: int | None = None  # most device memory held during a call, beyond the inputs
    launches: int | None = None  # kernels in one call, by a trace after the last sample; None where none was made
    exit_code: int | None = None
    signal: int | None = None
    signal_sent_by_us: bool = False
    dirty_exit: bool = False  # the result is whole, but the process had to be killed afterwards
    reason: str = ""  # one sentence: what happened and the next move
    detail: str = ""  # traceback cut to the user's frames, or the mismatch
    sources: str = ""  # sha256 of the rung's own file as it ran
    role: Role | None = None
    twin: bool = False
    failing_case: str | None = (
        None  # whose outputs were wrong: its name, or a drawn one's sizes; None: none, or not kept
    )

    def __post_init__(self) -> None:
        clean_lines(self, "rung")
        if self.failing_case is not None:
            clean_lines(self, "failing_case", limit=REASON_CHARS)
        clean_lines(self, "reason", limit=REASON_CHARS)
        if (detail := clean(self.detail)) != self.detail:
            msgspec.structs.force_setattr(self, "detail", detail)
        if self.role is None:
            msgspec.structs.force_setattr(self, "role", Role.of(self.rung.removesuffix(TWIN_SUFFIX)))
        if self.rung.endswith(TWIN_SUFFIX):
            msgspec.structs.force_setattr(self, "twin", True)
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
        if self.launches is not None and self.launches < 0:
            raise ContradictionError(f"{self.rung}: {self.launches} kernels in one call")
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


class Comparison(msgspec.Struct, frozen=True):
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
    p_value: float | None = None  # if there were no difference beyond the floor; for many targets at once
    note: str = ""  # why UNDECIDED or NONE, and what would decide it; that the clocks differed

    def __post_init__(self) -> None:
        clean_lines(self, "rung", "baseline")
        clean_lines(self, "note", limit=REASON_CHARS)
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

    def without_figures(self, why: str) -> Self:
        """What may be shown of it where one of its rungs has no result."""
        return type(self)(self.rung, self.baseline, Verdict.NONE, note=why)


class Step(msgspec.Struct, frozen=True):
    """One step of a run's life, for the list of steps with their durations."""

    name: str  # "verifier", "warm worker", "compile", "verify", "warm-up", "measure", "verdict"
    arm: str  # "" for the whole run
    start_ns: int
    duration_ms: float | None = None  # None while it is under way
    detail: str = ""  # of a live run alone: the store does not keep it

    def __post_init__(self) -> None:
        clean_lines(self, "name", "arm", "detail")


class Run(msgspec.Struct, frozen=True):
    """A run of one target: the unit that is planned, journalled, finished and remembered.

    `seed` is None until the run has ended, since what it draws must not be foreseen, and stays so where its engine was
    lost (store.commitment).
    """

    id: str  # ULID: sorts by creation
    target: str
    folder: bytes  # os.fsencode of the target's folder: any byte but NUL may stand in a path
    title: str
    device: str  # "cuda" or "cpu"
    case: str
    quick: bool
    trigger: Trigger
    seed: int | None
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
    manifest: Mapping[str, Any] = msgspec.field(default_factory=dict)  # stop rule, replicas, sets, tolerances
    flags: tuple[str, ...] = ()  # "contended", "clocks=unlocked", "wall_jump"
    arms: tuple[Arm, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        clean_lines(self, "id", "target", "title", "device", "case", "epoch", "wall", "snapshot")
        clean_lines(self, "reason", limit=REASON_CHARS)
        if (flags := tuple(clean_line(flag) for flag in self.flags)) != self.flags:
            msgspec.structs.force_setattr(self, "flags", flags)
        if self.state is State.OK:
            if self.correctness is not Correctness.CORRECT:
                raise ContradictionError(f"run {self.id}: ok, but {self.correctness}")
            bad = [arm.rung for arm in self.arms if not arm.state.spares_the_run]
            if bad:
                raise ContradictionError(f"run {self.id}: ok, but {', '.join(bad)} did not end well")
        if self.state is State.INCORRECT and self.correctness is not Correctness.WRONG:
            raise ContradictionError(f"run {self.id}: incorrect, but {self.correctness}")
        if self.verdict in (Verdict.FASTER, Verdict.SLOWER) and self.validity is Validity.CAUGHT:
            raise ContradictionError(f"run {self.id}: a verdict on a time that was caught cheating")
        caught = {f.arm for f in self.findings if f.status is FindingStatus.CAUGHT}
        rungs = [c.rung for c in self.comparisons if c.speedup is not None and {c.rung, c.baseline, ""} & caught]
        if rungs:
            raise ContradictionError(f"run {self.id}: a speed-up of {', '.join(rungs)}, which was caught")
        if not self.state.final and (self.duration_ms is not None or self.findings):
            raise ContradictionError(f"run {self.id}: results before its end")
        if self.state.final and self.state is not State.OK and not self.reason:
            raise ContradictionError(f"run {self.id}: ended {self.state} without a reason")

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def code(self) -> str:
        """Digest of the target's code as it ran, which a quarantine is about; "" where the store does not say."""
        return _text(self.manifest.get("code"))

    @property
    def superseded(self) -> bool:
        """Whether it was ended for the run of a later save."""
        return SUPERSEDED in self.flags

    @property
    def without(self) -> tuple[str, ...]:
        """Checks that were left out on request."""
        checks = self.manifest.get("without")
        return tuple(_text(item) for item in checks) if isinstance(checks, (list, tuple)) else ()

    @property
    def policy(self) -> str:
        """What an environment that is not fit for measuring does: "strict", or "portable", which only warns."""
        return _text(self.manifest.get("validity")) or "strict"

    @property
    def edit(self) -> tuple[int, list[str]] | None:
        """The number of the watch's edit that it is of, with the files that this changed; None of any other run."""
        entry = self.manifest.get("edit")
        number, files = (entry.get("number"), entry.get("files")) if isinstance(entry, Mapping) else (None, None)
        return (number, list(map(_text, files))) if isinstance(number, int) and isinstance(files, list) else None

    @property
    def batch(self) -> str:
        """Id of the run of a suite that it was planned for; "" of any other."""
        entry = self.manifest.get("batch")
        return _text(entry.get("id")) if isinstance(entry, Mapping) else ""

    def arm(self, rung: str) -> Arm | None:
        """The rung's part, None where it had none."""
        return next((arm for arm in self.arms if arm.rung == rung), None)

    def caught(self, rung: str) -> Finding | None:
        """The first finding for which this arm's time is not a result, None where there is none."""
        return next((f for f in self.findings if f.arm == rung and f.status is FindingStatus.CAUGHT), None)

    # -- as it goes on -------------------------------------------------------------------------------------------------

    def with_arm(self, arm: Arm) -> Self:
        """The run with what is known of this arm now."""
        arms = [arm if old.rung == arm.rung else old for old in self.arms]
        return msgspec.structs.replace(self, arms=tuple(arms if self.arm(arm.rung) else [*arms, arm]))

    def with_comparison(self, comparison: Comparison) -> Self:
        """The run with this comparison, in the place of the one before between the same two."""
        pair = (comparison.rung, comparison.baseline)
        kept = list(self.comparisons)
        at = next((i for i, old in enumerate(kept) if (old.rung, old.baseline) == pair), len(kept))
        kept[at : at + 1] = [comparison]
        return msgspec.structs.replace(self, comparisons=tuple(kept))

    def with_step(self, step: Step) -> Self:
        """The run with this step, in the place of the same one when it began."""
        kept = list(self.steps)
        same = (step.name, step.arm, step.start_ns)
        at = next((i for i, old in enumerate(kept) if (old.name, old.arm, old.start_ns) == same), len(kept))
        kept[at : at + 1] = [step]
        return msgspec.structs.replace(self, steps=tuple(kept))

    def announced(self, rungs: Iterable[Arm]) -> Self:
        """The run as it is announced when it is planned, with these arms: with the commitment to what is drawn, without
        what would let anybody foresee it."""
        kept = ("code", "commitment", "stop_rule", "validity", "without")
        manifest = {name: value for name, value in self.manifest.items() if name in kept}
        return msgspec.structs.replace(self, seed=None, manifest=manifest, arms=tuple(rungs))

    def lost(self, reason: str, arm_reason: str = "") -> Self:
        """The run as it is known once its engine is gone, and its arms that had not ended."""
        gone = {"state": State.ENGINE_LOST, "reason": arm_reason}
        arms = tuple(arm if arm.state.final else msgspec.structs.replace(arm, **gone) for arm in self.arms)
        return msgspec.structs.replace(self, state=State.ENGINE_LOST, reason=reason, arms=arms)


def _text(value: object) -> str:
    return clean_line(value) if isinstance(value, str) else ""


def unplanned(run_id: str, target: str = "", snapshot: str = "") -> Run:
    """A run of which hardly anything is known: its plan was not heard of, or there was none."""
    return Run(run_id, target, b"", "", "", "", False, Trigger.CLI, None, "", 0, "", snapshot, State.PLANNED)
