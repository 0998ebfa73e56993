"""What the watch says of its edits: sentences, rows of the table, points of the plot, and what a diff compares.

Which time may be believed and which ratio may be shown is decided in `store.results.edits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from rich.text import Text

from aisp.engine.protocol.events import WatchEdit
from aisp.store.outcomes import State
from aisp.store.record import Arm, Comparison, Run
from aisp.store.results import edits, outcome
from aisp.store.results.outcome import Outcome
from aisp.store.results.reading import Held
from aisp.tui import plain, progress
from aisp.tui.findings import bar_sentence, interval_text
from aisp.tui.model import Model, RunView, WatchView
from aisp.tui.readings import CORRECT_WORDS, detail_lines, verdict_row
from aisp.tui.results import STATE_WORDS, end_words
from aisp.tui.runplot import Unit, unit_for
from aisp.tui.themes import verdict_text
from aisp.tui.widgets.editplot import EditPoint, Mark
from aisp.tui.widgets.table import Cell, Column

SILENT = "silent: "  # how the engine's banners about a process that gives no sign begin
MEDIAN_COLUMNS = 8
TIME_COLUMNS, FILES_COLUMNS = 76, 88  # from here on the table has these too


class Against(StrEnum):
    """What an edit's sources are compared with."""

    PREVIOUS = "previous"
    BEST = "best"
    BASELINE = "baseline"

    @property
    def following(self) -> Against:
        every = list(Against)
        return every[(every.index(self) + 1) % len(every)]


def run_of(model: Model, edit: WatchEdit) -> RunView | None:
    return model.runs.get(edit.run_id) or model.watched.get(edit.run_id)


def time_of(model: Model, edit: WatchEdit) -> Arm | None:
    run = run_of(model, edit)
    return None if run is None else edits.time_of(run)


def median_ms(model: Model, edit: WatchEdit) -> float | None:
    arm = time_of(model, edit)
    return None if arm is None else arm.median_ms


def going(model: Model, edit: WatchEdit) -> bool:
    run = run_of(model, edit)
    return run is not None and not run.record.state.final


def awaited(model: Model, watch: WatchView, edit: WatchEdit) -> bool:
    """Whether the edit's run is still to be heard of: the newest one's."""
    return bool(edit.run_id) and run_of(model, edit) is None and edit is in_order(watch)[-1]


def in_order(watch: WatchView) -> list[WatchEdit]:
    return sorted(watch.edits, key=lambda edit: edit.number)


def by_number(watch: WatchView, number: int | None) -> WatchEdit | None:
    return next((edit for edit in watch.edits if edit.number == number), None)


def edit_before(watch: WatchView, edit: WatchEdit) -> WatchEdit | None:
    """The edit before this one, whatever became of it."""
    return next((item for item in reversed(in_order(watch)) if item.number < edit.number), None)


def running_edit(model: Model, watch: WatchView) -> WatchEdit | None:
    active = [edit for edit in in_order(watch) if going(model, edit)]
    begun = [edit for edit in active if model.runs[edit.run_id].record.state is not State.PLANNED]
    return next(iter(begun or active), None)


def time_of_day(wall: str) -> str:
    """An ISO 8601 time in UTC as local time of day; the text itself where it is not one."""
    try:
        at = datetime.fromisoformat(wall)
    except ValueError:
        return wall or plain.DASH
    return f"{(at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone():%H:%M:%S}"


def silence_of(model: Model, run: RunView) -> str:
    """What the engine says of a process of this run that gives no sign; "" where it says nothing, or where it may be
    another job's.
    """
    told = {key: banner.text for key, banner in model.banners.items() if key.startswith(SILENT)}
    if not told or run.record.state in (State.PLANNED,) or run.record.state.final:
        return ""
    kind, _, index = run.placed.partition(":")
    if kind == "cuda" and index:  # one of several GPUs, whose banners name it
        return next((text for key, text in told.items() if key.endswith(f" {index}")), "")
    others = [item for item in model.active_runs() if item is not run and item.record.state is not State.PLANNED]
    others_fuzz = [fuzz for fuzz in model.active_fuzzes() if fuzz.state != "planned"]
    return "" if others or others_fuzz else next(iter(told.values()))


def progress_words(model: Model, run: RunView) -> str:
    """How far a run is: "import and compile optimized · about 2 s left", or which process gives no sign."""
    if run.record.state is State.PLANNED:
        return "waiting for its turn"
    if silent := silence_of(model, run):
        return silent
    told = run.progress(model.now_ns())
    passed = "" if told.elapsed_s is None else f"{plain.about(told.elapsed_s)} so far"
    doing = progress.doing(run) or STATE_WORDS[run.record.state]
    return " \u00b7 ".join(part for part in (doing, progress.time_words(told) or passed) if part)


