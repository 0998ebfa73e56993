"""What the live screens say: sentences, table rows and plot series from the model's views.

Unknown is a dash. Texts come from the model, which cleaned them; they are put into `Text`, never parsed as
markup.
"""

from __future__ import annotations

import math
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.text import Text

from engine.protocol import events
from store.outcomes import Correctness, State, Timing, Validity, Verdict
from tui import plain
from tui.model import (
    AA_ARM,
    BASELINE,
    SLOWING_BITS,
    THROTTLE_WORDS,
    ArmView,
    ComparisonView,
    EditView,
    Model,
    RunView,
    WatchView,
    thin,
    throttle_words,
)
from tui.results import STATE_WORDS
from tui.themes import speedup_text, verdict_text
from tui.widgets.plot import Series
from tui.widgets.table import Cell, Column

DISCARDED_WORDS = {1: "clock too low", 2: "host time leaked in"}
CORRECT_WORDS = {Correctness.CORRECT: "yes", Correctness.WRONG: "NO", Correctness.UNKNOWN: plain.DASH}


@dataclass(frozen=True, slots=True)
class Metric:
    """A GPU reading that the right axis can show."""

    key: str  # attribute of TelemetryLog
    name: str
    unit: str


METRICS = (
    Metric("sm_clock_mhz", "SM clock", "MHz"),
    Metric("memory_clock_mhz", "memory clock", "MHz"),
    Metric("temperature_c", "temperature", "C"),
    Metric("power_w", "power", "W"),
)


# -- a run's head ---------------------------------------------------------------------------------------


def title_text(run: RunView, now_ns: int, *, paused: bool = False) -> Text:
    """Target, mode, device, state and how long: the first row."""
    text = Text(run.target or "run", style="bold")
    mode = "quick: one replica" if run.quick else "full run"
    device = f"{run.device}, case {run.case}" if run.case and run.case != "default" else run.device
    parts = [mode, device or plain.DASH]
    if paused:
        parts.append("drawing paused: p goes on")
    parts.append(STATE_WORDS.get(run.state, run.state.value))
    parts.append(plain.duration(run.elapsed_s(now_ns)))
    step = run.running_step
    if step is not None and not run.state.final:
        parts.append(f"{step.name} {step.arm}".strip())
    if run.stored:
        parts.append(f"stored {plain.local_time(run.wall)}")
    text.append("  " + " \u00b7 ".join(parts))
    return text


def _interval(item: ComparisonView) -> str:
    if item.low is None or item.high is None:
        return ""
    low, high = (speedup_text(value, True).removesuffix("x") for value in (item.low, item.high))
    return f" [{low}..{high}]"


def comparison_text(item: ComparisonView, ascii: bool) -> Text:
    """A comparison in a sentence: "optimized \u25b2 2.31\u00d7 faster [2.28..2.35], floor 0.5 %"."""
    text = Text(f"{item.rung} ", style="bold")
    if item.verdict is Verdict.NONE:
        text.append_text(verdict_text("none", None, ascii))
        text.append(f" no verdict{': ' + item.note if item.note else ''}")
        return text
    text.append_text(verdict_text(item.verdict.value, item.speedup, ascii))
    words = {
        Verdict.FASTER: " faster",
        Verdict.SLOWER: " the baseline's speed: slower",
        Verdict.SAME: " the same speed",
        Verdict.UNDECIDED: " undecided",
    }
    text.append(words[item.verdict], style="bold")
    text.append(_interval(item))
    if item.floor is not None:
        text.append(f", floor {plain.percent(item.floor, 1)}")
    if item.note:
        text.append(f": {item.note}" if item.verdict is Verdict.UNDECIDED else f", {item.note}")
    return text


def verdict_row(run: RunView, ascii: bool) -> Text:
    """The big line: what the run found, or why there is nothing to find yet."""
    item = run.headline
    if run.validity is Validity.CAUGHT:
        return Text(f"caught: {run.reason or 'a check refused the times'}; there is no verdict", style="bold")
    if run.state.final and run.state is not State.OK:
        word = STATE_WORDS.get(run.state, run.state.value)
        return Text.assemble((f"{word}: ", "bold"), run.reason or "no reason was given")
    if item is None:
        if run.state is State.PLANNED:
            return Text("waiting for its turn")
        if run.state.final:
            return Text(f"no comparison{': ' + run.reason if run.reason else ''}")
        return Text("no comparison yet: baseline and rungs are compared as samples come in")
    text = comparison_text(item, ascii)
    lead = run.lead
    if lead is not None and lead.rung == item.rung and lead.sol is not None:
        text.append(f", SOL {plain.percent(lead.sol)}")
    if not run.state.final:
        text = Text("so far: ").append_text(text)
    elif run.validity is Validity.SUSPECT:
        text = Text("suspect, not a verdict: ", style="bold").append_text(text)
    return text


