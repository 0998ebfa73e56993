"""Following runs: the engine's events gathered into one `Followed` per run, and the tables and JSON of a run.

Plain Python over the record and `engine.protocol.events`; no terminal, no clock, no numpy, so it can be tested event by
event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisp.engine import following
from aisp.engine.protocol import events
from aisp.store.outcomes import Fault, FindingStatus, Limiter, State
from aisp.store.record import Arm, Comparison, Naive, RooflineBound, unplanned
from aisp.store.results import busy, outcome
from aisp.store.results.comparison import clocks_differ
from aisp.store.results.hardware import confined
from aisp.store.results.outside import judged
from aisp.store.results.prediction import PORTABLE
from aisp.store.results.reading import Reading, of_quarantine
from aisp.store.results.speed_of_light import at_fast_host_ms
from aisp.store.results.tables import at, printed
from aisp.store.results.telling import by_own_rule, by_ranks
from aisp.store.results.trust import TOLD_FIRST, by_check, counts
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.progress import bar, doing, words
from aisp.tui.results import end_words, quality_notes, state_words, timing_words, with_reason

if TYPE_CHECKING:
    from aisp.engine.client import Connection

KEPT_OUTPUT_LINES = 10
BAR_CELLS = 10


def failed(arm: Arm) -> bool:
    """Whether this arm ended in another way than well or not applicable."""
    return arm.state.final and not arm.state.spares_the_run


@dataclass(slots=True)
class Followed(Reading):
    """A run as far as the stream has told it.

    Attributes:
        seen: samples that came, by rung.
        last: rung and time per call in ms of the newest sample.
        output: the newest lines that each rung printed.
    """

    seen: dict[str, int] = field(default_factory=dict)
    last: tuple[str, float] | None = None
    output: dict[str, deque[str]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether its end was told."""
        return self.record.state.final

    def take(self, event: events.Event) -> None:
        """One more event of it."""
        if isinstance(event, events.SampleBatch):
            self.seen[event.arm] = self.seen.get(event.arm, 0) + len(event.device_ms)
            if event.device_ms:
                self.last = (event.arm, event.device_ms[-1])
        elif isinstance(event, events.Output):
            self.output.setdefault(event.arm, deque(maxlen=KEPT_OUTPUT_LINES)).extend(event.lines)
        self.record = following.after(self.record, event)
        following.pace(self.pace, event)


class Follower:
    """Gathers the events of the runs in `wanted`; all runs where it is None."""

    def __init__(self, wanted: Iterable[str] | None = None) -> None:
        self.wanted = None if wanted is None else list(wanted)
        self.runs: dict[str, Followed] = {run_id: Followed(unplanned(run_id)) for run_id in self.wanted or ()}
        self.telemetry: events.TelemetryBatch | None = None
        self.gap = False  # events were lost: what they said must be asked for

    @property
    def done(self) -> bool:
        """Whether every wanted run has ended."""
        return all(run.finished for run in self.runs.values())

    def follow(self, run_id: str) -> Followed:
        """Gather the events of one more run; the run."""
        if self.wanted is not None and run_id not in self.wanted:
            self.wanted.append(run_id)
        return self.runs.setdefault(run_id, Followed(unplanned(run_id)))

    def apply(self, event: events.Event) -> Followed | None:
        """Take one event in; the run it belongs to, if it is one of ours."""
        if isinstance(event, events.TelemetryBatch):
            self.telemetry = event
        elif isinstance(event, events.Gap):
            self.gap = True
        run_id = getattr(event, "run_id", "")
        if not run_id or isinstance(event, events.WatchEdit):
            return None
        run = self.runs.get(run_id)
        if run is None:
            if self.wanted is not None:
                return None
            run = self.runs[run_id] = Followed(unplanned(run_id))
        run.take(event)
        return run

    async def catch_up(self, engine: Connection) -> list[Followed]:
        """Runs whose end was lost in a gap, as the store has them: the engine has them no longer in its queue."""
        if not self.gap:
            return []
        self.gap = False
        queued = {item.run_id for item in (await engine.status()).queue}
        ended = []
        for run in self.runs.values():
            if not run.finished and run.id not in queued:
                from aisp.tui.cli.stored import finished_view  # the store and numpy: only after a gap

                if (kept := finished_view(run.id)) is not None:
                    run.record, run.quarantined = kept.record, kept.quarantined
                    ended.append(run)
        return ended