def sentence(model: Model, watch: WatchView, edit: WatchEdit) -> str:
    """What stands in the place of an edit's figures: a syntax error, a wrong answer, how far it is; "" where it has
    figures."""
    if edit.error:
        return f"not run: {edit.error.splitlines()[0]}"
    run = run_of(model, edit)
    if run is None:
        if not edit.run_id:
            return "unchanged: nothing to run"
        waits = awaited(model, watch, edit)
        return "waiting for its turn" if waits else "its run is in the store: enter opens it"
    if not run.record.state.final:
        return progress_words(model, run)
    lead = run.lead
    bar = run.bar(lead.rung) if lead is not None else None
    if bar is not None and not run.record.state.void:
        return bar_sentence(bar)
    if run.record.state is not State.OK:
        return end_words(run.record)
    if edits.time_of(run) is not None:
        return ""
    why = "its times are not to be believed" if run.record.validity.suspect else "no time was taken"
    return f"{outcome.of_run(run).word}; {why}"


def failed(model: Model, edit: WatchEdit) -> bool:
    """Whether the edit came to a bad end of its own: not one that goes on, was cancelled or superseded, or has no place
    here."""
    run = run_of(model, edit)
    if edit.error or run is None:
        return bool(edit.error)
    if not run.record.state.final:
        return False
    ended = outcome.of_run(run).outcome
    return ended.bad and ended is not Outcome.SUSPECT


class Told(NamedTuple):
    """What is told of an edit: the arm whose time is its own, the ratio that may be shown, what stands in the place of
    figures, whether it failed, and whether its run goes on."""

    arm: Arm | None
    ratio: Comparison | None
    sentence: str
    failed: bool
    going: bool


Known: TypeAlias = dict[str, tuple[Run, Mapping[str, Held], Told]]
"""What was told of ended runs, by id, and what it was read from: a watch of many edits is drawn ten times a second."""


def told_of(model: Model, watch: WatchView, edit: WatchEdit, known: Known | None = None) -> Told:
    run = run_of(model, edit)
    if run is not None and known is not None and run.id in known:
        record, quarantined, found = known[run.id]
        if record is run.record and quarantined == run.quarantined:
            return found
    found = Told(
        time_of(model, edit),
        None if run is None else edits.against_baseline(run),
        sentence(model, watch, edit),
        failed(model, edit),
        going(model, edit) or awaited(model, watch, edit),
    )
    if run is not None and known is not None and run.record.state.final:
        known[run.id] = (run.record, run.quarantined, found)
    return found


def all_told(model: Model, watch: WatchView, known: Known | None = None) -> dict[int, Told]:
    return {edit.number: told_of(model, watch, edit, known) for edit in in_order(watch)}


def times_of(told: Mapping[int, Told]) -> list[tuple[int, Arm | None]]:
    """Each edit's number and time; of one whose run goes on none."""
    return [(number, None if item.going else item.arm) for number, item in told.items()]


def best_edit(model: Model, watch: WatchView, known: Known | None = None) -> WatchEdit | None:
    return by_number(watch, edits.best(times_of(all_told(model, watch, known))))


def unit_of(told: Mapping[int, Told], ascii: bool) -> Unit:
    arms = [item.arm for item in told.values() if item.arm is not None]
    return unit_for([arm.median_ms for arm in arms if arm.median_ms is not None], ascii)


def columns(width: int, unit: Unit, *, result: bool = False) -> list[Column]:
    """Columns of the table of edits. What has no figures has a sentence, which flows over them from the first; a run
    under way has its first time in front of it.

    Args:
        result: whether the sentence has a column of its own, as in a table that is copied.
    """
    found = [
        Column("number", "    #", 5),
        Column("median", unit.name, MEDIAN_COLUMNS, "right"),
        Column("baseline", "vs baseline", 20),
        Column("best", "vs best", 10, "right"),
        Column("previous", "vs before", 10, "right"),
    ]
    if width >= TIME_COLUMNS:
        found.append(Column("time", "saved at", 8))
    if width >= FILES_COLUMNS:
        found.append(Column("files", "files", None, ratio=1))
    return [*found, Column("result", "result")] if result else found


