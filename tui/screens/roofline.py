"""The rungs of a run under the roofs of its GPU: measured ceilings and the datasheet's.

Every rung of a case does the same work by definition, so all of them stand above one intensity, and how high says how
fast. A case without arithmetic has no place there: its bandwidths are drawn as bars. The run, its GPU and its ceilings
are read from the store in a thread; a run under way is drawn as it goes on.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer

from aisp.engine.stored import environment
from aisp.store.record import Arm
from aisp.store.results import roofline
from aisp.store.results.roofline import MEMORY, Roofline
from aisp.store.text import clean_line
from aisp.tui import plain, readings
from aisp.tui.aside import begin
from aisp.tui.earlier import newest_first
from aisp.tui.keymap import Key, bind
from aisp.tui.model import RunView, stored_run
from aisp.tui.results import STATE_WORDS, timing_words
from aisp.tui.screens.base import WorkScreen
from aisp.tui.themes import style_of
from aisp.tui.widgets.roofplot import RoofPlot, RoofPoint, bar_rows
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store import History

WIDE_COLUMNS = 100
NO_RUN = "no run on a GPU yet"
LIVE_PERIOD_S = 1.0


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn: a run, None where there was none on a GPU, and the roofs over its case, or why there are none."""

    run: RunView | None
    gpu: str
    roofs: Roofline | None = None
    why: str = ""

    @property
    def arms(self) -> list[tuple[str, Arm]]:
        """Letter and arm of every rung that stands under a roof."""
        letters = string.ascii_uppercase + string.ascii_lowercase
        shown = roofline.timed(self.run) if self.run is not None else []
        return [(letters[number % len(letters)], arm) for number, arm in enumerate(shown)]


def look(history: History | None, target: Target, run_id: str, live: RunView | None, machine: tuple[str, str]) -> Chart:
    """The chart of a run, or of the target's newest timed one on a GPU. Called in a thread: reads the store.

    Args:
        history: the store; None where there is none yet.
        run_id: "" for the newest.
        live: the run as the engine tells it, where it has not ended.
        machine: the GPU that `live` runs on, its name and uuid; "" for none.
    """
    run: RunView | None = live
    facts: dict[str, object] = dict(zip(("gpu", "gpu_uuid"), machine, strict=True))
    if live is None and history is not None:
        if run_id:
            run = stored_run(history.run(run_id), {})
        else:
            records = newest_first(history, target.names, roofline.LOOK_BACK_RUNS)
            run = roofline.newest(records, lambda record: stored_run(record, {}))
        if run is not None:
            facts = environment(history, run.record)
    pairs = zip(("gpu", "gpu_uuid"), machine, strict=True)
    gpu, uuid = (clean_line(str(facts.get(key) or "")) or here for key, here in pairs)
    if run is not None and run.record.device.startswith("cpu"):
        return Chart(run, gpu, why="this run is on the CPU: a roofline is about the ceilings of a GPU")
    if not gpu:
        return Chart(run, gpu, why=NO_RUN)
    case = run.record.case if run is not None and run.record.case else target.cases[0].name
    peak = next(iter(history.peaks(uuid, 1)), None) if history is not None and uuid else None
    found = roofline.of_case(target, case, gpu, peak, measures="c")
    return Chart(run, gpu, why=found) if isinstance(found, str) else Chart(run, gpu, found)


def _cells(letter: str, arm: Arm, roofs: Roofline | None, *, interval: bool) -> dict[str, Cell]:
    """A rung's figures, by column; its time with the interval where there is room for that."""
    time_ms, ends = arm.median_ms, (arm.low_ms, arm.high_ms) if interval else (None, None)
    return {
        "letter": letter,
        "rung": Text(arm.rung),
        "median": plain.milliseconds(time_ms, *ends),
        "rate": plain.quantity(roofs.rate(time_ms) if roofs else None, roofs.unit if roofs else ""),
        "flops": plain.quantity(roofs.flops_per_s(time_ms) if roofs else None, "flop/s"),
        "bytes": plain.quantity(roofs.bytes_per_s(time_ms) if roofs else None, "bytes/s"),
        "measured": plain.percent(roofs.share(arm, measured=True) if roofs else None),
        "datasheet": plain.percent(roofs.share(arm, measured=False) if roofs else None),
        "limiter": readings.limiter_word(arm),
        "timing": timing_words(arm.timing, arm.calls),
    }


