"""Following runs: the engine's events gathered into one `RunView` per run, and their tables and JSON.

Plain Python over `engine.protocol.events`; no terminal, no clock, no numpy, so it can be tested event by
event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aisp.engine.clean import clean, clean_line
from aisp.engine.protocol import events
from aisp.engine.speed_of_light import at_fast_host_ms
from aisp.store.outcomes import Correctness, FindingStatus, Limiter, State, Timing, Validity, Verdict
from aisp.store.results import standing
from aisp.store.results.prediction import PORTABLE
from aisp.tui import plain
from aisp.tui.commands.quarantine import Mark
from aisp.tui.results import clocks_differ, quality_notes, timing_words

A_A = standing.TWIN_SUFFIX
KEPT_OUTPUT_LINES = 10


@dataclass(slots=True)
class ArmView:
    """One rung of a run as far as it is known."""

    rung: str
    known: events.ArmUpdate | None = None
    samples_seen: int = 0
    last_ms: float | None = None
    output: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_OUTPUT_LINES))

    @property
    def state(self) -> str:
        """Where it is."""
        return self.known.state if self.known else State.PLANNED

    @property
    def correctness(self) -> str:
        """What the verifier found."""
        return self.known.correctness if self.known else Correctness.UNKNOWN

    @property
    def median_ms(self) -> float | None:
        """Its time per call."""
        return self.known.median_ms if self.known else None

    @property
    def low_ms(self) -> float | None:
        """Lower end of the 95 % interval of the median."""
        return self.known.low_ms if self.known else None

    @property
    def high_ms(self) -> float | None:
        """Upper end of the same."""
        return self.known.high_ms if self.known else None

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that a call held."""
        return self.known.peak_bytes if self.known else None

    @property
    def failed(self) -> bool:
        """Whether this arm ended in another way than well or not applicable."""
        return self.known is not None and self.known.state not in (*_ON_THE_WAY, State.OK, State.UNAVAILABLE)


_ON_THE_WAY = (State.PLANNED, State.STARTING, State.RUNNING)


@dataclass(slots=True)
class RunView:
    """One run as far as the stream has told it."""

    id: str
    target: str = ""
    title: str = ""
    device: str = ""
    case: str = ""
    quick: bool = False
    snapshot: str = ""
    wall: str = ""
    state: str = State.PLANNED
    step: str = ""
    latest: ArmView | None = None  # the arm that was sampled last
    arms: dict[str, ArmView] = field(default_factory=dict)
    comparisons: dict[tuple[str, str], events.ComparisonUpdate] = field(default_factory=dict)
    steps: list[events.Step] = field(default_factory=list)
    findings: list[events.FindingItem] = field(default_factory=list)
    quarantined: dict[str, Mark] = field(default_factory=dict)  # by rung; the code that ran was caught before
    policy: str = "strict"  # what an environment that is not fit does: StartRuns.validity
    without: list[str] = field(default_factory=list)  # checks that were left out on request
    finished: events.RunFinished | None = None

    def arm(self, rung: str) -> ArmView:
        """The arm of that name, made if it was not heard of yet."""
        if rung not in self.arms:
            self.arms[rung] = ArmView(rung)
        return self.arms[rung]

    @property
    def validity(self) -> str:
        """Whether the times may be believed."""
        return self.finished.validity if self.finished else Validity.UNKNOWN

    @property
    def correctness(self) -> str:
        """The run's correctness; while it goes on, "wrong" as soon as one arm is."""
        if self.finished:
            return self.finished.correctness
        found = [arm.known.correctness for arm in self.arms.values() if arm.known]
        return Correctness.WRONG if Correctness.WRONG in found else Correctness.UNKNOWN

    @property
    def baseline(self) -> str:
        """Name of the first baseline, which verdicts are against; "" while no arm is known."""
        return standing.first_baseline(self.arms.values())

    def mark(self, rung: str) -> Mark | None:
        """Why this rung's figures are no result, None where they are one. The A/A arm is the baseline."""
        name = rung.removesuffix(A_A)
        for finding in self.findings:
            if finding.status == FindingStatus.CAUGHT and finding.arm.removesuffix(A_A) in (name, ""):
                of_run = not finding.arm
                return Mark("" if of_run else name, finding.check, finding.evidence, self.id, self.wall, here=True)
        return self.quarantined.get(name)

    @property
    def marks(self) -> list[Mark]:
        """Every reason why an arm's figures are no result, each once."""
        found = [mark for rung in [*self.arms, ""] if (mark := self.mark(rung)) is not None]
        return list(dict.fromkeys(found))

    def hide(self) -> None:
        """Take the figures out of comparisons with a rung that is marked: no such speed-up is ever shown as one."""
        for key, c in self.comparisons.items():
            mark = self.mark(c.rung) or self.mark(c.baseline)
            if mark is not None and (c.speedup is not None or c.verdict != Verdict.NONE):
                self.comparisons[key] = events.ComparisonUpdate(
                    run_id=c.run_id,
                    rung=c.rung,
                    baseline=c.baseline,
                    verdict=Verdict.NONE,
                    note=f"{mark.word}: {mark.check}: {mark.evidence}",
                )

    @property
    def hidden(self) -> frozenset[str]:
        """Rungs whose figures are no result."""
        return frozenset(rung for rung in self.arms if self.mark(rung) is not None)

    @property
    def lead(self) -> ArmView | None:
        """The arm that the run is about."""
        return standing.lead(self.arms.values(), self.comparisons.values(), self.hidden)

    @property
    def best(self) -> events.ComparisonUpdate | None:
        """The comparison that the run's verdict is of."""
        return standing.best(self.arms.values(), self.comparisons.values(), self.hidden)

    def against_baseline(self, rung: str) -> events.ComparisonUpdate | None:
        """The rung against the first baseline, else against any other."""
        return standing.against(rung, self.arms.values(), self.comparisons.values())

    @property
    def best_ms(self) -> float | None:
        """The lead's median, None where it has none that may be shown."""
        lead = self.lead
        return None if lead is None or lead.rung in self.hidden else lead.median_ms


