"""What a GPU was measured to do at most, beside its datasheet; and a measurement as it goes on, ceiling by ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from aisp.tui import ceilings, plain
from aisp.tui.aside import begin
from aisp.tui.keymap import bind
from aisp.tui.model import PeakView, stored_peak
from aisp.tui.screens.base import WorkScreen
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.store import History

WIDE_COLUMNS = 110


class CeilingsScreen(WorkScreen):
    BINDINGS: ClassVar[list[BindingType]] = bind("measure")
    own_keys_first = True
    heading = "Ceilings of the GPU"
    redrawn = True
    DEFAULT_CSS = """
    CeilingsScreen #note { height: 4; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._stored: PeakView | None = None
        self._looked = False
        self._problem = ""
        self._asked = ""  # why the engine refused a measurement
        self._sheet_name = ""

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        yield TextRows(id="state")
        yield LiveTable(id="table", name="Ceilings", empty="Reading the store")
        yield LogPane(id="note", classes="ruled", empty="")

    def on_mount(self) -> None:
        self.query_one("#note").border_title = "note"
        self.table.focus()
        self._load()

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if not self.is_mounted:
            return
        live = self.workbench.model.peak
        if not names or "status" in names:
            self.refresh_bindings()
        if not names or "status" in names or ("peak" in names and live is not None and live.finished):
            self._load()
        elif "peak" in names or "connection" in names:
            self.draw()

    def _load(self) -> None:
        begin(self, self._read, group="ceilings", exclusive=True)

    async def _read(self) -> None:
        gpus = self.workbench.gpus
        uuid = gpus[0].uuid if gpus else ""

        def newest(history: History) -> PeakView | None:
            found = next(iter(history.peaks(uuid, 1)), None)
            return stored_peak(found) if found is not None else None

        found, self._problem = await self.workbench.read(newest)
        self._stored = self._stored if self._problem else found
        self._looked = True
        from aisp.store.results.datasheets import datasheet  # data of fifteen GPUs, for this screen only

        peak = self.peak
        sheet = datasheet(peak.gpu if peak is not None and peak.gpu else gpus[0].name if gpus else "")
        self._sheet_name = sheet.name if sheet is not None else ""
        self.draw()

    @property
    def peak(self) -> PeakView | None:
        """What is shown: a measurement under way, or one that failed; else the newest that is stored."""
        live = self.workbench.model.peak
        if live is not None and (self._stored is None or live.id >= self._stored.id):
            whole = self._stored if self._stored is not None and self._stored.id == live.id else None
            return whole or live
        return self._stored

    def _state_text(self) -> Text:
        live, peak, no_gpu = self.workbench.model.peak, self.peak, self.workbench.no_gpu
        if live is not None and not live.finished:
            done = len(live.ceilings)
            name = live.ceilings[-1].name if live.ceilings else "waiting for the GPU"
            return Text(f"measuring: {done} of {live.count or '?'}, last {name}", style="bold")
        if live is not None and live.reason:
            return Text(f"not measured: {live.reason}", style="bold")
        if self._asked:
            return Text(f"not measured: {self._asked}", style="bold")
        if self._problem:
            return Text(self._problem, style="bold")
        if peak is None:
            return Text(
                no_gpu or ("nothing was measured yet: r measures it, in about a minute" if self._looked else "")
            )
        return Text(no_gpu or "measured at the clocks that ran; r measures again")

    def draw(self) -> None:
        if not self.is_mounted:
            return
        peak, table = self.peak, self.table
        title = Text("no ceilings are stored" if self._looked else "reading the store")
        if peak is not None:
            when = f"  {plain.local_time(peak.wall)}" if peak.wall else ""
            title = Text(f"{peak.gpu or 'the GPU'}{when}")
            title.append(f"  datasheet: {self._sheet_name or 'none is known'}", style="not bold")
        self.say("title", title)
        state = self._state_text()
        self.say("state", state)
        table.empty = ""  # the title says it
        wide = self.size.width >= WIDE_COLUMNS
        columns = [
            Column("name", "ceiling", 22 if not wide else 26),
            Column("footprint", "footprint", 10, "right"),
            Column("value", "measured", 12, "right"),
            Column("datasheet", "datasheet", 12, "right"),
            Column("share", "share", 6, "right"),
            Column("clock_mhz", "SM MHz", 6, "right"),
        ]
        if not wide:
            del columns[1]
        else:
            columns += [Column("memory_clock_mhz", "mem MHz", 7, "right"), Column("note", "note", None, ratio=1)]
        table.columns = columns
        table.show(
            [self._row(number, row, columns) for number, row in enumerate(ceilings.rows(peak.gpu, peak.ceilings))]
            if peak is not None
            else []
        )
        self.row_changed()

    def _row(self, number: int, row: ceilings.Row, columns: list[Column]) -> tuple[str, list[Cell]]:
        item = row.ceiling
        cells: dict[str, Cell] = {column.key: column.cell(row) for column in ceilings.CEILINGS}
        cells["value"] = Text(plain.quantity(item.value, item.unit), "bold")
        cells["note"] = item.note
        if any(column.key == "footprint" for column in columns):  # else the name tells it
            cells |= {"name": item.name, "footprint": plain.size(item.footprint_bytes)}
        return f"{number} {item.name}", [cells[column.key] for column in columns]

    def row_changed(self) -> None:
        """The highlighted ceiling's note in full: at 80 columns it has no column."""
        pane, peak = self.query_one("#note", LogPane), self.peak
        some = enumerate(peak.ceilings) if peak is not None else ()
        item = next((item for number, item in some if f"{number} {item.name}" == self.chosen_key), None)
        if item is None:
            pane.clear()
            return
        facts = [item.note] if item.note else []
        if item.footprint_bytes is not None:
            facts.append(f"footprint {plain.size(item.footprint_bytes)}")
        if item.memory_clock_mhz is not None:
            facts.append(f"memory clock {plain.megahertz(item.memory_clock_mhz)} MHz")
        pane.prose([f"{item.name}: {', '.join(facts) or plain.DASH}"])

    def key_label(self, binding: Binding) -> str:
        """Without a GPU there is nothing to measure."""
        return "" if binding.id == "measure" and self.workbench.no_gpu else super().key_label(binding)

    def action_measure(self) -> None:
        if self.workbench.no_gpu:
            self.notify(f"The ceilings are not measured: {self.workbench.no_gpu}", timeout=5)
            return
        live = self.workbench.model.peak
        if live is not None and not live.finished:
            self.notify("A measurement is under way", timeout=3)
            return
        self.workbench.measure_ceilings()

    def say_refused(self, why: str) -> None:
        """The engine refused a measurement: this stays on the screen when the message is gone."""
        self._asked = why
        self.draw()

    def copy_text(self) -> str:
        peak = self.peak
        if peak is None:
            return self._state_text().plain
        told = plain.listing(ceilings.CEILINGS, ceilings.rows(peak.gpu, peak.ceilings), width=None, tabs=False)
        return "\n".join([f"{peak.gpu}  {peak.wall}", "", *told])
