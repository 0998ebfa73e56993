"""One rung's part in a run, from the engine's side: its process, its jobs, and how it ended.

Whatever goes wrong with an arm becomes an `ArmEnd` with a final state, a reason that names the next move, and the
detail a person needs. Nothing is concluded from the text of a message.
"""

from __future__ import annotations

import hashlib
import math
import re
import signal
import statistics
import struct
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TypeVar

from aisp.checks.registry import Refusal, Sensed, Sustained
from aisp.engine import paths
from aisp.engine.arena import sealed
from aisp.engine.contention import Waits
from aisp.engine.environment import oom_kills
from aisp.engine.fingerprints import NUMBERS, first_difference
from aisp.engine.protocol import jobs, reports
from aisp.engine.ranks import Process, Ranks
from aisp.engine.silence import Limit, awaiting
from aisp.engine.spawner import (
    UNKNOWN_STATUS,
    ChildGoneError,
    ChildTimeoutError,
    ForgedReportError,
    MemoryLimitError,
    OutputLimitError,
    ProcessLimitError,
    StoppedError,
    progress_limit_s,
)
from aisp.kernels.catalog.model import Rung
from aisp.store.outcomes import TWIN_SUFFIX as TWIN_SUFFIX
from aisp.store.outcomes import Correctness, State, Timing, TolerancePolicy
from aisp.store.record import Naive, RuleSaid
from aisp.store.samples import RANK_COLUMNS
from aisp.store.text import clean, clean_line

FINGERPRINT_TOLERANCE = 1e-6
INEXACT_TOLERANCE = 1e-3
GONE_PATIENCE_S = 5.0  # from the end of its line to the end of a process: its interpreter has to be taken down
# Signals on which Python's faulthandler, which is on in every worker, writes where each thread was.
TRACED = (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)

FRAME = re.compile(r'^ *File "(.*)", line \d+ in ', re.MULTILINE)  # of faulthandler's

TO_FIX = "; the trace below ends at the line to fix"
"""What ends the reason of an arm whose detail is a trace."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait for a sign of progress, in seconds. The environment may shorten them (for tests).

    `compile_s` is a rung's until it is prepared, `progress_s` one's after that, and `verifier_s` the verifier's.
    """

    compile_s: float = Limit(300.0, "AISP_COMPILE_LIMIT_S")
    progress_s: float = Limit(60.0, "AISP_PROGRESS_LIMIT_S")
    total_s: float = 3600.0
    finish_s: float = 2.0
    verifier_s: float = Limit(300.0, "AISP_COMPILE_LIMIT_S")

    @staticmethod
    def from_environment() -> Limits:
        """Defaults, or AISP_COMPILE_LIMIT_S, AISP_PROGRESS_LIMIT_S and AISP_TOTAL_LIMIT_S."""
        return Limits(
            compile_s=Limit.of("AISP_COMPILE_LIMIT_S", 300.0),
            progress_s=Limit(progress_limit_s(), "AISP_PROGRESS_LIMIT_S"),
            verifier_s=Limit.of("AISP_COMPILE_LIMIT_S", 300.0),
            total_s=Limit.of("AISP_TOTAL_LIMIT_S", 3600.0),
        )

    def within(self, patience_s: float) -> Limits:
        """Limits with at most so many seconds for a rung's sign of progress. The verifier's limit stays: what it
        computes is not the rung's doing."""
        limit = Limit(patience_s, "--patience")
        return replace(self, compile_s=min(self.compile_s, limit), progress_s=min(self.progress_s, limit))


@dataclass(eq=False)
class ArmEnd(Exception):
    """An arm came to its end before its work was done; `check` names the check in whose name it was refused."""

    state: State
    reason: str
    detail: str = ""
    _: KW_ONLY
    correctness: Correctness | None = None
    signal_number: int | None = None
    exit_code: int | None = None
    max_error: float | None = None
    failing_case: str | None = None
    check: str = ""
    out_of_memory: bool = False

    def __str__(self) -> str:
        return self.reason


@dataclass(slots=True)
class SampleLog:
    """Growing parallel lists, from which `store.samples.frozen` makes the store's arrays."""

    device_ms: list[float] = field(default_factory=list)
    host_ms: list[float] = field(default_factory=list)
    end_ns: list[int] = field(default_factory=list)
    round: list[int] = field(default_factory=list)
    replica: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    sm_clock_mhz: list[float] = field(default_factory=list)
    probe_ms: list[float] = field(default_factory=list)
    cycles: list[float] = field(default_factory=list)
    rank_ms: list[list[float]] = field(default_factory=list)
    rank_late_us: list[list[float]] = field(default_factory=list)
    rank_clock_mhz: list[list[float]] = field(default_factory=list)