class Follower:
    """Gathers the events of the runs in `wanted`; all runs where it is None."""

    def __init__(self, wanted: Iterable[str] | None = None) -> None:
        self.wanted = None if wanted is None else list(wanted)
        self.runs: dict[str, RunView] = {run_id: RunView(run_id) for run_id in self.wanted or ()}
        self.telemetry: events.TelemetryBatch | None = None
        self.banners: dict[str, events.Banner] = {}
        self.gap = False  # events were lost: what they said must be asked for

    @property
    def done(self) -> bool:
        """Whether every wanted run has ended."""
        return all(run.finished for run in self.runs.values())

    def apply(self, event: events.Event) -> RunView | None:
        """Take one event in; the run it belongs to, if it is one of ours."""
        if isinstance(event, events.TelemetryBatch):
            self.telemetry = event
        elif isinstance(event, events.Gap):
            self.gap = True
        elif isinstance(event, events.Banner):
            if event.text:
                self.banners[event.key] = event
            else:
                self.banners.pop(event.key, None)
        run_id = getattr(event, "run_id", "")
        if not run_id or isinstance(event, events.WatchEdit):
            return None
        run = self.runs.get(run_id)
        if run is None:
            if self.wanted is not None:
                return None
            run = self.runs[run_id] = RunView(run_id)
        _take(run, event)
        return run


def _take(run: RunView, event: events.Event) -> None:
    if isinstance(event, events.SampleBatch):
        arm = run.arm(event.arm)
        arm.samples_seen += len(event.device_ms)
        if event.device_ms:
            arm.last_ms = event.device_ms[-1]
            run.latest = arm
    elif isinstance(event, events.RunPlanned):
        run.target, run.title, run.device = event.target, event.title, event.device
        run.case, run.quick, run.snapshot, run.wall = event.case, event.quick, event.snapshot, event.wall
        for rung in event.rungs:
            run.arm(rung)
    elif isinstance(event, events.RunState):
        run.state = event.state
    elif isinstance(event, events.Step):
        run.step = f"{event.name} {event.arm}".rstrip()
        if event.duration_ms is not None:
            run.steps.append(event)
    elif isinstance(event, events.ArmUpdate):
        run.arm(event.arm).known = event
    elif isinstance(event, events.ComparisonUpdate):
        run.comparisons[event.rung, event.baseline] = event
        run.hide()
    elif isinstance(event, events.Findings):
        run.findings = list(event.items)
        run.hide()
    elif isinstance(event, events.Output):
        run.arm(event.arm).output.extend(event.lines)
    elif isinstance(event, events.RunFinished):
        run.finished = event
        run.state = event.state
        run.target = run.target or event.target