def summary(run: Reading) -> str:
    """One line about a finished run: verdict with numbers, or how it ended and why."""
    end, ended = run.record, outcome.of_run(run)
    if not end.state.final:
        return f"{ended.word} {doing(run)}".rstrip()
    refused = ended.outcome in (outcome.Outcome.CAUGHT, outcome.Outcome.WRONG)
    if end.state is not State.OK and ended.outcome is not outcome.Outcome.CAUGHT:
        return end_words(end)
    if ended.silent:
        return f"{with_reason(ended.word, clean_line(run.not_here) or end.reason)}; the baseline is right"
    marked = clean_line("; ".join(bar.sentence for bar in run.bars), limit=1000)
    best, text = run.best, "right, not timed"
    if run.best_ms is not None:
        text = f"right, {plain.milliseconds(run.best_ms)} ms"
    if best is not None:
        verdict = ended.word if ended.outcome.compared else "not a verdict:"
        text = f"{verdict} {plain.speedup(best.speedup, best.low, best.high)} by {best.rung}"
    if refused:
        marked = marked or with_reason(ended.word, end.reason)
        return marked if best is None else f"{marked}; {text}"
    if ended.outcome is outcome.Outcome.SUSPECT:
        text = f"{ended.word}, {text}: {end.reason or clean_line(_doubts(run)) or 'the times are not to be believed'}"
    return f"{text}; {marked}" if marked else text


def _doubts(run: Reading) -> str:
    doubts = [f"{f.check}: {f.evidence}" for f in run.found(FindingStatus.SUSPECT)]
    doubts += [f"without {', '.join(run.record.without)}"] if run.record.without else []
    return "; ".join(doubts)


def progress_line(run: Followed, follower: Follower, number: int, total: int, elapsed_s: float, *, now_ns: int) -> str:
    """The live line: which run of how many, how far it is, its step, samples, the last time, the GPU's clock and
    temperature.

    Args:
        elapsed_s: since all of it began.
        now_ns: CLOCK_MONOTONIC.
    """
    told = run.progress(now_ns)
    drawn = bar(told.share, BAR_CELLS, True)
    parts = [f"[{number}/{total}] {run.record.target or run.id}", f"[{drawn}]" if drawn else "", words(told, ", ")]
    parts.append(doing(run) or run.record.state)
    seen = sum(run.seen.values())
    if seen:
        parts.append(f"{plain.count(seen)} samples")
    if run.last is not None:
        parts.append(f"{run.last[0]} {plain.number(run.last[1])} ms")
    gpu = follower.telemetry
    if gpu is not None and gpu.sm_clock_mhz and run.record.device.startswith("cuda"):
        clock, warm = gpu.sm_clock_mhz[-1], gpu.temperature_c[-1] if gpu.temperature_c else float("nan")
        if plain.known(clock):
            parts.append(f"SM {clock:.0f} MHz")
        if plain.known(warm):
            parts.append(f"{warm:.0f} C")
    parts.append(plain.duration(elapsed_s))
    return "  ".join(part for part in parts if part)


def _ratio(found: Comparison | None) -> str | None:
    return None if found is None else plain.speedup(found.speedup, found.low, found.high)


def _outcome(one: tuple[Reading, Arm]) -> str | None:
    run, arm = one
    ended = outcome.of(run, arm.rung)
    return None if arm.rung == run.baseline and ended.outcome is outcome.Outcome.RIGHT else ended.word


def _score(light: RooflineBound | None) -> str | None:
    return None if light is None or light.score is None else f"{light.score:.2f}"