@dataclass(slots=True)
class Arm:
    """What the engine knows of one arm over all replicas.

    Attributes:
        calls: in one sample.
        waits: on a CPU: for its neighbours, in its turns.
        without: checks that were left out on request.
        sensed: per replica and rank; of replicas that end together in any order.
        compared: per full comparison.
        accepted: answers that were right.
        shapes, families: drawn shapes, and other values at the timed shape, that it got right.
        doubt: what its declaration does not promise, and it got wrong.
        outside_ms: by the judge's clock: replica and time per call, from each pair of batches.
        outside_copies_ms: what was taken off these for the copies of a call, the most of any replica.
        batch_calls: in the smaller batch of a pair; 0 before the first.
        batch_held: whether its calls may be launched ahead in these.
        batch_clones: its calls share their outputs, which are copied in these.
        outside_read: outputs of batches that the judge read and found right.
        outside_sets: fewest sets of inputs that there was memory for, where that made batches smaller; 0 where not.
        inside: why its calls cannot be judged from outside.
        excused: that is so of the task, whatever a rung does, and no verdict waits for the judge's clock.
        cost_us: of each sensor around one sample.
        processes: those of its processes that have not been ended.
        again: it is asked again about a suspicion, and nothing of it is among the run's figures.
    """

    name: str  # the rung's, or "baseline (A/A)"
    rung: Rung
    device: str
    timed: bool
    state: State = State.PLANNED
    correctness: Correctness = Correctness.UNKNOWN
    timing: Timing = Timing.NONE
    samples: SampleLog = field(default_factory=SampleLog)
    waits: Waits = field(default_factory=Waits)
    calls: int = 1
    resolution_ms: float | None = None
    overhead_ms: float | None = None
    probe_step_ms: float | None = None
    probe_overhead_ms: float | None = None
    max_error: float | None = None
    failing_case: str | None = None
    peak_bytes: int | None = None
    reason: str = ""
    detail: str = ""
    exit_code: int | None = None
    signal: int | None = None
    signal_sent_by_us: bool = False
    dirty_exit: bool = False
    without: frozenset[str] = frozenset()
    refusal: Refusal | None = None
    sensed: list[Sensed] = field(default_factory=list)
    compared: list[dict[str, float]] = field(default_factory=list)
    accepted: Counter[TolerancePolicy] = field(default_factory=Counter)
    sustained: list[Sustained] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    doubt: Refusal | None = None
    outside_ms: list[tuple[int, float]] = field(default_factory=list)
    outside_copies_ms: float = 0.0
    batch_calls: int = 0
    batch_held: bool = True
    batch_clones: bool = False
    outside_read: int = 0
    outside_sets: int = 0
    inside: str = ""
    excused: bool = False
    naive: Naive | None = None
    rule: RuleSaid | None = None
    cost_us: dict[str, float] = field(default_factory=dict)
    processes: list[ArmProcess] = field(default_factory=list)
    again: bool = False

    @property
    def running(self) -> bool:
        """Whether it still takes part."""
        return not self.state.final

    @property
    def twin(self) -> bool:
        """Whether it is the A/A arm: the baseline once more."""
        return TWIN_SUFFIX in self.name

    @property
    def believable(self) -> bool:
        """Whether its times may be shown: it is well so far, or ended well. A failed arm has no number."""
        return self.correctness is Correctness.CORRECT and (self.running or self.state is State.OK)

    def note_cost(self, cost_us: dict[str, float]) -> None:
        """Keep what the sensors cost around a sample, the most of any replica."""
        for name, us in cost_us.items():
            if math.isfinite(us):
                self.cost_us[name] = max(self.cost_us.get(name, 0.0), us)

    def end(self, end: ArmEnd) -> None:
        """Note its end, unless it had one before."""
        if not self.running:
            return
        self.state = end.state
        self.reason, self.detail = clean_line(end.reason), clean(end.detail)
        self.signal, self.exit_code = end.signal_number, end.exit_code
        if end.correctness is not None:
            self.correctness = end.correctness
        if end.correctness is Correctness.WRONG:
            self.max_error = end.max_error  # None where a wrong output has no finite error
            self.failing_case = end.failing_case
        if end.check:
            self.refusal = Refusal(end.check, clean_line(end.detail.splitlines()[0] if end.detail else end.reason))


