"""What a face knows of a fuzz, live or stored, and how it is told in words: no Textual and no numpy.

Events and stored records go in as plain data and come out as views; a live fuzz and a stored one look the same. Taking
a case costs a constant, and memory is bounded however long a fuzz is: the newest `MAX_CASES` cases, the first
`MAX_FAILURES` failures, and exact counts. All texts are cleaned here.

Errors of cases are in units of what is allowed: above 1 is wrong. Statistics of a failure are absolute, or in ULP of
the output's dtype.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from aisp.engine.protocol import events
from aisp.store.outcomes import CaseVerdict, FuzzVerdict
from aisp.store.text import clean, clean_line
from aisp.tui import plain

if TYPE_CHECKING:
    from aisp.store import History

MAX_CASES = 2000
MAX_FAILURES = 500
MAX_SCRIPT_CHARACTERS = 200_000
RATE_STEP_NS = 250_000_000
RATE_MARKS = 40  # 10 s
PICTURE_ROWS = 24
FUZZ_CASES = 200  # of a fuzz that is started here
STORED_FUZZES = 50


class FuzzState(StrEnum):
    """Where a fuzz is. The first two are on the way."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    LOST = "engine lost"

    @property
    def final(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (FuzzState.PLANNED, FuzzState.RUNNING)


@dataclass(slots=True)
class TallyView:
    """Counts of one rung's cases, of one strategy or in all."""

    cases: int = 0
    failing: int = 0
    unsupported: int = 0

    def add(self, other: TallyView) -> None:
        """Count these too."""
        self.cases += other.cases
        self.failing += other.failing
        self.unsupported += other.unsupported


@dataclass(frozen=True, slots=True)
class CaseView:
    """One case of one rung, as it was judged."""

    rung: str
    strategy: str
    case: str
    verdict: CaseVerdict
    finding: str
    max_error: float | None


@dataclass(frozen=True, slots=True)
class FailureView:
    """store.record.Failure, its texts cleaned, its cases as text; `drawn` is "" where nothing smaller fails."""

    id: str
    rung: str
    strategy: str
    stage: str
    verdict: CaseVerdict
    case: str
    drawn: str
    tried: int
    output: str
    finding: str
    detail: str
    statistics: Mapping[str, float]
    histogram: tuple[int, ...]
    region: tuple[str, ...]
    script: str
    versions: tuple[str, ...]
    shrunk: bool = True  # False where no smaller case was tried: the smallest failure of a rung is shrunk at the end

    @staticmethod
    def of(data: Mapping[str, Any], *, shrunk: bool = True) -> FailureView:
        """From `Failure.plain()`. What is missing or of another kind is taken for not known."""
        case, drawn = case_text(_mapping(data.get("case"))), case_text(_mapping(data.get("drawn")))
        return FailureView(
            id=_word(data.get("id")),
            rung=_word(data.get("rung")),
            strategy=_word(data.get("strategy")),
            stage=_word(data.get("stage")),
            verdict=case_verdict(data.get("verdict")),
            case=case,
            drawn=drawn if drawn != case else "",
            tried=_count(data.get("tried")),
            output=_word(data.get("output")),
            finding=_word(data.get("finding")),
            detail=clean(str(data.get("detail") or ""), limit=8000),
            statistics={_word(name): float(value) for name, value in _mapping(data.get("statistics")).items()
                        if isinstance(value, (int, float))},
            histogram=tuple(_count(value) for value in _sequence(data.get("histogram"))),
            # A picture keeps its blanks: only what a terminal acts upon is taken out.
            region=tuple(clean(str(row), limit=2000).replace("\n", " ") for row in _sequence(data.get("region"))),
            script=clean(str(data.get("script") or ""), limit=MAX_SCRIPT_CHARACTERS),
            versions=tuple(f"{_word(name)} {_word(value)}" for name, value in _mapping(data.get("versions")).items()),
            shrunk=shrunk,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplayView:
    """What became of a failure that was done again."""

    fuzz_id: str
    outcome: str
    differs: tuple[str, ...] = ()
    detail: str = ""


@dataclass(slots=True)
class RungView:
    """One rung in a fuzz; `verdict` is None until the fuzz has ended."""

    name: str
    tallies: dict[str, TallyView] = field(default_factory=dict)  # by strategy
    verdict: FuzzVerdict | None = None
    reason: str = ""
    worst: float | None = None  # of its right cases, in units of what is allowed
    careless: bool | None = None  # whether a careless oracle accepts it; None where it was not asked
    gate_failing: int = 0

    @property
    def total(self) -> TallyView:
        """Over all strategies."""
        whole = TallyView()
        for tally in self.tallies.values():
            whole.add(tally)
        return whole


@dataclass(slots=True)
class FuzzView:
    """A fuzz as far as it is known: from events, or from the store (`stored`)."""

    id: str
    what: str = "fuzz"  # or "lint" or "replay"
    target: str = ""
    device: str = ""
    seed: int | None = None
    asked: int = 0  # cases per rung
    wall: str = ""
    strategies: list[str] = field(default_factory=list)
    rungs: dict[str, RungView] = field(default_factory=dict)
    state: FuzzState = FuzzState.PLANNED
    reason: str = ""
    notes: tuple[str, ...] = ()
    duration_ms: float | None = None
    cases: deque[CaseView] = field(default_factory=lambda: deque(maxlen=MAX_CASES))
    case_count: int = 0  # cases that ever came, so that a pane can fetch the new ones only
    failures: dict[str, FailureView] = field(default_factory=dict)  # by id, in the order in which they came
    gaps: list[tuple[int, int]] = field(default_factory=list)
    stored: bool = False
    marks: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=RATE_MARKS))  # time in ns, case_count

    # -- in ---------------------------------------------------------------------------------------------

    def rung(self, name: str) -> RungView:
        """The rung of that name, made if it was not planned."""
        return self.rungs.setdefault(name, RungView(name))

    def take_plan(self, event: events.FuzzPlanned) -> None:
        """What was asked for."""
        self.what, self.target = _word(event.what), clean_line(event.target)
        self.device, self.seed, self.asked = clean_line(event.device), event.seed, event.cases
        self.wall, self.strategies = clean_line(event.wall), [_word(name) for name in event.strategies]
        for name in event.rungs:
            self.rung(clean_line(name))

    def take_case(self, event: events.FuzzCase, now_ns: int) -> None:
        """One more case was judged."""
        rung, strategy, verdict = clean_line(event.rung), _word(event.strategy), case_verdict(event.verdict)
        if not self.state.final:
            self.state = FuzzState.RUNNING
        view = self.rung(rung)
        if strategy not in self.strategies:
            self.strategies.append(strategy)
        tally = view.tallies.setdefault(strategy, TallyView())
        tally.add(TallyView(1, int(verdict.failing), int(verdict is CaseVerdict.UNSUPPORTED)))
        error = _finite(event.max_error)
        if verdict.failing and event.stage != "triage":
            view.gate_failing += 1
        if verdict is CaseVerdict.RIGHT and error is not None:
            view.worst = max(error, view.worst or 0.0)
        self.cases.append(CaseView(rung, strategy, clean_line(event.case), verdict, _word(event.finding), error))
        self.case_count += 1
        if self.marks and now_ns - self.marks[-1][0] < RATE_STEP_NS:
            # What arrives at once, as after a reconnect, is one mark: it must not look like speed.
            self.marks[-1] = (self.marks[-1][0], self.case_count)
        else:
            self.marks.append((now_ns, self.case_count))

    def take_failure(self, data: Mapping[str, Any], *, shrunk: bool) -> None:
        """A failure was kept, or its smallest case was found."""
        found = FailureView.of(data, shrunk=shrunk)
        if found.id in self.failures or len(self.failures) < MAX_FAILURES:
            self.failures[found.id] = found

    def take_record(self, data: Mapping[str, Any]) -> None:
        """How it ended: `Fuzz.plain()`. Its counts are whole, also where cases did not reach this face."""
        self.target = self.target or clean_line(str(data.get("target") or ""))
        self.device = clean_line(str(data.get("device") or "")) or self.device
        seed = data.get("seed")
        self.seed = seed if isinstance(seed, int) else self.seed
        self.asked = _count(data.get("cases")) or self.asked
        self.wall = clean_line(str(data.get("wall") or "")) or self.wall
        try:
            self.state = FuzzState(str(data.get("state")))
        except ValueError:
            self.state = FuzzState.FAILED
        self.reason = clean_line(str(data.get("reason") or ""), limit=4000)
        self.notes = tuple(clean_line(str(note), limit=2000) for note in _sequence(data.get("notes")))
        self.duration_ms = _finite(data.get("duration_ms"))
        for name in _sequence(data.get("strategies")):
            if _word(name) not in self.strategies:
                self.strategies.append(_word(name))
        for item in _sequence(data.get("rungs")):
            self._take_rung(_mapping(item))

    def _take_rung(self, data: Mapping[str, Any]) -> None:
        view = self.rung(clean_line(str(data.get("rung") or "")))
        try:
            view.verdict = FuzzVerdict(str(data.get("verdict")))
        except ValueError:
            view.verdict = FuzzVerdict.UNDECIDED
        view.reason = clean_line(str(data.get("reason") or ""), limit=4000)
        view.worst = _finite(data.get("max_error"))
        naive = _mapping(data.get("naive"))
        opinions = (naive.get("allclose"), naive.get("assert_close"))
        view.careless = None if None in opinions else all(opinions)
        by_strategy = _mapping(data.get("by_strategy"))
        view.tallies = {
            _word(name): TallyView(*(_count(_mapping(tally).get(key)) for key in ("cases", "failing", "unsupported")))
            for name, tally in by_strategy.items()
        }
        for name in view.tallies:
            if name not in self.strategies:
                self.strategies.append(name)

    # -- out --------------------------------------------------------------------------------------------

    @property
    def total(self) -> TallyView:
        """Over all rungs."""
        whole = TallyView()
        for rung in self.rungs.values():
            whole.add(rung.total)
        return whole

    @property
    def asked_in_all(self) -> int:
        """Cases that were asked for, over all rungs."""
        return self.asked * max(1, len(self.rungs))

    def rate(self, now_ns: int) -> float | None:
        """Cases per second: over the last seconds while it goes on, over all of it after its end; None unknown."""
        if self.state.final:
            return self.total.cases / (self.duration_ms / 1e3) if self.duration_ms else None
        if not self.marks:
            return None
        then_ns, then = self.marks[0]
        if self.case_count == then or now_ns <= then_ns:
            return None
        return (self.case_count - then) / ((now_ns - then_ns) / 1e9)

    def lose(self) -> None:
        """The engine ended while this was under way."""
        self.state, self.reason = FuzzState.LOST, "the engine ended while this was under way; r fuzzes again"