RUNGS = (
    printed("rung", lambda one: one[1].rung, shrink=True),
    printed("ms [low..high]", lambda one: plain.milliseconds(one[1].median_ms, one[1].low_ms, one[1].high_ms)),
    printed("n", lambda one: plain.count(one[1].sample_count), right=True, drop=3),
    printed("timing", lambda one: timing_words(one[1].timing, one[1].calls)),
    printed("speed-up [low..high]", lambda one: _ratio(one[0].comparison(one[1].rung))),
    printed("verdict", _outcome),
    printed("SOL", lambda one: plain.percent(one[1].sol), right=True, drop=2),
    printed("correct", lambda one: one[1].correctness if one[1].correctness.known else None, drop=1),
)
_LIGHT = (
    printed("rung", at("rung"), shrink=True),
    printed("timing", lambda arm: timing_words(arm.timing, arm.calls)),
    printed("SM MHz", lambda arm: plain.megahertz(arm.sm_clock_mhz), right=True),
    printed("limit", at("light.limiter")),
    printed("spec ms", lambda arm: plain.number(at("light.spec_ms")(arm)), right=True, drop=2),
    printed("clock ms", lambda arm: plain.number(at("light.clock_ms")(arm)), right=True, drop=1),
    printed("measured ms", lambda arm: plain.number(at("light.measured_ms")(arm)), right=True),
    printed("score", lambda arm: _score(arm.light), right=True, drop=3),
)
_NAIVE = (
    printed("rung", lambda one: one[0], shrink=True),
    printed("a naive harness says", lambda one: plain.speedup(one[1].speedup)),
    printed("outputs accepted", lambda one: {True: "yes", False: "no", None: None}[one[1].accepts]),
)
_RANKS = (
    printed("rung", lambda one: one[0], shrink=True),
    printed("rank", lambda one: one[1], right=True),
    printed("own ms", lambda one: plain.number(one[2].median_ms, 4), right=True),
    printed("slowest in", lambda one: plain.percent(one[2].slowest_share), right=True),
    printed("us late", lambda one: plain.number(one[2].late_us, 2), right=True, drop=2),
    printed("SM MHz", lambda one: plain.megahertz(one[2].sm_clock_mhz), right=True, drop=1),
)


def result_lines(
    run: Reading, environment: Mapping[str, object] | None = None, *, width: int | None = None
) -> list[str]:
    """The table of a run for people, with reasons and cut tracebacks of the arms that failed.

    Args:
        environment: the record of what the run ran on, where it is at hand.
    """
    record = run.record
    head = f"{record.target or run.id}  {record.title}".rstrip()
    facts = [record.device or plain.DASH, f"case {record.case}" if record.case else "", "quick" if record.quick else ""]
    lines = [head, "  ".join(f for f in [*facts, f"run {run.id}"] if f)]
    shown = [arm for arm in record.arms if not arm.twin]
    light = light_lines(shown, width=width)
    if shown:
        # The light's table says the timing too, and leaves this one room.
        columns = [column for column in RUNGS if not light or column.key != "timing"]
        lines += ["", *plain.listing(columns, [(run, arm) for arm in shown], width=width, tabs=False)]
    for table in (light, rank_table(shown, width=width), naive_lines(run, shown, width=width)):
        lines += ["", *table] if table else []
    output = run.output if isinstance(run, Followed) else {}
    for arm in record.arms:
        if not (arm.reason or arm.detail):
            continue
        if record.state.final and arm.reason == record.reason and not arm.detail:
            continue  # what ended the whole run, a cancel for example, stands below once
        lines += ["", f"{arm.rung}: {state_words(arm.state)}" + (f": {arm.reason}" if arm.reason else "")]
        if arm.detail and arm.detail not in arm.reason:
            lines.append(plain.indent(arm.detail))
        if failed(arm) and output.get(arm.rung):
            lines += ["  last lines that it printed:", *(plain.indent(text, 4) for text in output[arm.rung])]
    trust = [*rule_lines(run), *trust_lines(run)]
    if trust and (held := confined(environment or {})):
        trust.append(held)
    for part in (_notes(run), trust):
        lines += ["", *part] if part else []
    lines += ["", f"=> {summary(run)}"]
    if record.state.final:
        floors = [c.floor for c in run.comparisons if c.floor is not None]
        tail = [
            f"noise floor {plain.percent(max(floors), 2)}" if floors else "",
            f"times {record.validity}",
            "portable" if record.policy == PORTABLE else "",
            plain.duration(None if record.duration_ms is None else record.duration_ms / 1e3),
            *record.flags,
        ]
        lines.append("   " + ", ".join(part for part in tail if part))
    return lines


def light_lines(arms: Sequence[Arm], *, width: int | None = None) -> list[str]:
    """The table of arms against the speed of light: how they were timed, the SM clock during their samples, what
    limits them, the least time by the datasheet, at that clock and by the measured ceilings, and the score; below it
    what the host's launches cost and what is carried over a link. Empty where none of this is known, as on a CPU."""
    if not any(arm.light or arm.sm_clock_mhz is not None for arm in arms):
        return []
    table = plain.listing(_LIGHT, arms, width=width, tabs=False)
    table += [
        f"{arm.rung}: {plain.host_sentence(arm.light.launch_eager_ms, at_fast_host_ms(arm.median_ms, arm.light))}"
        for arm in arms
        if arm.light and arm.light.limiter == Limiter.HOST
    ]
    linked = [(arm.rung, arm.light.link) for arm in arms if arm.light and arm.light.link]
    return table + [f"{rung}: {plain.link_sentence(link)}" for rung, link in linked]