@dataclass(slots=True, eq=False)
class ArmProcess:
    """The part of one process in an arm, from its start to its end. An arm has a fresh process in every replica.

    Attributes:
        outputs: where the process hands over what it computed. No other process has it.
        verified: by set of values, the fingerprint of its verified outputs.
        calls: in one sample.
        sent, digest: how many samples arrived, and the hash of their times.
        measured_ms: of all calls in them.
        ahead: what was prepared before its turn to be verified: the timed case, or nothing.
    """

    arm: Arm
    replica: int
    child: Process
    outputs: jobs.Blob
    verified: dict[int, list[float]] = field(default_factory=dict)
    calls: int = 1
    per_call_ms: float = 0.0
    per_sample_ms: float = 0.0
    sent: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    measured_ms: float = 0.0
    started_ns: int = field(default_factory=time.monotonic_ns)
    ahead: reports.Prepared | None = None

    @property
    def name(self) -> str:
        """The arm's."""
        return self.arm.name

    @property
    def running(self) -> bool:
        """Whether it still takes part: it was not ended, nor was its arm."""
        return self.arm.running and self in self.arm.processes

    def claimed_ms(self) -> tuple[float, float]:
        """Medians of its own samples that count: the time of a call, and the host's. Without any: the first figure of
        its warm-up, and 0.
        """
        log = self.arm.samples
        kept = [
            times
            for *times, number, discarded in zip(log.device_ms, log.host_ms, log.replica, log.discarded, strict=True)
            if number == self.replica and not discarded
        ]
        if not kept:
            return self.per_call_ms, 0.0
        device_ms, host_ms = map(statistics.median, zip(*kept, strict=True))
        return device_ms, host_ms

    def take(self, batch: reports.Samples) -> None:
        """Keep a batch of samples after checking its form and its times. Raises ArmEnd."""
        count = len(batch.device_ms)
        columns = ("device_ms", "host_ms", "end_ns", "discarded", "sm_clock_mhz", "probe_ms", "cycles")
        whole = all(len(getattr(batch, name)) == count for name in columns) and len(batch.sets) == count * batch.calls
        # Of one process there are no ranks, whatever it says; those of several were set side by side by us.
        ranked = count if isinstance(self.child, Ranks) else 0
        whole = whole and all(len(getattr(batch, name)) == ranked for name in RANK_COLUMNS)
        if not whole or batch.calls != self.calls or len(batch.fingerprints) != len(batch.sets) * batch.width:
            raise ArmEnd(State.INFRA_ERROR, "a batch of samples was torn", check="evaluation.result_channel")
        if not all(math.isfinite(ms) and ms > 0 for ms in batch.device_ms):
            raise impossible_time()
        self.digest.update(struct.pack(f"<{count}d", *batch.device_ms))
        self.sent += count
        self.measured_ms += sum(batch.device_ms) * batch.calls
        log = self.arm.samples
        for name in (*columns, *RANK_COLUMNS):
            getattr(log, name).extend(getattr(batch, name))
        log.inputs += batch.sets if batch.calls == 1 else [-1] * count
        log.round += [batch.round] * count
        log.replica += [self.replica] * count
        for position, number in enumerate(batch.sets):
            fingerprint = batch.fingerprints[position * batch.width : (position + 1) * batch.width]
            self._check_fingerprint(number, fingerprint)

    def _check_fingerprint(self, number: int, fingerprint: list[float]) -> None:
        expected = self.verified.get(number)
        if expected is None or len(expected) != len(fingerprint):
            raise ArmEnd(State.INFRA_ERROR, f"a timed call ran on set {number}, which was not verified")
        tolerance = INEXACT_TOLERANCE if self.arm.rung.inexact else FINGERPRINT_TOLERANCE
        output = first_difference(expected, fingerprint, tolerance)
        if output is not None and "output.timed_calls" not in self.arm.without:
            start = NUMBERS * output
            raise ArmEnd(
                State.INCORRECT,
                "a timed call's output differs from the verified one for the same input; "
                "the work must be done in every call (declare `inexact = true` for atomics)",
                f"set {number}, output {output}: fingerprint {fingerprint[start : start + NUMBERS]}, "
                f"verified {expected[start : start + NUMBERS]}",
                correctness=Correctness.WRONG,
                check="output.timed_calls",
            )