def summary(run: RunView) -> str:
    """One line about a finished run: verdict with numbers, or how it ended and why."""
    if run.finished is None:
        return f"{run.state} {run.step}".rstrip()
    end = run.finished
    if end.state != State.OK:
        return clean_line(f"{end.state}: {end.reason}" if end.reason else end.state)
    marked = clean_line("; ".join(mark.sentence for mark in run.marks), limit=1000)
    best = run.best
    if best is None:
        if marked:
            return marked
        return "correct, not timed" if run.best_ms is None else f"correct, {plain.milliseconds(run.best_ms)} ms"
    verdict = "no verdict," if end.verdict == Verdict.NONE else end.verdict
    text = f"{verdict} {plain.speedup(best.speedup, best.low, best.high)} by {clean_line(best.rung)}"
    if marked:
        return f"{text}; {marked}"
    if end.validity in (Validity.SUSPECT, Validity.CAUGHT):
        text += f", but {end.validity}: {clean_line(end.reason or _doubts(run)) or 'the times are not to be believed'}"
    return text


def _doubts(run: RunView) -> str:
    """Why a run is SUSPECT, where its end does not say."""
    doubts = [f"{f.check}: {f.evidence}" for f in run.findings if f.status == FindingStatus.SUSPECT]
    doubts += [f"without {', '.join(run.without)}"] if run.without else []
    return "; ".join(doubts)


def progress_line(run: RunView, follower: Follower, number: int, total: int, elapsed_s: float) -> str:
    """The live line: which run of how many, its step, samples, the last time, the GPU's clock and
    temperature."""
    parts = [f"[{number}/{total}] {run.target or run.id}", run.step or run.state]
    seen = sum(a.samples_seen for a in run.arms.values())
    if seen:
        parts.append(f"{plain.count(seen)} samples")
    if run.latest is not None:
        parts.append(f"{run.latest.rung} {plain.number(run.latest.last_ms)} ms")
    gpu = follower.telemetry
    if gpu is not None and gpu.sm_clock_mhz and run.device.startswith("cuda"):
        clock, warm = gpu.sm_clock_mhz[-1], gpu.temperature_c[-1] if gpu.temperature_c else float("nan")
        if plain.known(clock):
            parts.append(f"SM {clock:.0f} MHz")
        if plain.known(warm):
            parts.append(f"{warm:.0f} C")
    parts.append(plain.duration(elapsed_s))
    return "  ".join(parts)


def result_lines(run: RunView, *, width: int | None = None) -> list[str]:
    """The table of a run for people, with reasons and cut tracebacks of the arms that failed."""
    end = run.finished
    head = f"{clean_line(run.target or run.id)}  {clean_line(run.title)}".rstrip()
    facts = [run.device or plain.DASH, f"case {run.case}" if run.case else "", "quick" if run.quick else ""]
    lines = [head, "  ".join(clean_line(f) for f in [*facts, f"run {run.id}"] if f)]
    shown = [arm for arm in run.arms.values() if not arm.rung.endswith(A_A)]
    light = light_lines(shown, width=width)
    if shown:
        heads = ["rung", "ms [low..high]", "n", "timing", "speed-up [low..high]", "verdict", "SOL", "correct"]
        rows = [_row(run, arm) for arm in shown]
        if light:  # which says the timing too, and leaves this one room
            column = heads.index("timing")
            heads, rows = _without(heads, column), [_without(row, column) for row in rows]
        lines += [
            "",
            *plain.table(heads, rows, right=["n", "SOL"], width=width, shrink="rung", drop=["correct", "SOL", "n"]),
        ]
    if light:
        lines += ["", *light]
    careless = naive_lines(run, shown, width=width)
    if careless:
        lines += ["", *careless]
    for arm in run.arms.values():
        known = arm.known
        if known is None or not (known.reason or known.detail):
            continue
        if end is not None and known.reason == end.reason and not known.detail:
            continue  # what ended the whole run, a cancel for example, stands below once
        lines += [
            "",
            clean_line(f"{arm.rung}: {known.state}" + (f": {known.reason}" if known.reason else ""), limit=2000),
        ]
        if known.detail and known.detail not in known.reason:
            lines.append(plain.indent(clean(known.detail)))
        if arm.failed and arm.output:
            lines += [
                "  last lines that it printed:",
                *(plain.indent(clean(text), 4) for text in arm.output),
            ]
    notes = _notes(run)
    if notes:
        lines += ["", *notes]
    trust = trust_lines(run)
    if trust:
        lines += ["", *trust]
    lines += ["", f"=> {summary(run)}"]
    if end is not None:
        floors = [c.floor for c in run.comparisons.values() if c.floor is not None]
        tail = [
            f"noise floor {plain.percent(max(floors), 2)}" if floors else "",
            f"times {end.validity}",
            "portable" if run.policy == PORTABLE else "",
            plain.duration(None if end.duration_ms is None else end.duration_ms / 1e3),
            *(clean_line(flag) for flag in end.flags),
        ]
        lines.append("   " + ", ".join(part for part in tail if part))
    return lines