class RooflineScreen(WorkScreen):
    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("open_run", "enter", "open run", "Open the run whose rungs are shown.", "⏎"),
        *("run_quick", "run_full", "ceilings", "diff", "history", "cancel", "edit"),
    )
    own_keys_first = True
    heading = "{}  roofline"
    redrawn = True
    main_table = "rungs"
    chooses = "open_run"
    DEFAULT_CSS = """
    RooflineScreen #facts { height: 3; background: $surface; }
    RooflineScreen #plot { height: 1fr; min-height: 5; }
    RooflineScreen #bars { display: none; height: 1fr; margin: 1 1 0 1; }
    RooflineScreen.-bars #plot { display: none; }
    RooflineScreen.-bars #bars { display: block; }
    RooflineScreen #rungs { height: 5; }
    """

    def __init__(self, target_id: str, run_id: str = "") -> None:
        super().__init__(target_id)
        self._run_id = run_id
        self._chart: Chart | None = None
        self._problem = ""
        self._later: Timer | None = None

    @property
    def rung_name(self) -> str:
        return self.chosen_key

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        yield TextRows(id="facts")
        yield RoofPlot(id="plot", name="Plot", empty="reading the store")
        yield TextRows(id="bars")
        yield LiveTable(id="rungs", name="Rungs", empty="no rung was timed")

    def on_mount(self) -> None:
        self.table.focus()
        self._load()

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if not self.is_mounted:
            return
        run = self._chart.run if self._chart is not None else None
        shown = run.id if run is not None else self._run_id
        if not names or "status" in names:
            self.refresh_bindings()
        if not names or names & {"catalog", "board", "peak", "status"}:
            self._load()
        elif f"run:{shown}" in names and self._later is None:
            # A run under way changes many times a second, and each look reads the store.
            self._later = self.set_timer(LIVE_PERIOD_S, self._load)

    def _load(self) -> None:
        if self._later is not None:
            self._later.stop()
            self._later = None
        begin(self, self._read, group="roofline", exclusive=True)

    async def _read(self) -> None:
        target = self.workbench.target(self._target_id)
        if target is None:
            self._problem = "" if self.workbench.catalog is None else "this target is not in the catalogue"
            self.draw()
            return
        live = self.workbench.model.runs.get(self._run_id) if self._run_id else None
        if live is not None and live.record.state.final:
            live = None  # the store has all of it, and the environment that it ran in
        gpus = self.workbench.gpus
        machine = (gpus[0].name, gpus[0].uuid) if gpus else ("", "")
        ask = partial(look, target=target, run_id=self._run_id, live=live, machine=machine)
        found, self._problem = await self.workbench.read(lambda history: ask(history))
        if not self._problem:
            self._chart = found if found is not None else ask(None)
        self.draw()

    def draw(self) -> None:
        if not self.is_mounted:
            return
        chart = self._chart
        plot = self.query_one("#plot", RoofPlot)
        if chart is None or self._problem:
            plot.empty = self._problem or "reading the store"
            plot.show([], [])
            return
        self.say("title", self._title(chart))
        self.say("facts", *self._facts(chart))
        arms, roofs = chart.arms, chart.roofs
        as_bars = roofs is not None and roofs.flops <= 0
        self.set_class(as_bars, "-bars")
        if roofs is not None and as_bars:
            bars = self.query_one("#bars", TextRows)
            styles = [style_of(self.app, f"$series-{number % 6 + 1}") for number in range(len(arms))]
            rates = [(letter, arm.rung, roofs.rate(arm.median_ms) or 0.0) for letter, arm in arms]
            width = max(20, self.size.width - 2)
            bars.show(bar_rows(roofs.roofs, rates, width, ascii_only=self.workbench.ascii, styles=styles))
        else:
            plot.empty = self._next_move(chart.why) if chart.why == NO_RUN else chart.why or "no roofs are known"
            at = roofs.intensity if roofs is not None else 0.0
            points = [RoofPoint(letter, at, roofs.rate(arm.median_ms) or 0.0) for letter, arm in arms] if roofs else []
            plot.show(roofs.roofs if roofs else (), points if at > 0 else [], intensity=at or None)
        self._fill(chart)

    def _next_move(self, missing: str) -> str:
        no_gpu = self.workbench.no_gpu
        return f"{no_gpu}, and {missing}" if no_gpu else f"{missing}: r runs it"

    def _title(self, chart: Chart) -> Text:
        run = chart.run
        if run is None:
            move = "" if chart.why == NO_RUN else self._next_move("no timed run on a GPU yet")  # else the plot says it
            return Text(f"{self._target_id}  {move}")
        parts = [run.mode, f"case {chart.roofs.case}" if chart.roofs else ""]
        parts += [
            chart.gpu,
            STATE_WORDS.get(run.record.state, run.record.state.value),
            plain.local_time(run.record.wall),
        ]
        if run.record.validity.doubted:
            parts.append(f"times {run.record.validity}")
        return Text(f"{self._target_id}  " + " \u00b7 ".join(part for part in parts if part and part != plain.DASH))

    def _facts(self, chart: Chart) -> list[Text]:
        """The two roofs and the case's work, a row each; nothing where there is nothing to draw."""
        roofs = chart.roofs
        if roofs is None:
            return []
        rows: list[Text] = []
        for measured in (True, False):
            roof = roofs.roof(measured=measured)
            name = "measured " if measured else "datasheet"
            if roof is None:
                why = "c measures this GPU's ceilings" if measured else "this GPU is not a known one"
                rows.append(Text(f"{name}  {plain.DASH}  ({why})"))
                continue
            text = f"{name}  {plain.quantity(roof.bandwidth_bytes_per_s, 'bytes/s')}"
            if roofs.flops > 0:
                text += f"  {plain.quantity(roof.flops_per_s, 'flop/s')} {roofs.precision}"
                text += f"  ridge {plain.number(roof.ridge, 3)} FLOP/byte"
            if measured and roofs.peak_sm_clock_mhz is not None:
                text += f"  at {plain.megahertz(roofs.peak_sm_clock_mhz)} MHz"
            rows.append(Text(text))
        work = f"one call   {plain.quantity(roofs.bytes, 'bytes')}"
        work += "" if roofs.path == MEMORY else f" over {roofs.path}"
        if roofs.flops > 0:
            work += f", {plain.quantity(roofs.flops, 'flop')}: {plain.number(roofs.intensity, 3)} FLOP/byte"
        else:
            work += ", no arithmetic counted: bandwidth is its only roof"
        rows.append(Text(work))
        return rows

    def _fill(self, chart: Chart) -> None:
        wide = self.size.width >= WIDE_COLUMNS
        roofs, table = chart.roofs, self.table
        flops = roofs is not None and roofs.flops > 0
        columns = [
            Column("letter", "", 1),
            Column("rung", "rung", 18 if not wide else 28),
            Column("median", "ms", 8 if not wide else 24, "right"),
        ]
        if flops:
            columns.append(Column("flops", "FLOP/s", 12, "right"))
        if wide or not flops:
            columns.append(Column("bytes", "bytes/s", 10, "right"))
        columns += [
            Column("measured", "measured", 8, "right"),
            Column("datasheet", "datasheet", 9, "right"),
            Column("limiter", "limit", 6),
        ]
        if wide:
            columns.append(Column("timing", "timing", 14))
        table.columns = columns
        rows: list[tuple[str, list[Cell]]] = []
        for number, (letter, arm) in enumerate(chart.arms):
            cells = _cells(letter, arm, roofs, interval=wide)
            cells["letter"] = Text(letter, style_of(self.app, f"bold $series-{number % 6 + 1}"))
            rows.append((arm.rung, [cells[column.key] for column in columns]))
        table.show(rows)
        self.give_rows(table, min(max(1, len(rows)), 8) + 1)

    def key_label(self, binding: Binding) -> str:
        """A run without a GPU says nothing about its ceilings."""
        useless = binding.id in ("run_quick", "run_full") and self.workbench.no_gpu
        return "" if useless else super().key_label(binding)

    def _run_targets(self, *, quick: bool) -> None:
        if self.workbench.no_gpu:
            self.notify(f"A run here adds no point to a roofline: {self.workbench.no_gpu}", timeout=5)
        else:
            super()._run_targets(quick=quick)

    def action_open_run(self) -> None:
        run = self._chart.run if self._chart is not None else None
        if run is None:
            self.notify(self._next_move("there is no run yet"))
        else:
            self.workbench.open_screen("run", run_id=run.id)

    def copy_text(self) -> str:
        chart = self._chart
        if chart is None:
            return self._target_id
        roofs = chart.roofs
        kept = ("letter", "rung", "median", "rate", "measured", "datasheet", "limiter")
        cells = [_cells(letter, arm, roofs, interval=True) for letter, arm in chart.arms]
        rows = [[str(one[key]) for key in kept] for one in cells]
        heads = ["", "rung", "median ms", "rate", "of measured", "of datasheet", "limit"]
        table = plain.table(heads, rows, right=heads[2:6])
        return "\n".join([self._title(chart).plain, *(text.plain for text in self._facts(chart)), "", *table])