def note_row(run: RunView) -> Text:
    """What must not be overlooked: missing events, discarded samples, flags; empty where there is nothing."""
    parts = [gap_sentence(first, last) for first, last in run.gaps[-2:]]
    for code, word in DISCARDED_WORDS.items():
        count = sum(arm.discarded[code] for arm in run.arms.values())
        if count:
            parts.append(f"{count} samples discarded: {word}")
    flags = [flag for flag in run.flags if flag != "quick"]
    if flags:
        parts.append("flags: " + ", ".join(flags))
    return Text(" \u00b7 ".join(parts))


def gap_sentence(first: int, last: int) -> str:
    """What a Gap means to a person."""
    return f"events {first}..{last} were not received; the stored run is whole"


# -- the table of arms ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unit:
    """What a run's times are shown in."""

    name: str
    per_ms: float


def time_unit(run: RunView, ascii: bool) -> Unit:
    """Milliseconds, or microseconds where an arm is faster than 0.1 ms."""
    times = [arm.median_ms for arm in run.arms.values() if arm.median_ms is not None]
    times = times or [arm.points.y[0] for arm in run.arms.values() if len(arm.points.y)]
    if times and min(times) < 0.1:
        return Unit("us" if ascii else "\u00b5s", 1e3)
    return Unit("ms", 1.0)


def _interval_of(arm: ArmView, unit: Unit, digits: int) -> str:
    shown = [
        plain.number(None if value is None else value * unit.per_ms, digits)
        for value in (arm.median_ms, arm.low_ms, arm.high_ms)
    ]
    if shown[0] == plain.DASH or plain.DASH in shown[1:]:
        return shown[0]
    return f"{shown[0]} [{shown[1]}..{shown[2]}]"


def arm_columns(width: int, unit: Unit) -> list[Column]:
    """Columns of the arms table for a screen of that width; a narrow one has one column for state and ok."""
    if width < 100:
        return [
            Column("rung", "rung", 18),
            Column("outcome", "correct", 9),
            Column("median", f"median {unit.name}", 20, "right"),
            Column("speedup", "vs baseline", 20, "right"),
            Column("samples", "n", 5, "right"),
        ]
    return [
        Column("rung", "rung", 20 if width < 130 else 28),
        Column("state", "state", 9),
        Column("correct", "ok", 3),
        Column("median", f"median {unit.name}", 23, "right"),
        Column("speedup", "vs baseline", 22, "right"),
        Column("samples", "n", 6, "right"),
        Column("sol", "SOL", 5, "right"),
        Column("error", "error/tol", 9, "right"),
        Column("timing", "timing", 6),
    ]


def arm_word(run: RunView, arm: ArmView) -> str:
    """The arm's state in a word; a dash for one whose turn never came."""
    if run.state.final and not arm.state.final:
        return plain.DASH
    return STATE_WORDS.get(arm.state, arm.state.value)


def arm_rows(run: RunView, width: int, unit: Unit, ascii: bool) -> list[tuple[str, list[Cell]]]:
    """Rows of the arms table, in the run's order, for `arm_columns(width, unit)`."""
    keys = [column.key for column in arm_columns(width, unit)]
    rows: list[tuple[str, list[Cell]]] = []
    for rung, arm in run.arms.items():
        item = run.comparison(rung)
        speed: Cell = plain.DASH
        if rung == BASELINE and arm.median_ms is not None:
            speed = Text("1", style="dim")
        elif item is not None and item.verdict is not Verdict.NONE:
            speed = verdict_text(item.verdict.value, item.speedup, ascii)
            speed.append(_interval(item), style="not bold")
        count = max(arm.sample_count, arm.points.count)
        bad = arm.correctness is Correctness.WRONG
        word, correct = arm_word(run, arm), CORRECT_WORDS[arm.correctness]
        failed = arm.state.final and arm.state is not State.OK
        cells: dict[str, Cell] = {
            "rung": Text(rung),
            "state": Text(word, "bold" if failed else ""),
            "correct": Text(correct, "bold" if bad else ""),
            "outcome": Text(word if failed and not bad else correct, "bold" if failed else ""),
            "median": _interval_of(arm, unit, 3 if width < 100 else 4),
            "samples": plain.count(count) if count else plain.DASH,
            "speedup": speed,
            "sol": plain.percent(arm.sol),
            "error": plain.number(arm.max_error, 2),
            "timing": arm.timing.value if arm.timing is not Timing.NONE else plain.DASH,
        }
        rows.append((rung, [cells[key] for key in keys]))
    return rows


