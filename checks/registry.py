"""What a check is, what it may look at, and how all of them are asked.

A check is a judge's question about a run: did every output follow its inputs, did any work hide from the clock? It has
two halves. A *sensor* lives in the worker, beside the kernel, and notes facts; it is made before the kernel is imported
and never inside the timed region. The *judge* lives in the engine and is a pure function of facts. What a sensor says
is evidence and no more: it shares a process with the kernel. That is why the defences come first (other processes,
fresh values, the engine's own clock) and detectors second.

The facts of a sensor are one struct (`Facts`), defined beside it. The engine decodes what a worker sent as that struct
and nothing else, and a judge reads its fields by name, so that mypy finds a misspelt one.

One file per category holds its checks and the issues that they answer: `checks/timing.py`, `checks/output.py` ... To
add a check, add it there, and a fixture under `checks/gallery/<category>/` with the cheat that it catches and an honest
twin.

What could not be measured is reported on purpose: a judge raises `Unavailable`, or a sensor's hook raised, and the
check is UNAVAILABLE. Facts that are not those of their sensor, and a judge that raises anything else, are SUSPECT: what
a worker sends can provoke both. No check passes for having failed.
"""

from __future__ import annotations

import enum
import functools
import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, cast, get_type_hints

import msgspec

from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import GRAVEST_FIRST, TWIN_SUFFIX, FindingStatus, Limiter, State, Timing
from aisp.store.record import Finding
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Case, Rung, Target
    from aisp.store import record as records
    from aisp.store.samples import Samples, Telemetry

CATEGORIES = (
    "timing", "output", "workload", "location", "memory", "cuda", "compile", "distributed", "environment",
    "statistical", "evaluation",
)  # fmt: skip


Status: TypeAlias = FindingStatus
"""What a check found."""
TIMED = "timed"
"""Among the figures of a comparison; see ArmFacts.compared."""
EVIDENCE_CHARS = 500
"""What is kept of the evidence of a finding: a sentence that a person can read, with figures and their units."""


class How(enum.StrEnum):
    """How an issue is answered."""

    DETECTED = "detected"
    PREVENTED = "prevented"  # the design leaves no room for it; the text says which part
    OUTSIDE = "outside"  # nothing is gained by the judge's own clock, inputs and outputs; its cheats are never faster
    UNAVAILABLE = "unavailable"  # cannot be asked by a machine like ours; the text says what it would take


class When(enum.StrEnum):
    """When a check looks."""

    BEFORE_IMPORT = "before import"
    AFTER_PREPARE = "after prepare"
    EACH_SAMPLE = "around each sample"
    AFTER_RUN = "after the run"
    HISTORY = "over the history"


class Need(enum.StrEnum):
    """What a check cannot do without."""

    GPU = "a GPU"
    CUPTI = "CUPTI"
    GPUS = "two GPUs"
    ROOT = "root"
    COMPILER = "a compiler"


class Evidence(enum.StrEnum):
    """What an accusation of a check rests on, and with it how grave it may be."""

    VALUES = "values"  # outputs, inputs, memory, reports: what stands there, on any machine
    WORK = "work"  # what a process or a device did: work beside the clock, writes, switches, code
    TIME = "time"  # how long something took, alone: a neighbour can make that, so it is SUSPECT at most


Answer: TypeAlias = tuple[Status, str]
"""What a judge returns: the status and its evidence."""


def passed(evidence: str) -> Answer:
    """It was asked, and all is well: say what was looked at, with figures."""
    return Status.PASSED, evidence


def caught(evidence: str) -> Answer:
    """The result is not one: say what was seen. Of a baseline, or by time alone, `examine` makes it SUSPECT."""
    return Status.CAUGHT, evidence


def suspect(evidence: str) -> Answer:
    """It may be honest, but nobody should build on it."""
    return Status.SUSPECT, evidence


def not_applicable(why: str) -> Answer:
    """There is nothing to ask here."""
    return Status.NOT_APPLICABLE, why


def unavailable(why: str) -> Answer:
    """There is no answer: why, and what would make one possible. It is no suspicion, and takes no verdict away."""
    return Status.UNAVAILABLE, why


