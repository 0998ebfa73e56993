"""What the app knows of a fuzz, live or stored, and how it is told in words: no screen and no numpy.

A live fuzz and a stored one look the same. Taking a case costs a constant, and memory is bounded however long a fuzz
is: the newest `MAX_CASES` cases, the first `MAX_FAILURES` failures, and exact counts.

Errors of cases are in units of what is allowed: above 1 is wrong. Statistics of a failure are absolute, or in ULP of
the output's dtype.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisp.engine.protocol import events
from aisp.store.outcomes import CaseVerdict, FuzzVerdict
from aisp.store.record import ERROR_BINS, Failure, Fuzz
from aisp.store.results.fuzz import REPLAY_WORDS, FuzzReading, FuzzState, RungReading, case_text
from aisp.store.results.progress import Progress, counted_progress
from aisp.store.text import clean_line
from aisp.tui import plain, progress

if TYPE_CHECKING:
    from aisp.store import History

MAX_CASES = 2000
MAX_FAILURES = 500
RATE_STEP_NS = 250_000_000
RATE_MARKS = 40  # 10 s
PICTURE_ROWS = 24
STORED_FUZZES = 50


@dataclass(slots=True)
class FuzzView(FuzzReading):
    """A fuzz with what is drawn of it as it goes on.

    Attributes:
        cases: the newest.
        case_count: cases that ever came, so that a pane can fetch the new ones only.
        marks: time in ns and case_count.
        stored: from the store, which keeps no single cases.
    """

    cases: deque[events.FuzzCase] = field(default_factory=lambda: deque(maxlen=MAX_CASES))
    case_count: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    stored: bool = False
    marks: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=RATE_MARKS))

    def take_plan(self, event: events.FuzzPlanned) -> None:
        """What was asked for."""
        self.what, self.target, self.device, self.seed = event.what, event.target, event.device, event.seed
        self.asked, self.wall, self.strategies = event.cases, event.wall, list(event.strategies)
        for name in event.rungs:
            self.rung(name)

    def take_case(self, event: events.FuzzCase, now_ns: int) -> None:
        if not self.state.final:
            self.state = FuzzState.RUNNING
        if event.strategy not in self.strategies:
            self.strategies.append(event.strategy)
        self.rung(event.rung).take(event.strategy, event.stage, event.verdict, event.max_error)
        self.cases.append(event)
        self.case_count += 1
        if self.marks and now_ns - self.marks[-1][0] < RATE_STEP_NS:
            # What arrives at once, as after a reconnect, is one mark: it must not look like speed.
            self.marks[-1] = (self.marks[-1][0], self.case_count)
        else:
            self.marks.append((now_ns, self.case_count))

    def take_failure(self, failure: Failure, *, shrunk: bool) -> None:
        if failure.id in self.failures or len(self.failures) < MAX_FAILURES:
            self.failures[failure.id] = failure
            (self.drawn.discard if shrunk else self.drawn.add)(failure.id)

    def rate(self, now_ns: int) -> float | None:
        """Cases per second: over the last seconds while it goes on, over all of it after its end; None unknown."""
        if self.state.final:
            return self.total.cases / self.took_s if self.took_s else None
        if not self.marks:
            return None
        then_ns, then = self.marks[0]
        if self.case_count == then or now_ns <= then_ns:
            return None
        return (self.case_count - then) / ((now_ns - then_ns) / 1e9)

    def progress(self, now_ns: int) -> Progress:
        """How far it is: over all rungs, by the cases of the last seconds."""
        return counted_progress(self.total.cases, self.asked_in_all, None, self.rate(now_ns))

    def lose(self) -> None:
        """The engine ended while this was under way."""
        self.state, self.reason = FuzzState.LOST, "the engine ended while this was under way; r fuzzes again"


def stored_fuzz(record: Fuzz, failures: Iterable[Failure] = ()) -> FuzzView:
    view = FuzzView(record.id, stored=True)
    view.ended(record)
    for failure in failures:
        view.take_failure(failure, shrunk=True)
    return view


def read_fuzzes(history: History, target: str) -> list[FuzzView]:
    """Stored fuzzes of a target, newest first, without their failures."""
    return [stored_fuzz(record) for record in history.fuzzes(target, STORED_FUZZES)]


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
WRONG_STYLE, RIGHT_STYLE, DOUBT_STYLE = "$verdict-slower", "$verdict-faster", "$verdict-undecided"


def case_sign(verdict: CaseVerdict, ascii: bool) -> str:
    return _SIGNS[verdict][ascii]


def case_style(verdict: CaseVerdict) -> str:
    if verdict.failing:
        return WRONG_STYLE
    return {CaseVerdict.RIGHT: RIGHT_STYLE, CaseVerdict.UNSUPPORTED: "dim"}.get(verdict, DOUBT_STYLE)


def error_word(verdict: CaseVerdict, max_error: float | None) -> str:
    """A case's worst error in units of what is allowed; the verdict itself where it has none."""
    if verdict.compared and max_error is not None:
        return plain.number(max_error, 3)
    return {CaseVerdict.UNSUPPORTED: "n/a"}.get(verdict, verdict.value)