def rank_table(arms: Sequence[Arm], *, width: int | None = None) -> list[str]:
    """The table of what each rank did, and what that comes to for each rung. Empty where a rung is one process."""
    rows = [(arm.rung, str(number), rank) for arm in arms if arm.ranks for number, rank in enumerate(arm.ranks.each)]
    if not rows:
        return []
    table = plain.listing(_RANKS, rows, width=width, tabs=False)
    return [*table, *(f"{arm.rung}: {by_ranks(arm)}" for arm in arms if arm.ranks is not None)]


def naive_lines(run: Reading, arms: Sequence[Arm], *, width: int | None = None) -> list[str]:
    """The table of what a naive harness says of each rung, beside what is said here. Empty where it was not
    asked."""
    asked = [(arm.rung, arm.naive) for arm in arms if arm.naive is not None and arm.rung != run.baseline]
    if not asked:
        return []

    def ours(one: tuple[str, Naive]) -> str | None:
        against, mark = run.comparison(one[0]), run.bar(one[0])
        if mark or against is None:
            return mark.word if mark else None
        return plain.speedup(against.speedup, against.low, against.high, verdict=against.verdict)

    notes = [f"{rung}: no naive time: {naive.note}" for rung, naive in asked if naive.note]
    return [*plain.listing([*_NAIVE, printed("we say", ours)], asked, width=width, tabs=False), *notes]


def rule_lines(run: Reading) -> list[str]:
    """What the problem's own rule says of each rung; empty where it has none."""
    return [f"{arm.rung}: {said}" for arm in run.record.arms if not arm.twin and (said := by_own_rule(arm))]


def trust_lines(run: Reading) -> list[str]:
    """Whether the machine was busy, and what checks found in a run: every CAUGHT and SUSPECT with its evidence, marks
    from earlier runs, and how many passed, had nothing to ask, or have no answer."""
    met = busy.of_run(run.record)
    lines = [busy.sentence(met)] if met is not None else []
    findings = run.record.findings
    for status in TOLD_FIRST:
        lines += [f"{f.arm or 'the run'}: {status.value} by {f.check}: {f.evidence}" for f in run.found(status)]
    lines += [of_quarantine(held).sentence for held in run.quarantined.values()]
    if run.record.without:
        lines.append(f"left out on request, so without a verdict: {', '.join(run.record.without)}")
    if findings:
        counted = counts(by_check(findings).values())
        told = [f"{number} {status.replace('_', ' ')}" for status, number in counted.items() if number]
        lines.append(f"checks: {', '.join(told)}")
    return [clean_line(line, limit=2000) for line in lines]


def _notes(run: Reading) -> list[str]:
    """Sentences about rungs: why there is no verdict, that the clocks differed, what their samples say of themselves.
    Rungs of which the same is to be told share a line."""
    notes: dict[str, list[str]] = {}

    def add(note: str, rung: str) -> None:
        notes.setdefault(note, []).append(rung)

    for arm in run.record.arms:
        if arm.state.final and arm.state is not State.OK:
            continue  # its own reason was told above
        against = run.comparison(arm.rung)
        if against is not None:
            base = run.arm(against.baseline)
            differ = clocks_differ(arm.sm_clock_mhz, base.sm_clock_mhz if base else None)
            if against.note and run.barred(against) is None:  # else it is told below, with its check
                add(against.note, arm.rung)
            if differ and against.cycles is not None:
                cycles = plain.speedup(against.cycles, against.cycles_low, against.cycles_high)
                add(f"in SM cycles, which clocks cannot move, {cycles}", arm.rung)
        if where := judged(arm):
            add(where, arm.rung)
        for note in quality_notes(arm.quality, arm.median_ms, arm.calls):
            add(note, arm.rung)
    return [f"{', '.join(rungs)}: {note}" for note, rungs in notes.items()]


def exit_status(runs: Iterable[Reading], *, required: Iterable[str] | None = None, refused: Iterable[str] = ()) -> int:
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
        fault = run.record.state.fault
        if outcome.of_run(run).outcome.bad or (run.bars and not run.record.state.void):
            return 1
        if fault is Fault.MACHINE:
            not_here = not_here or must is None or run.record.target in must
        elif fault is Fault.NOBODY and run.record.state.final:
            done = True
        else:
            lost = True
    return 3 if lost or not_here or (runs and not done) else 0