def rows(
    watch: WatchView,
    told: Mapping[int, Told],
    width: int,
    ascii: bool,
    marked: int | None = None,
    *,
    result: bool = False,
) -> list[tuple[str, list[Cell]]]:
    """Rows of the table of edits, newest first, for `columns` of the same arguments; keys are the edits' numbers."""
    unit, times = unit_of(told, ascii), times_of(told)
    keys = [column.key for column in columns(width, unit, result=result)]
    best = edits.best(times)
    found: list[tuple[str, list[Cell]]] = []
    befores = edits.before_each(arm for _, arm in times)
    for edit, (number, own), before in zip(in_order(watch), times, befores, strict=True):
        item = told[number]
        sign = ("*" if ascii else "\u2605") if number == best else " "
        head = Text(f"{sign}{'m' if number == marked else ' '}{number:>3}", "bold" if number == best else "")
        cells: dict[str, Cell] = {
            "time": time_of_day(edit.wall),
            "files": ", ".join(edit.files) if edit.files else "as it was when the watch began",
        }
        if item.sentence and result:
            cells |= dict.fromkeys(("median", "baseline", "best", "previous"), plain.DASH) | {"result": item.sentence}
        elif item.sentence:
            if item.going and item.arm is not None and item.arm.median_ms is not None:  # its first figures
                head.append(f"  {plain.number(item.arm.median_ms * unit.per_ms):>{MEDIAN_COLUMNS}}")
            head.append(f"  {item.sentence}", "bold" if item.failed else "")
        else:
            ratio: Cell = plain.DASH
            if item.ratio is not None:
                ratio = verdict_text(item.ratio.verdict.value, item.ratio.speedup, ascii).append(
                    interval_text(item.ratio)
                )
            median = None if own is None else own.median_ms
            against_best = plain.DASH if best is None else plain.change(edits.change(own, told[best].arm))
            cells |= {
                "median": plain.number(None if median is None else median * unit.per_ms),
                "baseline": ratio,
                "best": "best" if number == best else against_best,
                "previous": plain.change(edits.change(own, before)),
                "result": "correct",
            }
        cells["number"] = head
        found.append((str(number), [cells.get(key, "") for key in keys]))
    return found[::-1]


def points(
    watch: WatchView, told: Mapping[int, Told], unit: Unit, both: Mapping[int, tuple[float, float]]
) -> list[EditPoint]:
    """Each edit as it is drawn: its time with its interval, or what became of it in the place of one.

    Args:
        both: by number of an edit the times in ms of its two processes, as far as they are known.
    """
    best = edits.best(times_of(told))
    found = []
    for edit in in_order(watch):
        item = told[edit.number]
        arm = None if item.going else item.arm
        mark = Mark.BEST if edit.number == best else Mark.EDIT
        if item.going:
            mark = Mark.RUNNING
        elif item.failed:
            mark = Mark.FAILED
        elif arm is None:
            mark = Mark.NO_TIME
        median, low, high = (None, None, None) if arm is None else (arm.median_ms, arm.low_ms, arm.high_ms)
        y, lowest, highest = (None if value is None else value * unit.per_ms for value in (median, low, high))
        pair = both.get(edit.number) if arm is not None else None
        scaled = None if pair is None else (pair[0] * unit.per_ms, pair[1] * unit.per_ms)
        found.append(EditPoint(edit.number, y, lowest, highest, mark, scaled))
    return found


def lines(model: Model, watch: WatchView, edit: WatchEdit) -> list[str]:
    """Everything about one edit, for its pane."""
    files = ", ".join(edit.files) if edit.files else "the state when the watch began"
    head = [f"edit {edit.number}  {time_of_day(edit.wall)}  {files}"]
    run = run_of(model, edit)
    if edit.error:
        return [*head, "not run; the watch goes on", "", *edit.error.splitlines()]
    if run is None:
        return [*head, f"run {edit.run_id or plain.DASH}: {sentence(model, watch, edit)}"]
    if going(model, edit):
        head.append(progress_words(model, run))
    verdict = verdict_row(run, False).plain
    head += [verdict, *(line for line in detail_lines(run) if line not in verdict), ""]
    table = [
        [
            arm.rung,
            STATE_WORDS.get(arm.state, arm.state.value),
            CORRECT_WORDS[arm.correctness],
            plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms),
        ]
        for arm in run.record.arms
        if not arm.twin
    ]
    head += plain.table(["rung", "state", "ok", "median ms"], table, right=["median ms"])
    return [*head, f"run {run.id}  {run.mode}  sources {edit.snapshot[:12]}"]


def other_of(
    watch: WatchView, edit: WatchEdit, against: Against, best: WatchEdit | None
) -> tuple[WatchEdit | None, str]:
    """The edit that this one is compared with (itself for its own baseline), or None and why there is none."""
    if against is Against.BASELINE:
        return edit, ""
    if against is Against.PREVIOUS:
        before = edit_before(watch, edit)
        return before, "" if before else "nothing is before it: the watch began with it"
    if best is None:
        return None, "no edit was correct and timed yet, so there is no best one"
    return (None, "this is the best edit") if best is edit else (best, "")


def title_of(edit: WatchEdit, other: WatchEdit, against: Against) -> str:
    if against is Against.BASELINE:
        return f"edit {edit.number} against its baseline"
    which = "the one before" if against is Against.PREVIOUS else "the best"
    return f"edit {edit.number} against edit {other.number}, {which}"


def differing(left: Mapping[str, bytes], right: Mapping[str, bytes]) -> list[str]:
    names = [name for name in left.keys() | right.keys() if left.get(name) != right.get(name)]
    return sorted(names, key=lambda name: ("/" in name or not name.endswith(".py"), name))