def stored_fuzz(data: Mapping[str, Any], failures: Iterable[Mapping[str, Any]] = ()) -> FuzzView:
    """A fuzz of the store (`Fuzz.plain()`) in the shape of a live one; its single cases are not kept there."""
    view = FuzzView(clean_line(str(data.get("id") or ""), limit=64), stored=True)
    view.take_record(data)
    for failure in failures:
        view.take_failure(failure, shrunk=True)
    return view


def read_fuzzes(history: History, target: str) -> list[FuzzView]:
    """Stored fuzzes of a target, newest first, without their failures."""
    return [stored_fuzz(record.plain()) for record in history.fuzzes(target, STORED_FUZZES)]


def read_failures(history: History, fuzz_id: str) -> list[dict[str, Any]]:
    """Failures of a stored fuzz as plain data."""
    return [record.plain() for record in history.failures(fuzz_id)]


def error_bins() -> tuple[float, ...]:
    """Lower ends of a histogram's bins. Imports the store's records and numpy with them: for a thread."""
    from aisp.store.record import ERROR_BINS

    return ERROR_BINS


def case_verdict(value: object) -> CaseVerdict:
    """A case's verdict; a word that this version does not have is no judgement."""
    try:
        return CaseVerdict(str(value))
    except ValueError:
        return CaseVerdict.SKIPPED


