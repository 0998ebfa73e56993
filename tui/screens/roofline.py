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
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer

from aisp.engine.speed_of_light import MEMORY
from aisp.store.outcomes import State, Validity
from aisp.store.record import Arm
from aisp.store.text import clean_line
from aisp.tui import plain, readings
from aisp.tui.aside import begin
from aisp.tui.keymap import Key, bind
from aisp.tui.model import RunView, stored_run
from aisp.tui.results import STATE_WORDS, timing_words
from aisp.tui.screens.base import WorkScreen
from aisp.tui.themes import style_of
from aisp.tui.widgets.roofplot import Roof, RoofPlot, RoofPoint, bar_rows
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store import History

LOOK_BACK_RUNS = 200  # how many of a target's runs are looked through for one that was timed on a GPU
WIDE_COLUMNS = 100
LIVE_PERIOD_S = 1.0


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn. Rates are per second; None and "" where something is not known.

    Attributes:
        run: whose rungs are shown; None where there was none on a GPU.
        gpu: the driver's name of it.
        case: the case's name.
        precision: whose rate of arithmetic counts, "bf16"; "" for a case without arithmetic.
        path: what the bytes cross: "memory" of the GPU, "pcie", "nvlink".
        flops, bytes: of one call; bytes over that path.
        roofs: measured first, where they are known.
        peak_wall: when the ceilings were measured.
        peak_sm_clock_mhz: SM clock while the rate of the arithmetic was measured.
        why: why there is nothing to draw; "" where there is.
    """

    run: RunView | None = None
    gpu: str = ""
    case: str = ""
    precision: str = ""
    path: str = MEMORY
    flops: float = 0.0
    bytes: float = 0.0
    roofs: tuple[Roof, ...] = ()
    peak_wall: str = ""
    peak_sm_clock_mhz: float | None = None
    why: str = ""

    @property
    def intensity(self) -> float:
        """flop/byte of the case; 0 without arithmetic."""
        return self.flops / self.bytes if self.bytes > 0 else 0.0

    @property
    def arms(self) -> list[tuple[str, Arm]]:
        """Letter and arm of every timed rung, in the run's order, without the A/A arm."""
        if self.run is None:
            return []
        timed = [arm for arm in self.run.record.arms if arm.median_ms is not None and not arm.twin]
        letters = string.ascii_uppercase + string.ascii_lowercase
        return [(letters[number % len(letters)], arm) for number, arm in enumerate(timed)]

    def rate(self, arm: Arm) -> float | None:
        """flop/s of an arm; bytes/s where the case has no arithmetic."""
        if arm.median_ms is None:
            return None
        return (self.flops or self.bytes) / arm.median_ms * 1e3 or None

    def share(self, arm: Arm, *, measured: bool) -> float | None:
        """What an arm reaches of a roof at the case's intensity; None where that roof is not known."""
        rate = self.rate(arm)
        most = next((roof.attainable(self.intensity) for roof in self.roofs if roof.measured == measured), None)
        return rate / most if rate and most else None


@dataclass(slots=True)
class _Machine:
    """The GPU that a run under way is on."""

    gpu: str = ""
    uuid: str = ""


def look(history: History | None, target: Target, run_id: str, live: RunView | None, machine: _Machine) -> Chart:
    """The chart of a run, or of the target's newest timed one on a GPU. Called in a thread: reads the store.

    Args:
        history: the store; None where there is none yet.
        run_id: "" for the newest.
        live: the run as the engine tells it, where it has not ended.
        machine: what `live` runs on.
    """
    run, facts = live, {"gpu": machine.gpu, "gpu_uuid": machine.uuid}
    if live is None and history is not None:
        records = [history.run(run_id)] if run_id else history.newest(LOOK_BACK_RUNS, target.id)
        for record in records:
            timed = record.state is State.OK and any(arm.median_ms is not None for arm in record.arms)
            if run_id or (timed and record.device.startswith("cuda")):
                run = stored_run(record, {})
                found = history.environment(record.environment) if record.environment else {}
                facts = {key: clean_line(str(found.get(key) or "")) for key in ("gpu", "gpu_uuid")}
                break
    gpu, uuid = facts["gpu"], facts["gpu_uuid"]
    if run is not None and run.record.device.startswith("cpu"):
        return Chart(run, why="this run is on the CPU: a roofline is about the ceilings of a GPU")
    return _chart(history, target, run, gpu or machine.gpu, uuid or machine.uuid)