def case_line(case: events.FuzzCase, ascii: bool, *, with_rung: bool) -> str:
    rung = f"{plain.fit(case.rung, 16):<16} " if with_rung else ""
    finding = f"  {case.finding}" if case.finding and case.verdict.failing else ""
    error = error_word(case.verdict, case.max_error)
    return f"{case_sign(case.verdict, ascii)} {error:>9}  {case.strategy:<11} {rung}{case.case}{finding}"


def verdict_word(rung: RungReading, state: FuzzState, ascii: bool, asked: int = 0) -> tuple[str, str]:
    """What is said of a rung of which so many cases were asked for, with its sign, and its style."""
    verdict, cases = rung.certain, rung.total.cases
    if verdict is None:
        return ("right so far", "") if cases and not state.final else (plain.DASH, "")
    style = {FuzzVerdict.RIGHT: RIGHT_STYLE, FuzzVerdict.WRONG: WRONG_STYLE}.get(verdict, DOUBT_STYLE)
    stopped = f"stopped after {plain.count(cases)} of {plain.count(asked)}" if asked else "stopped"
    return f"{_FUZZ_SIGNS[verdict][ascii]} {stopped if rung.stopped(state) else verdict.value}", style


def state_text(view: FuzzView, now_ns: int, ascii: bool, *, bar: int = 0) -> str:
    total, rate = view.total, view.rate(now_ns)
    dot = " | " if ascii else " · "
    head = view.state.value
    if view.state is FuzzState.PLANNED:
        head = f"waiting for {view.device or 'its device'}"
    elif view.state is FuzzState.DONE:
        head = f"done in {plain.duration(view.took_s)}" if view.took_s is not None else "done"
    elif view.state.final and view.reason:
        head = f"{head}: {view.reason}"
    asked = view.asked_in_all
    cases = f"{plain.count(total.cases)} of {plain.count(asked)} cases" if asked else f"{total.cases} cases"
    told = Progress() if view.state.final else view.progress(now_ns)
    parts = [head, f"{progress.bar(told.share, bar, ascii)} {cases}".lstrip(), f"{total.failing} failing"]
    if left := progress.time_words(told):
        parts.insert(2, left)
    if total.unsupported:
        parts.append(f"{total.unsupported} unsupported")
    if rate is not None:
        parts.append(f"{plain.number(rate, 3)} cases/s")
    if view.gaps and not view.state.final:
        parts.append("events missed")
    return dot.join(parts)