def case_text(data: Mapping[str, Any]) -> str:
    """A case's plain data on one line, as the oracle wrote it: "M=3 N=129 float16 x:transposed,large"."""
    return clean_line(str(data.get("text", "")))


# -- words ---------------------------------------------------------------------------------------------------------

# A sign tells the verdict without its colour; the second is for terminals of 7 bits.
_SIGNS: Mapping[CaseVerdict, tuple[str, str]] = {
    CaseVerdict.RIGHT: ("✓", "+"),
    CaseVerdict.WRONG: ("✗", "x"),
    CaseVerdict.UNSUPPORTED: ("–", "-"),
    CaseVerdict.ERROR: ("!", "!"),
    CaseVerdict.CRASHED: ("!", "!"),
    CaseVerdict.TIMEOUT: ("!", "!"),
    CaseVerdict.MEMORY: ("?", "?"),
    CaseVerdict.SKIPPED: ("?", "?"),
}
_FUZZ_SIGNS: Mapping[FuzzVerdict, tuple[str, str]] = {
    FuzzVerdict.RIGHT: ("✓", "+"),
    FuzzVerdict.WRONG: ("✗", "x"),
    FuzzVerdict.DOUBTED: ("!", "!"),
    FuzzVerdict.UNDECIDED: ("?", "?"),
}
REPLAY_WORDS: Mapping[str, str] = {
    "reproduced": "reproduced: the same inputs gave the same wrong output, byte for byte",
    "fails_otherwise": "still wrong on the same inputs, but in other bytes",
    "passes": "it passes now, on the same inputs",
    "other_inputs": "nothing is said: the inputs' bytes are not those of then",
    "impossible": "it could not be done again",
}
WRONG_STYLE, RIGHT_STYLE, DOUBT_STYLE = "$verdict-slower", "$verdict-faster", "$verdict-undecided"