# -- steps and readings ---------------------------------------------------------------------------------


@dataclass(slots=True)
class StepSum:
    """All steps of one name: how many have ended and took how long, and whether one is under way."""

    name: str
    ended: int = 0
    total_ms: float = 0.0
    running_arm: str | None = None


def step_sums(run: RunView) -> list[StepSum]:
    """Steps by name, in the order in which the names first came."""
    sums: dict[str, StepSum] = {}
    for step in run.steps:
        item = sums.setdefault(step.name, StepSum(step.name))
        if step.duration_ms is not None:
            item.ended += 1
            item.total_ms += step.duration_ms
        elif not run.state.final:
            item.running_arm = step.arm
    return list(sums.values())


def _running_sign(ascii: bool) -> str:
    return ">" if ascii else "\u25b8"


def _step_time(item: StepSum) -> str:
    text = plain.duration(item.total_ms / 1e3) if item.ended else ""
    return f"{text} ({item.ended})" if item.ended > 1 else text


def step_row(run: RunView, ascii: bool) -> Text:
    """All steps on one row, the running one marked and in front, where it is never cut off."""
    text = Text("steps  ", style="dim")
    for number, item in enumerate(sorted(step_sums(run), key=lambda item: item.running_arm is None)):
        if number:
            text.append(" \u00b7 " if not ascii else " | ", style="dim")
        if item.running_arm is not None:
            text.append(f"{_running_sign(ascii)} {item.name} {item.running_arm}".rstrip(), style="bold")
        else:
            text.append(f"{item.name} {_step_time(item)}".rstrip())
    if not run.steps:
        text.append("none yet")
    return text


def step_rows(run: RunView, width: int, ascii: bool) -> list[Text]:
    """The steps one below the other, durations to the right."""
    rows = [Text("steps", style="bold")]
    for item in step_sums(run):
        running = item.running_arm is not None
        name = f"{_running_sign(ascii) if running else ' '} {item.name} {item.running_arm or ''}".rstrip()
        time = "running" if running else _step_time(item)
        gap = max(1, width - plain.cells(name) - plain.cells(time))
        rows.append(Text(name + " " * gap + time, style="bold" if running else ""))
    if not run.steps:
        rows.append(Text("  none yet"))
    return rows


def step_lines(run: RunView) -> list[str]:
    """Every single step with its start and duration, for the pane of text."""
    begin = run.start_ns if run.start_ns is not None else (run.steps[0].start_ns if run.steps else 0)
    rows = []
    for step in run.steps:
        if step.duration_ms is not None:
            took = plain.duration(step.duration_ms / 1e3)
        else:
            took = plain.DASH if run.state.final else "running"
        rows.append([plain.duration((step.start_ns - begin) / 1e9), step.name, step.arm, took, step.detail])
    return plain.table(["at", "step", "rung", "took", ""], rows, right=["at", "took"])


def no_readings(run: RunView, status: events.Status | None) -> str:
    """Why there are no GPU readings, once; "" where there are some."""
    if len(run.telemetry):
        return ""
    if status is not None and status.gpu_note:
        return f"no GPU: {status.gpu_note}"
    if run.device.startswith("cpu"):
        return "no GPU readings: this run is on the CPU"
    return "no GPU readings yet" if not run.state.final else "no GPU readings were taken"


def throttle_now(run: RunView) -> str:
    """What slows the clocks at this moment, in words: "none" where the driver says nothing does."""
    bits = run.telemetry.throttle[-1] if len(run.telemetry.throttle) else -1
    if bits < 0:
        return plain.DASH
    return ", ".join(throttle_words(bits)) or "none"


def reading_row(run: RunView, status: events.Status | None) -> Text:
    """The newest readings on one row."""
    missing = no_readings(run, status)
    if missing:
        return Text(missing, style="dim")
    text = Text()
    for metric in METRICS:
        value = run.telemetry.latest(metric.key)
        name = {"memory clock": "mem", "SM clock": "SM", "temperature": "", "power": ""}[metric.name]
        text.append(f"{name} " if name else "", style="dim")
        text.append(plain.DASH if value is None else f"{value:.0f}", style="bold")
        text.append(f" {metric.unit}  ")
    text.append("throttle ", style="dim")
    text.append(throttle_now(run), style="bold")
    return text