def light_lines(arms: Sequence[ArmView], *, width: int | None = None) -> list[str]:
    """The table of arms against the speed of light: how they were timed, the SM clock during their samples, what
    limits them, the least time by the datasheet, at that clock and by the measured ceilings, and the score. Empty
    where none of this is known, as on a CPU."""
    if not any(arm.known and (arm.known.light or arm.known.sm_clock_mhz is not None) for arm in arms):
        return []
    rows = []
    for arm in arms:
        known = arm.known
        light = known.light if known else None
        row = [
            arm.rung,
            timing_words(known.timing, known.calls) if known else plain.DASH,
            plain.megahertz(known.sm_clock_mhz if known else None),
            (light.limiter if light else "") or plain.DASH,
            plain.number(light.spec_ms if light else None),
            plain.number(light.clock_ms if light else None),
            plain.number(light.measured_ms if light else None),
            plain.DASH if light is None or light.score is None else f"{light.score:.2f}",
        ]
        rows.append([clean_line(cell) for cell in row])
    heads = ["rung", "timing", "SM MHz", "limit", "spec ms", "clock ms", "measured ms", "score"]
    table = plain.table(
        heads, rows, right=["SM MHz", *heads[4:]], width=width, shrink="rung", drop=["clock ms", "spec ms", "score"]
    )
    lit = [(arm.rung, arm.known, arm.known.light) for arm in arms if arm.known and arm.known.light]
    return table + [
        clean_line(f"{rung}: {plain.host_sentence(light.launch_eager_ms, at_fast_host_ms(known.median_ms, light))}")
        for rung, known, light in lit
        if light.limiter == Limiter.HOST
    ]


def naive_lines(run: RunView, arms: Sequence[ArmView], *, width: int | None = None) -> list[str]:
    """The table of what a careless evaluator says of each rung, beside what is said here. Empty where it was not
    asked."""
    rows = []
    notes = []
    for arm in arms:
        naive = arm.known.naive if arm.known else None
        if naive is None or arm.rung == run.baseline:
            continue
        if naive.note:
            notes.append(clean_line(f"{arm.rung}: no careless time: {naive.note}"))
        against, mark = run.against_baseline(arm.rung), run.mark(arm.rung)
        ours = plain.DASH if against is None else plain.speedup(against.speedup, against.low, against.high)
        accepts = plain.DASH if naive.accepts is None else "yes" if naive.accepts else "no"
        rows.append([clean_line(arm.rung), plain.speedup(naive.speedup), accepts, mark.word if mark else ours])
    if not rows:
        return []
    heads = ["rung", "a careless timer says", "outputs accepted", "we say"]
    return [*plain.table(heads, rows, width=width, shrink="rung"), *notes]


_WORST_FIRST = (
    FindingStatus.CAUGHT,
    FindingStatus.SUSPECT,
    FindingStatus.UNAVAILABLE,
    FindingStatus.PASSED,
    FindingStatus.NOT_APPLICABLE,
)