Answer = TypeVar("Answer", bound=reports.Report)
_DOING: Mapping[type[jobs.Job], str] = {jobs.Load: "import", jobs.Prepare: "prepare() or the first run()"}
"""What of a rung's code is run by a job, where the step that it belongs to does not say it."""


async def ask(child: Process, job: jobs.AnyJob, want: type[Answer], patience_s: float, whose: str) -> Answer:
    """One job, one answer of the wanted type. Raises ArmEnd for everything else."""
    try:
        with awaiting(whose, patience_s, _DOING.get(type(job), "")):
            report = await child.ask(job, patience_s)
    except (ChildTimeoutError, ChildGoneError) as error:
        raise await explain(child, error, whose) from None
    return expect(report, want, named(child, whose))


def named(child: Process, whose: str) -> str:
    """Whose process it is; of several ranks one of which has failed, that rank."""
    rank = child.blamed if isinstance(child, Ranks) else None
    return whose if rank is None else f"{whose} (rank {rank})"


def expect(report: reports.Report, want: type[Answer], whose: str) -> Answer:
    """The report, if it is what was asked for. Raises ArmEnd."""
    if isinstance(report, want):
        return report
    if isinstance(report, reports.Failed):
        raise failure(report, whose)
    raise ArmEnd(State.INFRA_ERROR, f"{whose} answered {type(report).__name__}, expected {want.__name__}")


def failure(report: reports.Failed, whose: str) -> ArmEnd:
    """What a Failed report means."""
    detail = clean(report.traceback)
    summary = " ".join(clean(report.summary).split())
    match report.kind:
        case "poisoned":
            return ArmEnd(
                State.CUDA_POISONED,
                f"{whose}: {summary}; the CUDA context is lost, the process was ended and the next run is fresh",
                detail,
            )
        case "memory":
            message = f"{whose} ran out of memory: {summary}; use smaller axes"
            return ArmEnd(State.USER_ERROR, message, detail, out_of_memory=True)
        case "unsupported":
            return ArmEnd(State.UNAVAILABLE, summary, detail)
        case "form":
            return ArmEnd(
                State.INCORRECT, f"{whose}: {summary}", detail, correctness=Correctness.WRONG, check="output.form"
            )
        case "user":
            place = TO_FIX if detail else ""
            return ArmEnd(State.USER_ERROR, f"{whose}: {summary}{place}", detail)
        case _:
            return ArmEnd(State.INFRA_ERROR, f"{whose}: {summary}", detail)


async def explain(child: Process, error: Exception, whose: str) -> ArmEnd:
    """Why a process gave no answer; ends it."""
    whose = named(child, whose)
    if isinstance(error, ChildTimeoutError):
        await child.end()
        return ArmEnd(
            State.TIMEOUT_PROGRESS,
            f"{whose} gave {error}; it was killed. Look for a loop or a barrier that never ends",
            tail(child),
        )
    if isinstance(error, OutputLimitError):
        await child.end(gently=False)
        return ArmEnd(State.OUTPUT_LIMIT, f"{whose} {error}; it was killed. Print less", tail(child))
    if isinstance(error, MemoryLimitError):
        await child.end(gently=False)
        return ArmEnd(
            State.OOM_KILLED,
            f"{whose} {error}; it was killed. Use smaller axes",
            tail(child),
            out_of_memory=True,
        )
    if isinstance(error, ProcessLimitError):
        await child.end(gently=False)
        message = f"{whose} {error}; all were killed. Wait for what you start, or start less"
        return ArmEnd(State.USER_ERROR, message, tail(child))
    if isinstance(error, StoppedError):
        await child.end(gently=False)  # who stands still does not hear a SIGTERM
        message = f"{whose} {error}; it was killed. Look for who stopped it: a rung that sends signals, or kill -STOP"
        return ArmEnd(State.TIMEOUT_PROGRESS, message, tail(child))
    if isinstance(error, ForgedReportError):
        await child.end(gently=False)
        return ArmEnd(
            State.INFRA_ERROR,
            f"{whose} wrote to the engine's line what it was not asked for ({error}); it was killed",
            tail(child),
            check="evaluation.result_channel",
        )
    code = await child.wait(GONE_PATIENCE_S)
    if code is None:
        await child.end(gently=False)
        return ArmEnd(
            State.PREMATURE_EXIT,
            f"{whose} closed its line to the engine ({error}) and was killed",
            tail(child),
        )
    await child.end()
    if code < 0:
        if code == -signal.SIGKILL and oom_kills() > child.oom_kills:
            return ArmEnd(
                State.OOM_KILLED,
                f"{whose} was killed because memory ran out; use smaller axes",
                tail(child),
                signal_number=signal.SIGKILL,
                out_of_memory=True,
            )
        trace = tail(child)
        if -code in TRACED:
            trace = crash_trace(child.stderr.text()) or trace
            place = _where(trace) if trace else "it left no trace"
        else:
            place = "the engine did not send it: look for who did"
        return ArmEnd(State.CRASHED, f"{whose} died of {signal_name(-code)}; {place}", trace, signal_number=-code)
    if code == UNKNOWN_STATUS:
        lost = "another process of this machine collected its exit status, so that nobody knows how; run it again"
        return ArmEnd(State.INFRA_ERROR, f"{whose} ended before it was done; {lost}", tail(child))
    return ArmEnd(
        State.PREMATURE_EXIT,
        f"{whose} left with status {code} before it was done; a variant must return, not exit",
        tail(child),
        exit_code=code,
        # A status is no result, and one that says that all is well is a lie.
        check="evaluation.result_channel" if code == 0 else "",
    )