def reading_rows(run: RunView, status: events.Status | None, width: int) -> list[Text]:
    """The newest readings one below the other."""
    missing = no_readings(run, status)
    if missing:
        rows: list[Text] = []
        line = ""
        for word in missing.split():
            if line and plain.cells(line) + plain.cells(word) + 1 > width:
                rows.append(Text(line))
                line = ""
            line = f"{line} {word}".strip()
        return [*rows, Text(line)]
    rows = []
    for metric in METRICS:
        value = run.telemetry.latest(metric.key)
        shown = plain.DASH if value is None else f"{value:.0f} {metric.unit}"
        rows.append(Text(metric.name + " " * max(1, width - len(metric.name) - len(shown)) + shown))
    word = throttle_now(run)
    rows.append(Text("throttle" + " " * max(1, width - 8 - plain.cells(word)) + word))
    return rows


# -- the plot of a run ----------------------------------------------------------------------------------


def run_series(run: RunView, metric: Metric, columns: int, unit: Unit) -> list[Series]:
    """What the live plot shows: each arm's samples, discarded ones, the metric, when clocks were throttled.

    Args:
        columns: dots across; no series has more than two points per dot.
    """
    series: list[Series] = []
    lowest, latest_s = math.inf, 0.0
    for rung, arm in run.arms.items():
        if arm.points.count:
            x, y = thin(*arm.points.points(), columns)
            scaled = [value * unit.per_ms for value in y]
            lowest = min(lowest, *scaled)
            latest_s = max(latest_s, x[-1])
            name = "A/A" if rung == AA_ARM else rung.removeprefix("optimized_")
            series.append(Series(name, x, scaled))
    discarded = sorted(point for arm in run.arms.values() for point in zip(*arm.discarded_points.points(), strict=True))
    if discarded:
        x, y = thin([point[0] for point in discarded], [point[1] for point in discarded], columns)
        series.append(Series("discarded", x, [value * unit.per_ms for value in y], "$warning"))
    log = run.telemetry
    if run.origin_ns is None or not len(log):
        return series
    origin_s = run.origin_ns / 1e9
    start, stop = bisect_left(log.at_s, origin_s), len(log)
    if run.state.final and latest_s > 0:
        # Processes take seconds to leave; a clock that goes on without samples would squeeze them.
        stop = bisect_right(log.at_s, origin_s + 1.05 * latest_s)
    times = [at_s - origin_s for at_s in log.at_s[start:stop]]
    readings = getattr(log, metric.key)[start:stop]
    if times:
        series.append(Series(metric.name, times, readings, "$series-6", "line", "right"))
    seen = log.reasons_seen()
    floor = 0.9 * lowest if math.isfinite(lowest) else 0.0  # below every sample: marks, not times
    for bit, word in THROTTLE_WORDS.items():
        if seen > 0 and seen & bit & SLOWING_BITS:
            at = [x for x, bits in zip(times, log.throttle[start:stop], strict=False) if bits > 0 and bits & bit]
            if at:
                series.append(Series(word, at, [floor] * len(at), "bold $warning"))
    return series


# -- text of a run --------------------------------------------------------------------------------------