def check_counts(findings: Iterable[events.FindingItem]) -> dict[str, int]:
    """How many checks came to which status; a check counts once, with the worst that it said of any arm."""
    worst: dict[str, int] = {}
    for finding in findings:
        rank = _WORST_FIRST.index(FindingStatus(finding.status))
        worst[finding.check] = min(rank, worst.get(finding.check, rank))
    return {status.value: sum(found == rank for found in worst.values()) for rank, status in enumerate(_WORST_FIRST)}


def trust_lines(run: RunView) -> list[str]:
    """What checks found in a run: every CAUGHT and SUSPECT with its evidence, marks from earlier runs, and how many
    passed, had nothing to ask, or could not be asked."""
    lines = []
    for status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT):
        lines += [
            f"{f.arm or 'the run'}: {status.value} by {f.check}: {f.evidence}"
            for f in run.findings
            if f.status == status
        ]
    lines += [mark.sentence for mark in run.quarantined.values()]
    if run.without:
        lines.append(f"left out on request, so without a verdict: {', '.join(run.without)}")
    if run.findings:
        counts = check_counts(run.findings)
        told = [f"{number} {status.replace('_', ' ')}" for status, number in counts.items() if number]
        lines.append(f"checks: {', '.join(told)}")
    return [clean_line(line, limit=2000) for line in lines]


def _without(row: Sequence[str], column: int) -> list[str]:
    return [*row[:column], *row[column + 1 :]]


def _notes(run: RunView) -> list[str]:
    """Sentences about rungs: why there is no verdict, that the clocks differed, what their samples say of themselves.
    Rungs of which the same is to be told share a line."""
    notes: dict[str, list[str]] = {}

    def add(note: str, rung: str) -> None:
        notes.setdefault(clean_line(note, limit=2000), []).append(clean_line(rung))

    for arm in run.arms.values():
        known = arm.known
        if known is not None and known.state != State.OK:
            continue  # its own reason was told above
        against = run.against_baseline(arm.rung)
        if against is not None:
            other = run.arms.get(against.baseline)
            base = other.known.sm_clock_mhz if other and other.known else None
            differ = clocks_differ(known.sm_clock_mhz if known else None, base)
            # A quick run says so at its head; a note under every decided row would say it again.
            note = against.note.removesuffix("quick: one replica").rstrip("; ") if run.quick else against.note
            hidden = run.mark(arm.rung) or run.mark(against.baseline)  # which is told below, with its check
            if note and hidden is None:
                add(note, arm.rung)
            if differ and against.cycles is not None:
                cycles = plain.speedup(against.cycles, against.cycles_low, against.cycles_high)
                add(f"in SM cycles, which clocks cannot move, {cycles}", arm.rung)
        if known is not None:
            for note in quality_notes(known.quality, known.median_ms, known.calls):
                add(note, arm.rung)
    return [f"{', '.join(rungs)}: {note}" for note, rungs in notes.items()]


def _row(run: RunView, arm: ArmView) -> Sequence[str]:
    known = arm.known
    if known is None:
        return [
            clean_line(arm.rung),
            plain.DASH,
            "0",
            plain.DASH,
            plain.DASH,
            plain.DASH,
            plain.DASH,
            plain.DASH,
        ]
    against, mark = run.against_baseline(arm.rung), run.mark(arm.rung)
    verdict = plain.DASH
    if known.state not in (State.OK, State.RUNNING):
        verdict = known.state
    elif mark is not None:
        verdict = mark.word
    elif against is not None and against.verdict != Verdict.NONE:
        verdict = against.verdict
    return [
        clean_line(arm.rung),
        plain.milliseconds(known.median_ms, known.low_ms, known.high_ms),
        plain.count(known.samples),
        clean_line(timing_words(known.timing, known.calls)),
        plain.DASH if against is None else plain.speedup(against.speedup, against.low, against.high),
        clean_line(verdict),
        plain.percent(known.sol),
        plain.DASH if known.correctness == Correctness.UNKNOWN else clean_line(known.correctness),
    ]