class Unavailable(Exception):
    """A judge cannot be asked: its text says why, and what would make it possible."""


class MalformedFactsError(Exception):
    """What a process sent as the facts of a sensor is not what that sensor notes."""


# -- the worker's side -------------------------------------------------------------------------------------------------


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a sensor notes, under 64 KB. What it could not measure is None.

    Raises:
        ValueError: a field is NaN or infinite: no comparison with it would ever accuse.
    """

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is {value}")


F_co = TypeVar("F_co", bound=Facts, covariant=True)


@dataclass(slots=True)
class Poisoned:
    """What the worker overwrote between calls (engine.worker.arm).

    Attributes:
        calls: calls before which the outputs of the last one were overwritten.
        kept: calls whose outputs lay where those of the call before had lain.
    """

    calls: int = 0
    kept: int = 0


@dataclass(slots=True)
class Site:
    """Where a sensor stands.

    Attributes:
        device: "cuda" or "cpu".
        writable: folders of this process alone that it may write to beside that one and its temporary one.
        folder: the snapshot that the rung is imported from.
        without: ids of checks that were left out on request.
        call_once: makes one call of the timed case on known values, waits for it and returns what it returned; from
            the last sample on, where the rung was timed. Another number than 0 asks for other values.
        launch_once: the bare call on the values that lie there, with nothing before and nothing behind; likewise.
        sample_once: takes one sample of one call, as a lone process on a GPU takes them behind a hold; likewise.
        hold_together: of several ranks on GPUs, holds all GPUs until every host has launched what follows; likewise.
            Whether it could.
        poisoned: what was overwritten so far.
    """

    device: str
    folder: Path
    target: Target
    rung: Rung
    without: frozenset[str]
    writable: tuple[str, ...] = ()
    call_once: Callable[..., object] | None = None
    launch_once: Callable[[], object] | None = None
    sample_once: Callable[[], Sample] | None = None
    hold_together: Callable[[], bool] | None = None
    poisoned: Poisoned = field(default_factory=Poisoned)


class Sample(Protocol):
    """What sensors see of engine.worker.timers.Sample, which says what each is."""

    @property
    def device_ms(self) -> float: ...
    @property
    def host_ms(self) -> float: ...
    @property
    def lag_ms(self) -> float: ...
    @property
    def usual_lag_ms(self) -> float: ...
    @property
    def beside_ms(self) -> float: ...
    @property
    def left_ms(self) -> float: ...
    @property
    def discarded(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One sample, seen from outside of its timed region: one call, or a launch batch.

    Attributes:
        stage: "verify" or "timed".
        case: the case that it runs.
        buffers: of every call, in the argument order of run().
        outputs: of every call, as returned and checked for their form; empty before the call.
        sample: of a timed call afterwards, else None.
    """

    stage: str
    case: Case
    buffers: Sequence[Sequence[object]]
    outputs: Sequence[tuple[Any, ...]] = ()
    sample: Sample | None = None


class Sensor(Generic[F_co]):
    """Notes facts in the worker. Every hook runs outside of the timed region with the device idle.

    A subclass overrides the hooks that it needs. Hooks around calls run thousands of times: cheap ones only (the cost
    of each is measured and shown). What a hook raises is kept as the reason why the check is UNAVAILABLE.
    """

    name: ClassVar[str]

    def __init__(self, site: Site) -> None:
        self.site = site

    def before_import(self) -> None:
        """Nothing of the lesson has run: take hold of what it could replace."""

    def after_import(self) -> None:
        """The rung's module was imported."""

    def after_prepare(self, case: Case, buffers: Sequence[object]) -> None:
        """prepare() has returned, or run() was bound; no call was made since."""

    def before_timing(self) -> None:
        """Verified; warm-up begins."""

    def before_call(self, call: Call) -> None:
        """Right before values are refilled."""

    def after_call(self, call: Call) -> None:
        """The device is idle, the outputs stand."""

    def alone(self) -> None:
        """The last sample of this replica was taken on a GPU, and no other process of the run is at work there. In a
        quick run one process of each arm has such a moment."""

    def after_timing(self) -> None:
        """The last sample of this replica was taken. Other processes of the run may be at work."""

    def facts(self) -> F_co:
        """What was noted. The struct that it is annotated with is what the engine decodes."""
        raise NotImplementedError