def wrapped(lines: Sequence[str], width: int) -> list[str]:
    """Lines cut at `width` cells between words, the rest indented below: for panes that wrap nothing."""
    out: list[str] = []
    for line in lines:
        if plain.cells(line) <= width or width < 20:
            out.append(line)
            continue
        indent = " " * min(len(line) - len(line.lstrip()) + 2, width // 2)
        out += textwrap.wrap(line, width, subsequent_indent=indent, drop_whitespace=True) or [""]
    return out


def detail_lines(run: RunView, chosen: str | None = None) -> list[str]:
    """Why something went wrong: the reason, then each failed arm's traceback or mismatch, the chosen first.

    Empty where nothing did.
    """
    lines: list[str] = []
    # The run's reason repeats that of the arm which decided it: said once, at the arm.
    if run.reason and not any(arm.reason and run.reason.endswith(arm.reason) for arm in run.arms.values()):
        lines += [run.reason, ""]

    def rank(rung: str) -> tuple[bool, bool]:
        ended_with_another = run.arms[rung].state is State.CANCELLED and run.state is not State.CANCELLED
        return (ended_with_another, rung != chosen)

    order = sorted(run.arms, key=rank)
    for rung in order:
        arm = run.arms[rung]
        if not arm.reason and not arm.detail:
            continue
        lines.append(f"{rung}: {arm_word(run, arm)}{': ' + arm.reason if arm.reason else ''}")
        if " ".join(arm.detail.split()) not in arm.reason:
            lines += ["  " + line for line in arm.detail.splitlines()]
        lines.append("")
    lines += [gap_sentence(first, last) for first, last in run.gaps]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def summary_lines(run: RunView, now_ns: int) -> list[str]:
    """The run as plain text, for the clipboard."""
    rows = []
    for rung, arm in run.arms.items():
        item = run.comparison(rung)
        rows.append(
            [
                rung,
                STATE_WORDS.get(arm.state, arm.state.value),
                CORRECT_WORDS[arm.correctness],
                plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms),
                plain.count(max(arm.sample_count, arm.points.count)),
                plain.speedup(item.speedup, item.low, item.high) if item else plain.DASH,
                plain.percent(arm.sol),
                plain.number(arm.max_error, 2),
                arm.timing.value,
            ]
        )
    heads = ["rung", "state", "ok", "median ms", "n", "vs baseline", "SOL", "error/tol", "timing"]
    return [
        title_text(run, now_ns).plain,
        verdict_row(run, True).plain,
        f"run {run.id}  sources {run.snapshot}",
        "",
        *plain.table(heads, rows, right=["median ms", "n", "vs baseline", "SOL", "error/tol"]),
        *(["", *detail_lines(run)] if detail_lines(run) else []),
    ]


# -- watch ----------------------------------------------------------------------------------------------


def edit_median(model: Model, edit: EditView) -> float | None:
    """The edit's time: its fastest correct optimized rung's median, None where none can be believed."""
    run = model.runs.get(edit.run_id)
    if run is None or run.validity in (Validity.CAUGHT, Validity.SUSPECT):
        return None
    if run.state.final and run.state is not State.OK:
        return None
    lead = run.lead
    return lead.median_ms if lead is not None and lead.correctness is Correctness.CORRECT else None


def best_edit(model: Model, watch: WatchView) -> EditView | None:
    """The finished edit with the shortest time; the earlier one of equals."""
    best: tuple[float, EditView] | None = None
    for edit in watch.edits:
        run = model.runs.get(edit.run_id)
        median = edit_median(model, edit)
        if run is None or median is None or not run.state.final:
            continue
        if best is None or median < best[0]:
            best = (median, edit)
    return best[1] if best else None


def edit_before(watch: WatchView, edit: EditView) -> EditView | None:
    """The edit before this one."""
    earlier = [item for item in watch.edits if item.number < edit.number]
    return max(earlier, key=lambda item: item.number) if earlier else None


def _apart(model: Model, one: EditView, other: EditView) -> bool:
    """Whether the two edits' 95 % intervals do not overlap."""
    arms = [run.lead if (run := model.runs.get(edit.run_id)) is not None else None for edit in (one, other)]
    first, second = arms
    if first is None or second is None:
        return False
    if None in (first.low_ms, first.high_ms, second.low_ms, second.high_ms):
        return False
    assert first.low_ms and first.high_ms and second.low_ms and second.high_ms
    return first.high_ms < second.low_ms or second.high_ms < first.low_ms


def change_text(model: Model, edit: EditView, other: EditView | None) -> str:
    """Time against another edit's, signed; "~" in front where the intervals overlap, so nothing is shown."""
    if other is None or other is edit:
        return plain.DASH
    change = plain.change(edit_median(model, edit), edit_median(model, other))
    if change == plain.DASH or _apart(model, edit, other):
        return change
    return f"~ {change}"


def time_of_day(wall: str) -> str:
    """An ISO 8601 time in UTC as local time of day; the text itself where it is not one."""
    try:
        at = datetime.fromisoformat(wall)
    except ValueError:
        return wall or plain.DASH
    return f"{(at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone():%H:%M:%S}"


def edit_columns(width: int) -> list[Column]:
    """Columns of the table of edits."""
    columns = [
        Column("number", "#", 5, "right"),
        Column("time", "time", 8),
        Column("verdict", "vs baseline", 11),
        Column("median", "median ms", 10, "right"),
        Column("previous", "vs previous", 11, "right"),
        Column("best", "vs best", 10, "right"),
    ]
    if width >= 130:
        columns.append(Column("files", "files", 22))
    columns.append(Column("note", "result", None, ratio=1))
    if width >= 150:
        columns.append(Column("run", "run", 28))
    return columns