def title_text(view: FuzzView, ascii: bool) -> str:
    rungs = list(view.rungs)
    said = rungs[0] if len(rungs) == 1 else f"{len(rungs)} rungs" if rungs else ""
    seed = f"seed {view.seed}" if view.seed is not None else ""
    when = plain.local_time(view.wall) if view.wall else ""
    return (" | " if ascii else " · ").join(part for part in (said, view.device, seed, when) if part)


def histogram_lines(histogram: Sequence[int], width: int, ascii: bool) -> list[tuple[str, str]]:
    """A line per bin with its count and a bar, and the line's style.

    Bars are by the logarithm of the count: one wrong element among a million is seen.

    Args:
        histogram: elements by error: ERROR_BINS.
        width: cells of a line.
    """
    if not sum(histogram):
        return []
    bins = ERROR_BINS
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
    failure: Failure, width: int, ascii: bool, replay: str = "", *, drawn: bool = False
) -> list[tuple[str, str]]:
    """All about a failure, each line with its style: cases, detail, picture, statistics, histogram, script.

    Args:
        width: cells of a line.
        replay: what became of doing it again; "" where nobody asked.
        drawn: whether no smaller case was tried.
    """

    def text(*lines: str, style: str = "") -> list[tuple[str, str]]:
        return [(line, style) for line in plain.wrapped(lines, width, labelled=True)]

    sign = case_sign(failure.verdict, ascii)
    what = " ".join(part for part in (failure.finding, f"in {failure.output}" if failure.output else "") if part)
    head = f"{sign} {failure.verdict.value}: {failure.rung}" + (f", {what}" if what else "")
    out = text(head, style=f"bold {WRONG_STYLE}")
    stage = "a gate: it is a fault" if failure.stage == "gate" else "triage: look at it before you believe it"
    out += text(f"  strategy {failure.strategy}, {stage}")
    if replay:
        out += text(f"  replay   {replay}", style="bold")
    out.append(("", ""))
    case, first = case_text(failure.case), case_text(failure.drawn)
    out += text(f"  smallest {case or plain.DASH}", style="bold")
    out += text(f"  drawn    {first if first and first != case else 'the same'}")
    if drawn:
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
    bars = histogram_lines(failure.histogram, width, ascii)
    if bars:
        out += [("", ""), *text("Elements by error, in units of what is allowed", style="bold underline"), *bars]
    if failure.versions:
        found = ", ".join(clean_line(f"{name} {version}") for name, version in failure.versions.items())
        out += [("", ""), *text(f"found with {found}", style="dim")]
    if failure.script:
        out += [("", ""), *text("Script: y copies it, s shows it whole", style="bold underline")]
        out += [(line, "") for line in failure.script.splitlines()]
    return out


def replay_text(replay: events.ReplayFinished) -> str:
    words = REPLAY_WORDS.get(replay.outcome, replay.outcome)
    more = [*replay.differs, *([replay.detail] if replay.detail else [])]
    return words + (f" ({'; '.join(more)})" if more else "")


def summary_lines(view: FuzzView, ascii: bool, width: int) -> list[tuple[str, str]]:
    """What is said of each rung, and the notes: for a fuzz of which no case failed, and for copying."""
    lines: list[tuple[str, str]] = []
    for rung in view.rungs.values():
        word, style = verdict_word(rung, view.state, ascii, view.asked)
        total = rung.total
        lines.append((f"{word}: {rung.name}", f"bold {style}".strip()))
        worst = f", worst error of a right case {plain.number(rung.worst, 3)} of what is allowed" if rung.worst else ""
        facts = [f"  {total.failing} of {total.cases} cases fail, {total.unsupported} unsupported{worst}"]
        if rung.naive is not None:
            facts.append(f"  a naive harness {'accepts' if rung.naive else 'refuses'} it")
        if rung.record is not None and rung.record.reason:
            facts.append(f"  {rung.record.reason}")
        lines += [(line, "") for line in plain.wrapped(facts, width)]
    told = [view.reason] if view.reason else []
    lines += [(line, "") for line in plain.wrapped([*told, *view.notes], width)]
    return lines