def struct_of(sensor: type[Sensor[F_co]]) -> type[F_co]:
    """The struct that a sensor notes. Raises TypeError where its `facts` says none."""
    struct = get_type_hints(sensor.facts)["return"]
    if not (isinstance(struct, type) and issubclass(struct, Facts)):
        raise TypeError(f"{sensor.__name__}.facts() must say which struct of Facts it returns, not {struct}")
    return cast("type[F_co]", struct)


# -- the engine's side -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sensed:
    """What the sensors of one process noted, by sensor's name.

    Attributes:
        facts: each the struct of its sensor.
        failed: why a sensor could not note: what a hook of it raised.
        malformed: what is wrong with what was sent as its facts; sensors that no check has stand here too.
        replica: which of an arm's processes it is, see Samples.
    """

    facts: Mapping[str, Facts] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    malformed: Mapping[str, str] = field(default_factory=dict)
    replica: int = 0

    def of(self, sensor: type[Sensor[F_co]]) -> F_co | None:
        """What this sensor noted; None where it noted nothing that can be read."""
        return cast("F_co | None", self.facts.get(sensor.name))


def received(facts: Mapping[str, msgspec.Raw], failed: Mapping[str, str], replica: int = 0) -> Sensed:
    """What a process sent, decoded with strict types. It is not trusted: whatever is in it, nothing is raised.

    Args:
        facts: by sensor's name, as MessagePack.
        failed: by sensor's name.
        replica: whose it is.
    """
    structs = {sensor.name: struct_of(sensor) for _, sensor in sensors()}
    noted: dict[str, Facts] = {}
    malformed = {name: "no check has such a sensor" for name in (*facts, *failed) if name not in structs}
    for name in facts.keys() & structs.keys():
        try:
            noted[name] = msgspec.msgpack.decode(facts[name], type=structs[name])
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:  # ValidationError is a DecodeError
            malformed[name] = str(error) or type(error).__name__
    return Sensed(noted, {name: why for name, why in failed.items() if name in structs}, malformed, replica)