def edit_note(model: Model, edit: EditView) -> str:
    """How the edit came out, in a few words: a syntax error, a wrong answer, correct, or under way."""
    if edit.error:
        return f"does not compile: {edit.error.splitlines()[0]}"
    run = model.runs.get(edit.run_id)
    if run is None:
        return "waiting" if edit.run_id else "unchanged"
    if not run.state.final:
        step = run.running_step
        return f"{run.state.value}{': ' + step.name if step is not None else ''}"
    if run.state is State.OK:
        return "correct" if run.validity is not Validity.SUSPECT else "correct, but the times are suspect"
    word = STATE_WORDS.get(run.state, run.state.value)
    return f"{word}: {run.reason}"


def edit_rows(
    model: Model, watch: WatchView, width: int, ascii: bool, marked: int | None
) -> list[tuple[str, list[Cell]]]:
    """Rows of the table of edits, newest first; keys are the edits' numbers."""
    keys = [column.key for column in edit_columns(width)]
    best = best_edit(model, watch)
    star = "*" if ascii else "\u2605"
    rows: list[tuple[str, list[Cell]]] = []
    ordered = sorted(watch.edits, key=lambda edit: edit.number)
    before: EditView | None = None
    for edit in ordered:
        run = model.runs.get(edit.run_id)
        item = run.headline if run is not None else None
        failed = bool(edit.error) or (run is not None and run.state.final and run.state is not State.OK)
        signs = (star if edit is best else "") + ("m" if edit.number == marked else "")
        cells: dict[str, Cell] = {
            "number": Text(f"{signs} {edit.number}".strip(), "bold" if edit is best else ""),
            "time": time_of_day(edit.wall),
            "files": Text(", ".join(edit.files) if edit.files else "at the start"),
            "verdict": (
                verdict_text(item.verdict.value, item.speedup, ascii) if item is not None and not failed else plain.DASH
            ),
            "median": plain.number(edit_median(model, edit)),
            "previous": change_text(model, edit, before),
            "best": "best" if edit is best else change_text(model, edit, best),
            "note": Text(edit_note(model, edit), "bold" if failed else ""),
            "run": Text(edit.run_id or plain.DASH),
        }
        rows.append((str(edit.number), [cells[key] for key in keys]))
        if edit_median(model, edit) is not None:
            before = edit
    return rows[::-1]


def edit_series(model: Model, watch: WatchView) -> list[Series]:
    """Each edit's time over its number, and the best so far as a line."""
    numbers: list[float] = []
    medians: list[float] = []
    steps: list[float] = []  # the best so far falls at an edit, not between two
    best: list[float] = []
    lowest = math.inf
    for edit in sorted(watch.edits, key=lambda item: item.number):
        median = edit_median(model, edit)
        numbers.append(float(edit.number))
        medians.append(math.nan if median is None else median)
        run = model.runs.get(edit.run_id)
        if math.isfinite(lowest):
            steps.append(float(edit.number))
            best.append(lowest)
        if median is not None and run is not None and run.state.final and median < lowest:
            lowest = median
            steps.append(float(edit.number))
            best.append(lowest)
    if sum(1 for median in medians if math.isfinite(median)) < 2:
        return []
    return [
        Series("best so far", steps, best, "$series-2", "line"),
        Series("each edit", numbers, medians, "$series-1", "line"),
    ]


def edit_lines(model: Model, watch: WatchView, edit: EditView) -> list[str]:
    """Everything about one edit, for the pane beside the table."""
    files = ", ".join(edit.files) if edit.files else "the state when the watch began"
    lines = [f"edit {edit.number}  {time_of_day(edit.wall)}  {files}"]
    run = model.runs.get(edit.run_id)
    if edit.error:
        return [*lines, "does not compile; the watch goes on", "", *edit.error.splitlines()]
    if run is None:
        return [*lines, f"run {edit.run_id or plain.DASH}: {edit_note(model, edit)}"]
    verdict = verdict_row(run, False).plain
    lines += [verdict, *(line for line in detail_lines(run) if line not in verdict)]
    lines.append("")
    rows = [
        [
            rung,
            STATE_WORDS.get(arm.state, arm.state.value),
            CORRECT_WORDS[arm.correctness],
            plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms),
        ]
        for rung, arm in run.arms.items()
        if rung != AA_ARM
    ]
    lines += plain.table(["rung", "state", "ok", "median ms"], rows, right=["median ms"])
    lines.append(f"run {run.id}  sources {edit.snapshot[:12]}")
    return lines