def _chart(history: History | None, target: Target, run: RunView | None, gpu: str, uuid: str) -> Chart:
    # In this thread: they import the store's records, and numpy with them.
    from aisp.engine import speed_of_light

    try:
        case = target.case(run.record.case) if run is not None and run.record.case else target.cases[0]
    except LookupError:
        return Chart(
            run, gpu, why=f"the run was of case {run.record.case if run else ''}, which the lesson no longer has"
        )
    peak = next(iter(history.peaks(uuid, 1)), None) if history is not None and uuid else None
    work = speed_of_light.work(target, case)
    if not work.counted:
        return Chart(run, gpu, case.name, why="the lesson counts neither bytes nor flops, so it has no roof")
    found = speed_of_light.roofline(target, case, gpu, peak)
    known: tuple[Roof, ...] = ()
    clock_mhz = None
    if found is not None:
        roofs = (
            Roof(found.measured_bandwidth, found.measured_flops, True),
            Roof(found.spec_bandwidth, found.spec_flops, False),
        )
        known = tuple(roof for roof in roofs if roof.bandwidth or roof.flops)
        dense = peak.ceiling(f"{found.precision} dense") if peak is not None else None
        clock_mhz = dense.sm_clock_mhz if dense is not None else None
    if found is None or not known:
        why = f"nothing is known of {gpu}: c measures its ceilings" if gpu else "no run on a GPU yet: r runs it"
        return Chart(run, gpu, case.name, why=why)
    return Chart(
        run,
        gpu,
        case.name,
        found.precision,
        found.path,
        found.flops,
        found.bytes,
        known,
        peak.wall if peak is not None and any(roof.measured for roof in known) else "",
        clock_mhz,
    )