class TaskFacts(Facts, frozen=True, kw_only=True):
    """What the verifier says of the task itself (engine.worker.verifier). None: it could not be asked within its time.

    Attributes:
        zeros_pass, constant_pass, half_pass: whether the comparator takes zeros, the truth's mean in every place, or
            the truth with the second half of its rows zero, for the timed case's set 0. A single number is its own
            mean and has no half: there one constant must pass for all sets, and half_pass is None where every
            output is one number.
        unused_inputs: names of inputs that may change without the reference changing, on the smallest case.
        reference_repeats: whether the reference gives the same for the same inputs.
        probed: the case that the last two were found on.
    """

    zeros_pass: bool | None = None
    constant_pass: bool | None = None
    half_pass: bool | None = None
    unused_inputs: list[str] | None = None
    reference_repeats: bool | None = None
    probed: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an arm was ended: the check that did it, and what it saw."""

    check: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Sustained:
    """Calls made one after the other without a hold, by the engine's clock: a throughput that no event can forge.

    Attributes:
        per_call_ms: wall clock, launch cost included; warm caches.
        claimed_ms: median of this replica's samples.
        host_ms: median host time of a launch, as the samples say.
        calls: in the longer of the two stretches whose difference was taken.
        alone_ms: `per_call_ms` without the time for which the process's threads stood in line for a processor, as the
            kernel counts it: a neighbour's part. None where that is not known.
    """

    per_call_ms: float
    claimed_ms: float
    host_ms: float
    calls: int
    alone_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """What is known of one arm when the run ends.

    Attributes:
        arm: its name: the rung's, or "baseline (A/A)".
        ended_well: all its replicas were verified, timed (where it is timed) and left as they should.
        timing: NONE where it was not timed.
        sensed: one for each process that sent facts, replica by replica in any order, in the order of ranks within one.
        samples: None where there are none.
        judged_ms: time per call of each pair of batches by the judge's clock, with its replica.
        sol_spec, sol_measured: share of the speed of light by the datasheet at boost clock and by the ceilings that
            were measured; above 1 is faster than possible.
        limiter: what sets that bound; None where the operations are not counted.
        probe_step_ms: smallest step of the SMs' timers that the worker saw; None where it saw none.
        probe_overhead_ms: what they read around nothing, taken off their times; None where that is not known.
        compared: figures of the verifier's comparisons, one mapping per full comparison (engine.worker.verifier), and
            under TIMED whether it was of the timed case: 1 or 0.
        waited_share: of the time of its turns on a CPU, that in which its threads stood in line because of others.
        others_cores: processors that others kept busy meanwhile.
        pressure_share: of the time, that in which anything on the machine stood in line.
        stolen_share: of the processor time that was asked for, what the hypervisor took. All None where not reported.
        shapes: drawn shapes that it got right, in words.
        families: other values at the timed shape that it got right, in words.
        doubt: what it got wrong although its declaration does not promise it.
        refusal: what ended it, where a check did.
        source: the rung's own file.
    """

    arm: str
    rung: Rung
    device: str
    ended_well: bool
    state: State
    timing: Timing
    calls: int = 1
    sensed: tuple[Sensed, ...] = ()
    samples: Samples | None = None
    judged_ms: tuple[tuple[int, float], ...] = ()
    median_ms: float | None = None
    sol_spec: float | None = None
    sol_measured: float | None = None
    limiter: Limiter | None = None
    quality: records.Quality | None = None
    probe_step_ms: float | None = None
    probe_overhead_ms: float | None = None
    compared: tuple[Mapping[str, float], ...] = ()
    sustained: tuple[Sustained, ...] = ()
    waited_share: float | None = None
    others_cores: float | None = None
    pressure_share: float | None = None
    stolen_share: float | None = None
    shapes: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    doubt: Refusal | None = None
    refusal: Refusal | None = None
    source: str = ""

    @property
    def twin(self) -> bool:
        """Whether it is the A/A arm: the baseline once more."""
        return self.arm.endswith(TWIN_SUFFIX)

    def facts(self, sensor: type[Sensor[F_co]]) -> list[F_co]:
        """What this sensor noted, one for each process that sent facts.

        Raises:
            Unavailable: no process sent facts, or the sensor failed in one.
            MalformedFactsError: a process sent facts of the wrong type, or none.
        """
        name = sensor.name
        for sensed in self.sensed:
            if name in sensed.malformed:
                raise MalformedFactsError(f"{name}: {sensed.malformed[name]}")
            if name not in sensed.facts and name not in sensed.failed:
                raise MalformedFactsError(f"{name}: nothing was sent of it")
        for sensed in self.sensed:
            if name in sensed.failed:
                raise Unavailable(sensed.failed[name])
        if not self.sensed:
            raise Unavailable("its process ended before it could tell")
        return [struct for sensed in self.sensed if (struct := sensed.of(sensor)) is not None]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The cases that the gate of a run posed beyond its lesson's own.

    Attributes:
        posed: drawn shapes, in words.
        why: what could not be posed, and why.
        several: a rung is several processes: no other shape than its lesson's can be posed.
        fixed: why the task itself leaves nothing to draw; "" where it does not.
        held: axes that keep to some values since the task's own code takes no others, in words.
        only_values: those leave no other shape: what is posed has other values alone.
    """

    posed: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    several: bool = False
    fixed: str = ""
    held: tuple[str, ...] = ()
    only_values: bool = False


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run when it ends.

    Attributes:
        before, after: engine.environment.observe() before the first and after the last process.
        telemetry: None without a GPU.
        task: what the verifier says of the task itself; None where it said nothing.
        files: the snapshot, relative name to bytes.
        files_intact: whether the laid-out snapshot and our own sources were the same afterwards; None unknown.
        validity: "strict" or "portable".
        manifest: of the run.
        history: earlier finished runs of this target on this device, newest first, as plain data: "wall", "snapshot",
            "environment" (a mapping), "arms" (name to {"median_ms", "sources"}), "verdict".
        drawn: what the gate posed; None where it was never reached.
        earlier: the arms that are asked again about what they had shown: those of `arms` are one fresh process each.
    """

    target: Target
    case: Case
    device: str
    quick: bool
    arms: tuple[ArmFacts, ...]
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Telemetry | None = None
    task: TaskFacts | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    files_intact: bool | None = None
    validity: str = "strict"
    manifest: Mapping[str, object] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    drawn: Drawn | None = None
    earlier: tuple[ArmFacts, ...] = ()

    @property
    def again(self) -> bool:
        """Whether it is asked again, so that it does not stand alone."""
        return bool(self.earlier)

    @property
    def baseline(self) -> ArmFacts | None:
        """What the others are compared with; the first one of its rung."""
        return next((arm for arm in self.arms if arm.rung.role is Role.BASELINE), None)


ArmJudge: TypeAlias = Callable[[ArmFacts, RunFacts], Answer]
RunJudge: TypeAlias = Callable[[RunFacts], Answer]


@dataclass(frozen=True, slots=True)
class Check:
    """One question.

    Attributes:
        id: "timing.wall_clock".
        title: a few words for a list.
        about: one or two sentences: what is looked at, and what it means when it fails.
        issues: ids of the issues that it answers.
        when, needs: see there.
        arm, run: the judge, of each arm or of the run as a whole; exactly one of them. None of both for a defence
            whose failure ends the arm with a Refusal that names this check (`refuses`).
        refuses: the engine refuses an arm in this check's name (a wrong output, a torn report).
        sensor: what notes the facts in the worker.
        evidence: what its accusation rests on, see Evidence.
    """

    id: str
    title: str
    about: str
    issues: tuple[str, ...]
    when: When
    needs: tuple[Need, ...] = ()
    arm: ArmJudge | None = None
    run: RunJudge | None = None
    refuses: bool = False
    sensor: type[Sensor[Facts]] | None = None
    evidence: Evidence = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            raise ValueError(f"check {self.id!r}: the category must be one of {', '.join(CATEGORIES)}")
        if self.arm is not None and self.run is not None:
            raise ValueError(f"check {self.id!r} judges arms or runs, not both")
        if self.arm is None and self.run is None and not self.refuses:
            raise ValueError(f"check {self.id!r} judges nothing")

    @property
    def category(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]

    @property
    def repeatable(self) -> bool:
        """Whether its suspicion rests on times alone that fresh processes would show again."""
        return self.evidence is Evidence.TIME and self.arm is not None and self.when is not When.HISTORY


@dataclass(frozen=True, slots=True)
class Issue:
    """One way in which a result can be invalid.

    Attributes:
        id: "timing.unsynced_streams"; ids beyond the field's list of 95 are `listed=False`.
        what: what happens, one sentence.
        how: see How.
        answer: which part of the design leaves no room for it, how it is detected, or why it cannot be asked.
        fixture: folder below checks/gallery, "category/name"; "" where no kernel can do it on one machine, and then
            `answer` names the test that proves the design part.
        listed: whether it is one of the 95.
    """

    id: str
    what: str
    how: How
    answer: str
    fixture: str = ""
    listed: bool = True

    @property
    def category(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


# -- asking ------------------------------------------------------------------------------------------------------------


@functools.cache
def checks() -> tuple[Check, ...]:
    """Every check, category by category. Raises ValueError where two have one id."""
    return _unique([check for category in CATEGORIES for check in _module(category).CHECKS])


@functools.cache
def issues() -> tuple[Issue, ...]:
    """Every issue, category by category."""
    return _unique([issue for category in CATEGORIES for issue in _module(category).ISSUES])


def sensors() -> Iterator[tuple[Check, type[Sensor[Facts]]]]:
    """Every sensor once, with the first check that needs it. Raises ValueError where two have one name."""
    met: dict[str, type[Sensor[Facts]]] = {}
    for check in checks():
        if check.sensor is None:
            continue
        name = check.sensor.name
        if name not in met:
            met[name] = check.sensor
            yield check, check.sensor
        elif met[name] is not check.sensor:
            raise ValueError(f"two sensors are named {name!r}")


def _module(category: str) -> Any:
    # By name, so that a new category is one file and one word in CATEGORIES.
    return importlib.import_module(f"aisp.checks.{category}")


def _unique(items: list[Any]) -> tuple[Any, ...]:
    ids = [item.id for item in items]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"ids that stand twice: {', '.join(twice)}")
    return tuple(items)


def examine(
    run: RunFacts, *, without: frozenset[str] = frozenset(), only: Callable[[Check], bool] = lambda check: True
) -> list[Finding]:
    """Ask every check about a run that has ended.

    Args:
        run: the facts.
        without: ids that are left out; their findings say so.
        only: the checks that are asked; there is no finding of others.
    """
    findings: list[Finding] = []
    for check in filter(only, checks()):
        subjects: Sequence[ArmFacts | None] = [None] if check.run is not None else run.arms
        for subject in subjects:
            if check.id in without:
                answer = not_applicable("left out on request")
            else:
                answer = _weighed(check, subject, _ask(check, subject, run))
            # What a worker said may stand in it.
            evidence = clean_line(answer[1], limit=EVIDENCE_CHARS) or "no evidence was given"
            findings.append(Finding(check.id, subject.arm if subject is not None else "", answer[0], evidence))
    return findings


def _weighed(check: Check, arm: ArmFacts | None, answer: Answer) -> Answer:
    """The answer, CAUGHT only where no neighbour, machine or task can have made it so.

    A baseline and its A/A twin claim nothing: what is seen in them is the machine's or the task's doing.
    """
    status, seen = answer
    if status is not Status.CAUGHT:
        return answer
    if arm is not None and arm.rung.role is Role.BASELINE:
        return suspect(f"a baseline claims nothing, so look at the machine and the task: {seen}")
    if check.evidence is Evidence.TIME:
        return suspect(f"by time alone, which a busy machine can make so: {seen}")
    return answer


def _ask(check: Check, arm: ArmFacts | None, run: RunFacts) -> Answer:
    if arm is not None and arm.refusal is not None and arm.refusal.check == check.id:
        return caught(arm.refusal.evidence)
    if arm is not None and len(arm.sensed) > 1 and check.category != "distributed" and run.target.ranks > 1:
        return _gravest(_ask_rank(check, arm, run, rank) for rank in range(run.target.ranks))
    return _ask_one(check, arm, run)


def _ask_rank(check: Check, arm: ArmFacts, run: RunFacts, rank: int) -> Answer:
    """What it says where the facts of one rank alone are looked at, of this arm and of all others."""
    ranks = run.target.ranks

    def of_rank(each: ArmFacts) -> ArmFacts:
        return replace(each, sensed=each.sensed[rank::ranks])

    arms, earlier = (tuple(map(of_rank, arms)) for arms in (run.arms, run.earlier))
    status, evidence = _ask_one(check, of_rank(arm), replace(run, arms=arms, earlier=earlier))
    return status, f"rank {rank}: {evidence}"


def _gravest(answers: Iterable[Answer]) -> Answer:
    return min(answers, key=lambda answer: GRAVEST_FIRST.index(answer[0]))


def _ask_one(check: Check, arm: ArmFacts | None, run: RunFacts) -> Answer:
    if arm is not None and arm.state is State.UNAVAILABLE:
        return not_applicable("this rung did not run")
    if Need.GPU in check.needs and run.device != "cuda":
        return not_applicable("there is no GPU in this run")
    try:
        if arm is None:
            if check.run is None:
                raise TypeError("a check of arms was asked about a run")
            return check.run(run)
        if check.arm is not None:
            return check.arm(arm, run)
    except Unavailable as reason:
        return unavailable(str(reason))
    except MalformedFactsError as error:
        return suspect(f"its process sent facts that this check's sensor does not note ({error}): nothing follows")
    except Exception as error:
        # Whatever it is: a judge that fails has not judged, and the facts of a worker may have made it fail.
        return suspect(f"the check itself failed ({type(error).__name__}: {error}); please report it")
    if arm.refusal is not None or not arm.ended_well:
        return not_applicable("the arm ended before this could be said")
    return passed("nothing was refused")