def case_sign(verdict: CaseVerdict, ascii: bool) -> str:
    """One character."""
    return _SIGNS[verdict][ascii]


def case_style(verdict: CaseVerdict) -> str:
    """A style for tui.themes.style_of."""
    if verdict.failing:
        return WRONG_STYLE
    return {CaseVerdict.RIGHT: RIGHT_STYLE, CaseVerdict.UNSUPPORTED: "dim"}.get(verdict, DOUBT_STYLE)


def error_word(verdict: CaseVerdict, max_error: float | None) -> str:
    """A case's worst error in units of what is allowed; the verdict itself where it has none."""
    if verdict in (CaseVerdict.RIGHT, CaseVerdict.WRONG) and max_error is not None:
        return plain.number(max_error, 3)
    return "n/a" if verdict is CaseVerdict.UNSUPPORTED else verdict.value


def case_line(case: CaseView, ascii: bool, *, with_rung: bool) -> str:
    """A case on a line: sign, worst error, strategy, rung, what it is, and what is wrong."""
    rung = f"{plain.fit(case.rung, 16):<16} " if with_rung else ""
    finding = f"  {case.finding}" if case.finding and case.verdict.failing else ""
    error = error_word(case.verdict, case.max_error)
    return f"{case_sign(case.verdict, ascii)} {error:>9}  {case.strategy:<11} {rung}{case.case}{finding}"


def verdict_word(rung: RungView, state: FuzzState, ascii: bool) -> tuple[str, str]:
    """What is said of a rung, with its sign, and its style; before the end only what is certain by then."""
    if rung.verdict is FuzzVerdict.UNDECIDED and state is not FuzzState.DONE and rung.total.cases:
        return f"{_FUZZ_SIGNS[rung.verdict][ascii]} stopped", DOUBT_STYLE
    if rung.verdict is not None:
        style = {FuzzVerdict.RIGHT: RIGHT_STYLE, FuzzVerdict.WRONG: WRONG_STYLE}.get(rung.verdict, DOUBT_STYLE)
        return f"{_FUZZ_SIGNS[rung.verdict][ascii]} {rung.verdict.value}", style
    if rung.gate_failing:
        return f"{_FUZZ_SIGNS[FuzzVerdict.WRONG][ascii]} wrong", WRONG_STYLE
    if rung.total.failing:
        return f"{_FUZZ_SIGNS[FuzzVerdict.DOUBTED][ascii]} doubted", DOUBT_STYLE
    return ("right so far", "") if rung.total.cases and not state.final else (plain.DASH, "")


def tally_word(tally: TallyView | None) -> str:
    """Failing of all: "3/40"; only all where none fails: "40"; a dash before the first."""
    if tally is None or not tally.cases:
        return plain.DASH
    return f"{tally.failing}/{tally.cases}" if tally.failing else str(tally.cases)