class RooflineScreen(WorkScreen):
    """See the module."""

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("open_run", "enter", "open run", "Open the run whose rungs are shown.", "⏎"),
        *("run_quick", "run_full", "ceilings", "diff", "history", "cancel", "edit"),
    )
    own_keys_first = True
    DEFAULT_CSS = """
    RooflineScreen #title { background: $surface; text-style: bold; }
    RooflineScreen #facts { height: 3; background: $surface; }
    RooflineScreen #plot { height: 1fr; min-height: 5; }
    RooflineScreen #bars { display: none; height: 1fr; margin: 1 1 0 1; }
    RooflineScreen.-bars #plot { display: none; }
    RooflineScreen.-bars #bars { display: block; }
    RooflineScreen #rungs { height: 5; }
    """

    def __init__(self, target_id: str, run_id: str = "") -> None:
        super().__init__()
        self._target_id = target_id
        self._run_id = run_id
        self._chart: Chart | None = None
        self._problem = ""
        self._later: Timer | None = None

    @property
    def target_id(self) -> str:
        return self._target_id

    @property
    def rung_name(self) -> str:
        return (self.table.cursor_key or "") if self.is_mounted else ""

    @property
    def header_title(self) -> str:
        return f"{self._target_id}  roofline"

    @property
    def table(self) -> LiveTable:
        """The legend: one row per timed rung."""
        return self.query_one("#rungs", LiveTable)

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        yield TextRows(id="facts")
        yield RoofPlot(id="plot", name="Plot", empty="reading the store")
        yield TextRows(id="bars")
        yield LiveTable(id="rungs", name="Rungs", empty="no rung was timed")

    def on_mount(self) -> None:
        self.table.focus()
        self._load()

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._draw)

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if not self.is_mounted:
            return
        if not names or names & {"catalog", "board", "peak", "status"}:
            self._load()
        elif f"run:{self._shown_run}" in names and self._later is None:
            # A run under way changes many times a second, and each look reads the store.
            self._later = self.set_timer(LIVE_PERIOD_S, self._load)

    @property
    def _shown_run(self) -> str:
        run = self._chart.run if self._chart is not None else None
        return run.id if run is not None else self._run_id

    def _load(self) -> None:
        if self._later is not None:
            self._later.stop()
            self._later = None
        begin(self, self._read, group="roofline", exclusive=True)

    async def _read(self) -> None:
        target = self.workbench.target(self._target_id)
        if target is None:
            self._problem = "" if self.workbench.catalog is None else "this target is not in the catalogue"
            self._draw()
            return
        live = self.workbench.model.runs.get(self._run_id) if self._run_id else None
        if live is not None and live.record.state.final and not live.whole:
            live = None
        if live is not None and live.record.state.final:
            live = None  # the store has all of it, and the environment that it ran in
        gpus = self.workbench.gpus
        machine = _Machine(gpus[0].name, gpus[0].uuid) if gpus else _Machine()
        ask = partial(look, target=target, run_id=self._run_id, live=live, machine=machine)
        try:
            found = await self.workbench.stored(lambda history: ask(history))
            self._chart = found if found is not None else ask(None)
            self._problem = ""
        except Exception as error:
            self._problem = str(error)
        self._draw()

    # -- drawing ----------------------------------------------------------------------------------------

    def _draw(self) -> None:
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
        arms = chart.arms
        as_bars = not chart.why and chart.flops <= 0
        self.set_class(as_bars, "-bars")
        if as_bars:
            bars = self.query_one("#bars", TextRows)
            styles = [style_of(self.app, f"$series-{number % 6 + 1}") for number in range(len(arms))]
            rates = [(letter, arm.rung, chart.rate(arm) or 0.0) for letter, arm in arms]
            width = max(20, self.size.width - 2)
            bars.show(bar_rows(chart.roofs, rates, width, ascii_only=self.workbench.ascii, styles=styles))
        else:
            plot.empty = chart.why or "no roofs are known"
            points = [RoofPoint(letter, chart.intensity, chart.rate(arm) or 0.0) for letter, arm in arms]
            plot.show(
                () if chart.why else chart.roofs,
                points if chart.intensity > 0 else [],
                intensity=chart.intensity or None,
            )
        self._fill(chart)

    def _title(self, chart: Chart) -> Text:
        run = chart.run
        if run is None:
            return Text(f"{self._target_id}  no timed run on a GPU yet: r runs it")
        parts = [plain.run_mode(run.record.quick), f"case {chart.case}" if chart.case else ""]
        parts += [
            chart.gpu,
            STATE_WORDS.get(run.record.state, run.record.state.value),
            plain.local_time(run.record.wall),
        ]
        if run.record.validity in (Validity.SUSPECT, Validity.CAUGHT):
            parts.append(f"times {run.record.validity}")
        return Text(f"{self._target_id}  " + " \u00b7 ".join(part for part in parts if part and part != plain.DASH))

    def _facts(self, chart: Chart) -> list[Text]:
        """The two roofs and the case's work, a row each; nothing where there is nothing to draw."""
        if chart.why:
            return []
        rows: list[Text] = []
        for measured in (True, False):
            roof = next((roof for roof in chart.roofs if roof.measured == measured), None)
            name = "measured " if measured else "datasheet"
            if roof is None:
                why = "c measures this GPU's ceilings" if measured else "this GPU is not a known one"
                rows.append(Text(f"{name}  {plain.DASH}  ({why})"))
                continue
            text = f"{name}  {plain.quantity(roof.bandwidth, 'bytes/s')}"
            if chart.flops > 0:
                text += f"  {plain.quantity(roof.flops, 'flop/s')} {chart.precision}"
                text += f"  ridge {plain.number(roof.ridge, 3)} FLOP/byte"
            if measured and chart.peak_sm_clock_mhz is not None:
                text += f"  at {plain.megahertz(chart.peak_sm_clock_mhz)} MHz"
            rows.append(Text(text))
        work = f"one call   {plain.quantity(chart.bytes, 'bytes')}"
        work += "" if chart.path == MEMORY else f" over {chart.path}"
        if chart.flops > 0:
            work += f", {plain.quantity(chart.flops, 'flop')}: {plain.number(chart.intensity, 3)} FLOP/byte"
        else:
            work += ", no arithmetic counted: bandwidth is its only roof"
        rows.append(Text(work))
        return rows

    def _fill(self, chart: Chart) -> None:
        wide = self.size.width >= WIDE_COLUMNS
        flops, table = chart.flops > 0, self.table
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
            seconds = (arm.median_ms or 0.0) / 1e3
            cells: dict[str, Cell] = {
                "letter": Text(letter, style_of(self.app, f"bold $series-{number % 6 + 1}")),
                "rung": Text(arm.rung),
                "median": plain.milliseconds(arm.median_ms, *((arm.low_ms, arm.high_ms) if wide else (None, None))),
                "flops": plain.quantity(chart.flops / seconds, "flop/s"),
                "bytes": plain.quantity(chart.bytes / seconds if chart.bytes > 0 else None, "bytes/s"),
                "measured": plain.percent(chart.share(arm, measured=True)),
                "datasheet": plain.percent(chart.share(arm, measured=False)),
                "limiter": readings.limiter_word(arm),
                "timing": timing_words(arm.timing, arm.calls),
            }
            rows.append((arm.rung, [cells[column.key] for column in columns]))
        table.show(rows)
        table.styles.height = min(max(1, len(rows)), 8) + 1

    # -- keys -------------------------------------------------------------------------------------------

    def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        message.stop()
        self.action_open_run()

    def action_open_run(self) -> None:
        """Open the run whose rungs are shown."""
        run = self._chart.run if self._chart is not None else None
        if run is None:
            self.notify("There is no run yet; r runs the target")
        else:
            self.workbench.open_screen("run", run_id=run.id)

    def copy_text(self) -> str:
        chart = self._chart
        if chart is None:
            return self._target_id
        rows = [
            [
                letter,
                arm.rung,
                plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms),
                plain.quantity(chart.rate(arm), "flop/s" if chart.flops > 0 else "bytes/s"),
                plain.percent(chart.share(arm, measured=True)),
                plain.percent(chart.share(arm, measured=False)),
                readings.limiter_word(arm),
            ]
            for letter, arm in chart.arms
        ]
        heads = ["", "rung", "median ms", "rate", "of measured", "of datasheet", "limit"]
        table = plain.table(heads, rows, right=heads[2:6])
        return "\n".join([self._title(chart).plain, *(text.plain for text in self._facts(chart)), "", *table])