def impossible_time() -> ArmEnd:
    """The end of an arm whose process reported a time that no clock can give."""
    return ArmEnd(
        State.INFRA_ERROR,
        "a time that is zero, negative or not a number was reported, which no clock gives; "
        "look for code that replaces or sets a clock",
        check="timing.clock_sanity",
    )


def wrong(
    judged: reports.Judged, inputs: Iterable[jobs.Blob], check: str, case: str, place: str = "", advice: str = ""
) -> ArmEnd:
    """The end of an arm whose outputs are wrong, in the name of a check.

    Nobody is wrong on inputs that another could have changed: that is the end of the run, and of no rung.

    Args:
        inputs: those of the call.
        case: whose outputs they are: its name, or a drawn one in words.
        place: a clause that says which outputs (" (case small)").
        advice: what helps.
    """
    if not all(sealed(blob) for blob in inputs):
        why = "its inputs were not sealed, and another process could have changed them: nobody is called wrong"
        return ArmEnd(State.INFRA_ERROR, f"wrong {judged.finding}{place}, but {why}", clean(judged.detail))
    return ArmEnd(
        State.INCORRECT,
        f"wrong {judged.finding}{place}: {clean_line(judged.detail)}{f'; {advice}' if advice else ''}",
        clean(judged.detail),
        correctness=Correctness.WRONG,
        max_error=judged.max_error,
        failing_case=case,
        check=check,
    )


def signal_name(number: int) -> str:
    """SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def crash_trace(printed: bytes) -> str:
    """Faulthandler's last words of the thread that died, innermost first; "" where a process printed none."""
    _, fatal, words = printed.rpartition(b"Fatal Python error")
    others, current, frames = words.partition(b"\nCurrent thread")
    what = fatal + others.partition(b"\n")[0] + b"\n" + current + frames.partition(b"\n\n")[0]
    return clean(what[:4000]) if fatal and current else ""


def _where(trace: str) -> str:
    """What the innermost place of a trace is: the rung's own line, or where broken memory came to light."""
    files = [name for name in FRAME.findall(trace) if "/ctypes/" not in name]
    if not files or files[0].startswith(f"{paths.state_dir()}/"):
        return "the trace below begins where it happened"
    return (
        "the trace below begins where it came to light, in no line of the rung; most often memory was overwritten "
        "before: look for a store without a mask, or an index beyond a tensor"
    )


def tail(child: Process) -> str:
    """The end of what a process wrote to stderr, cleaned."""
    return clean(child.stderr.text()[-4000:])


def check_done(process: ArmProcess, done: reports.Done, wall_ms: float) -> None:
    """A run's success needs counts, hash and clocks to agree. Raises ArmEnd."""
    if done.samples != process.sent or (process.sent and done.sha256 != process.digest.hexdigest()):
        raise ArmEnd(
            State.INFRA_ERROR,
            f"{process.name} sent {done.samples} samples, {process.sent} arrived or their hash differs",
            check="evaluation.result_channel",
        )
    if process.measured_ms > wall_ms:
        raise ArmEnd(
            State.INFRA_ERROR,
            f"{process.name} reports {process.measured_ms:.1f} ms of samples within {wall_ms:.1f} ms of wall clock",
            check="timing.clock_sanity",
        )