def progress_bar(done: int, asked: int, width: int, ascii: bool) -> str:
    """ "████░░░░": how much of it is judged; "" where nothing was asked for."""
    if asked <= 0 or width <= 0:
        return ""
    full = min(width, done * width // asked)
    return ("#" if ascii else "█") * full + ("." if ascii else "░") * (width - full)


def state_text(view: FuzzView, now_ns: int, ascii: bool, *, bar: int = 0) -> str:
    """How it stands, on a line: state, progress, counts, cases per second."""
    total, rate = view.total, view.rate(now_ns)
    dot = " | " if ascii else " · "
    head = view.state.value
    if view.state is FuzzState.PLANNED:
        head = f"waiting for {view.device or 'its device'}"
    elif view.state is FuzzState.DONE:
        head = f"done in {plain.duration(view.duration_ms / 1e3)}" if view.duration_ms is not None else "done"
    elif view.state.final and view.reason:
        head = f"{head}: {view.reason}"
    asked = view.asked_in_all
    cases = f"{plain.count(total.cases)} of {plain.count(asked)} cases" if asked else f"{total.cases} cases"
    drawn = progress_bar(total.cases, asked, bar, ascii) if not view.state.final else ""
    parts = [head, f"{drawn} {cases}".lstrip(), f"{total.failing} failing"]
    if total.unsupported:
        parts.append(f"{total.unsupported} unsupported")
    if rate is not None:
        parts.append(f"{plain.number(rate, 3)} cases/s")
    if view.gaps and not view.state.final:
        parts.append("events missed")
    return dot.join(parts)


def title_text(view: FuzzView, ascii: bool) -> str:
    """Target, rungs, device and seed."""
    rungs = list(view.rungs)
    said = rungs[0] if len(rungs) == 1 else f"{len(rungs)} rungs" if rungs else ""
    seed = f"seed {view.seed}" if view.seed is not None else ""
    when = plain.local_time(view.wall) if view.wall else ""
    return (" | " if ascii else " · ").join(part for part in (said, view.device, seed, when) if part)


def histogram_lines(histogram: Sequence[int], bins: Sequence[float], width: int, ascii: bool) -> list[tuple[str, str]]:
    """A line per bin with its count and a bar, and the line's style.

    Bars are by the logarithm of the count: one wrong element among a million is seen.

    Args:
        histogram: elements by error, as many as there are bins.
        bins: lower ends in units of what is allowed; the last is of what is not finite.
        width: cells of a line.
    """
    if len(histogram) != len(bins) or not sum(histogram):
        return []
    sign, most = "#" if ascii else "█", math.log1p(max(histogram))
    room = max(4, width - 30)
    lines = []
    for at, (low, count) in enumerate(zip(bins, histogram, strict=True)):
        if math.isinf(low):
            label = "not finite"
        elif at + 1 < len(bins) and not math.isinf(bins[at + 1]):
            label = f"{low:g} to {bins[at + 1]:g}"
        else:
            label = f"above {low:g}"
        bar = sign * max(1, round(room * math.log1p(count) / most)) if count else ""
        mark = _SIGNS[CaseVerdict.WRONG][ascii] if low >= 1.0 else " "
        style = "dim" if not count else WRONG_STYLE if low >= 1.0 else ""
        lines.append((f"{mark} {label:<14} {plain.count(count):>10}  {bar}".rstrip(), style))
    return lines


def statistics_lines(statistics: Mapping[str, float]) -> list[str]:
    """The errors of the wrong elements, absolute and in ULP; empty where there are none."""
    keys = ("max", "mean", "p50", "p90", "p99")
    rows = [
        [name, *(plain.number(statistics.get(f"{prefix}{key}"), 3) for key in keys)]
        for name, prefix in (("absolute", ""), ("ULP", "ulp_"))
        if any(f"{prefix}{key}" in statistics for key in keys)
    ]
    return plain.table(["", *keys], rows, right=keys) if rows else []


def failure_lines(
    failure: FailureView, bins: Sequence[float], width: int, ascii: bool, replay: str = ""
) -> list[tuple[str, str]]:
    """All about a failure, each line with its style: cases, detail, picture, statistics, histogram, script.

    Args:
        bins: of the histogram; () while they are not known.
        width: cells of a line.
        replay: what became of doing it again; "" where nobody asked.
    """
    from aisp.tui.readings import wrapped  # it imports the model, which imports this module

    def text(*lines: str, style: str = "") -> list[tuple[str, str]]:
        return [(line, style) for line in wrapped(lines, width, labelled=True)]

    sign = case_sign(failure.verdict, ascii)
    what = " ".join(part for part in (failure.finding, f"in {failure.output}" if failure.output else "") if part)
    head = f"{sign} {failure.verdict.value}: {failure.rung}" + (f", {what}" if what else "")
    out = text(head, style=f"bold {WRONG_STYLE}")
    stage = "a gate: it is a fault" if failure.stage == "gate" else "triage: look at it before you believe it"
    out += text(f"  strategy {failure.strategy}, {stage}")
    if replay:
        out += text(f"  replay   {replay}", style="bold")
    out.append(("", ""))
    out += text(f"  smallest {failure.case or plain.DASH}", style="bold")
    out += text(f"  drawn    {failure.drawn or 'the same'}")
    if not failure.shrunk:
        out += text("  tried    nothing smaller: of each rung, only the smallest failure is shrunk")
    elif failure.tried:
        out += text(f"  tried    {plain.count(failure.tried)} smaller cases")
    if failure.detail:
        out += [("", ""), *text(*failure.detail.splitlines())]
    count, wrong = failure.statistics.get("count"), failure.statistics.get("wrong")
    if failure.region:
        across, down = ("->", "v") if ascii else ("→", "↓")
        out += [("", ""), *text("Where it is wrong", style="bold underline")]
        axes = f"{across} last axis, {down} the others; . right, 1-9 tenths of a cell wrong, # all of it"
        out += text(axes, style="dim")
        out += [(row, WRONG_STYLE) for row in failure.region[:PICTURE_ROWS]]
        if len(failure.region) > PICTURE_ROWS:
            out += text(f"and {len(failure.region) - PICTURE_ROWS} more rows", style="dim")
    table = statistics_lines(failure.statistics)
    if table:
        of = f": {plain.count(int(wrong))} of {plain.count(int(count))}" if count and wrong is not None else ""
        out += [("", ""), *text(f"Errors of the wrong elements{of}", style="bold underline")]
        out += [(line, "") for line in table]
    bars = histogram_lines(failure.histogram, bins, width, ascii)
    if bars:
        out += [("", ""), *text("Elements by error, in units of what is allowed", style="bold underline"), *bars]
    if failure.versions:
        out += [("", ""), *text("found with " + ", ".join(failure.versions), style="dim")]
    if failure.script:
        out += [("", ""), *text("Script: y copies it, s shows it whole", style="bold underline")]
        out += [(line, "") for line in failure.script.splitlines()]
    return out


def replay_text(replay: ReplayView, ascii: bool) -> str:
    """What became of a failure that was done again, in a sentence."""
    words = REPLAY_WORDS.get(replay.outcome, replay.outcome)
    more = [*replay.differs, *([replay.detail] if replay.detail else [])]
    return words + (f" ({'; '.join(more)})" if more else "")


def summary_lines(view: FuzzView, ascii: bool, width: int) -> list[tuple[str, str]]:
    """What is said of each rung, and the notes: for a fuzz of which no case failed, and for copying."""
    from aisp.tui.readings import wrapped  # as above

    lines: list[tuple[str, str]] = []
    for rung in view.rungs.values():
        word, style = verdict_word(rung, view.state, ascii)
        total = rung.total
        lines.append((f"{word}: {rung.name}", f"bold {style}".strip()))
        worst = f", worst error of a right case {plain.number(rung.worst, 3)} of what is allowed" if rung.worst else ""
        facts = [f"  {total.failing} of {total.cases} cases fail, {total.unsupported} unsupported{worst}"]
        if rung.careless is not None:
            facts.append(f"  a careless oracle {'accepts' if rung.careless else 'refuses'} it")
        if rung.reason:
            facts.append(f"  {rung.reason}")
        lines += [(line, "") for line in wrapped(facts, width)]
    told = [view.reason] if view.reason else []
    lines += [(line, "") for line in wrapped([*told, *view.notes], width)]
    return lines


# -- plain data -----------------------------------------------------------------------------------------------------


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _word(value: object) -> str:
    return clean_line(str(value), limit=200) if value is not None else ""


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