def run_json(run: RunView) -> dict[str, Any]:
    """A run for JSON; the schema is in docs/commands.md."""
    end = run.finished
    return {
        "run_id": run.id,
        "target": run.target,
        "device": run.device,
        "case": run.case,
        "quick": run.quick,
        "snapshot": run.snapshot,
        "wall": run.wall,
        "status": run.state,
        "correctness": run.correctness,
        "validity": run.validity,
        "verdict": end.verdict if end else Verdict.NONE,
        "duration_ms": end.duration_ms if end else None,
        "reason": end.reason if end else "",
        "flags": end.flags if end else [],
        "policy": run.policy,
        "without": list(run.without),
        "quarantined": [mark.as_json() for mark in run.quarantined.values()],
        "arms": [_arm_json(arm) for arm in run.arms.values()],
        "comparisons": [
            {
                "rung": c.rung,
                "baseline": c.baseline,
                "speedup": c.speedup,
                "low": c.low,
                "high": c.high,
                "floor": c.floor,
                "cycles": c.cycles,
                "cycles_low": c.cycles_low,
                "cycles_high": c.cycles_high,
                "p_value": c.p_value,
                "verdict": c.verdict,
                "note": c.note,
            }
            for c in run.comparisons.values()
        ],
        "findings": [
            {"check": f.check, "arm": f.arm, "status": f.status, "evidence": f.evidence} for f in run.findings
        ],
        "steps": [{"name": s.name, "arm": s.arm, "duration_ms": s.duration_ms} for s in run.steps],
    }


def _arm_json(arm: ArmView) -> dict[str, Any]:
    known = arm.known
    return {
        "rung": arm.rung,
        "status": known.state if known else State.PLANNED,
        "correctness": known.correctness if known else Correctness.UNKNOWN,
        "timing": known.timing if known else Timing.NONE,
        "median_ms": known.median_ms if known else None,
        "low_ms": known.low_ms if known else None,
        "high_ms": known.high_ms if known else None,
        "samples": known.samples if known else 0,
        "calls": known.calls if known else None,
        "sm_clock_mhz": known.sm_clock_mhz if known else None,
        "sol": known.sol if known else None,
        "light": _light_json(known.light) if known and known.light else None,
        "quality": _quality_json(known.quality) if known and known.quality else None,
        "naive": _naive_json(known.naive) if known and known.naive else None,
        "max_error": known.max_error if known else None,
        "peak_bytes": known.peak_bytes if known else None,
        "reason": known.reason if known else "",
        "detail": known.detail if known else "",
    }


def _light_json(light: events.ArmLight) -> dict[str, Any]:
    return {
        "spec_ms": light.spec_ms,
        "clock_ms": light.clock_ms,
        "measured_ms": light.measured_ms,
        "limiter": light.limiter or None,
        "score": light.score,
    }


def _quality_json(quality: events.ArmQuality) -> dict[str, Any]:
    return {
        "drift": quality.drift,
        "autocorrelation": quality.autocorrelation,
        "low_mode_ms": quality.low_mode_ms,
        "high_mode_ms": quality.high_mode_ms,
        "high_share": quality.high_share,
        "throttled_share": quality.throttled_share,
        "resolution_ms": quality.resolution_ms,
        "overhead_ms": quality.overhead_ms,
        "watch_us": quality.watch_us,
    }


def _naive_json(naive: events.ArmNaive) -> dict[str, Any]:
    return {
        "base_ms": naive.base_ms,
        "time_ms": naive.time_ms,
        "speedup": naive.speedup,
        "accepts": naive.accepts,
        "note": naive.note,
    }


def exit_status(runs: Iterable[RunView], *, required: Iterable[str] | None = None, refused: Iterable[str] = ()) -> int:
    """What a set of finished runs means as an exit status.

    1 where a run is wrong, failed, or its times are not to be believed; else 3 where one could not be done
    here (the machine lacks something, the engine died, or the run never ended); else 0. A run that is only
    `unavailable` counts when its target is in `required` (all are, where that is None) or when no run was
    done, and so does a target that was `refused`.
    """
    runs = list(runs)
    must = None if required is None else set(required)
    lost = done = False
    not_here = any(must is None or target in must for target in refused)
    for run in runs:
        state = run.state
        if run.validity in (Validity.SUSPECT, Validity.CAUGHT) or run.marks:
            return 1
        if state == State.OK:
            done = True
        elif state == State.UNAVAILABLE:
            not_here = not_here or must is None or run.target in must
        elif state in (State.ENGINE_LOST, State.INFRA_ERROR, State.CANCELLED) or state in _ON_THE_WAY:
            lost = True
        else:
            return 1
    return 3 if lost or not_here or (runs and not done) else 0
