"""Whether a run may be believed: what a naive harness says beside what we say, and what every check said.

A run that the model holds is shown as it goes on: until its checks are asked the screen says what comes before that.
Any other is read from the store in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType

from aisp.engine.stored import environment
from aisp.store.outcomes import FindingStatus
from aisp.store.results import hardware, standing, trust
from aisp.tui import findings, plain, readings
from aisp.tui.aside import begin
from aisp.tui.keymap import Key, bind
from aisp.tui.model import RunView, stored_run
from aisp.tui.screens import Source
from aisp.tui.screens.checklist import EVIDENCE, FOLDING, ONLY, WALKING, ChecklistScreen
from aisp.tui.widgets.table import LiveTable

if TYPE_CHECKING:
    from aisp.store import History
    from aisp.store.record import Run

CLOCK_PERIOD_S = 1.0
LOOK_BACK_RUNS = 50
MOST_RUNGS = 6  # rows of the two numbers; the table scrolls where there are more


class TrustScreen(ChecklistScreen):
    """See the module.

    Args:
        target_id: whose run; may be "" where `run_id` is given.
        run_id: of the model or of the store; "" for the target's run that goes on, else its last result.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(
        EVIDENCE,
        ONLY,
        *WALKING,
        *("run_full", "run_quick"),
        *FOLDING,
        Key("open('diff')", "d", "diff",
            "Compare the baseline (of a cheat: its honest twin) with the highlighted rung, as they ran."),
        *("history", "checks", "edit", "cancel"),
    )  # fmt: skip
    heading = "Trust {}"
    shown = frozenset(("runs", "quarantines", "status", "connection"))
    words = ("twin, A/A", "held-out inputs", "verdict")
    DEFAULT_CSS = """
    TrustScreen #numbers { height: 3; }
    """

    def __init__(self, target_id: str = "", run_id: str = "") -> None:
        super().__init__()
        self._target_id = target_id
        self._run_id = run_id
        self._stored: RunView | None = None
        self._looked = ""  # the run that the store was asked for; "-" for the newest
        self._why = ""  # why there is no run
        self._arranged = ""  # the run whose categories were folded to begin with

    def compose_above(self) -> ComposeResult:
        yield LiveTable(id="numbers", name="The two numbers", empty="no rungs yet")

    @property
    def run_view(self) -> RunView | None:
        model = self.workbench.model
        live = model.runs.get(self._run_id) if self._run_id else model.newest_run(self._target_id)
        stored = self._stored
        if stored is not None and (live is None or live.id == stored.id or stored.record.wall > live.record.wall):
            return stored
        return live

    @property
    def target_id(self) -> str:
        run = self.run_view
        return run.record.target if run is not None and run.record.target else self._target_id

    @property
    def rung_name(self) -> str:
        key = (self.query_one("#numbers", LiveTable).cursor_key or "") if self.is_mounted else ""
        return key.removesuffix(findings.OWN_RULE)

    def _look(self) -> None:
        """Ask the store where the model does not have the run, or did not hear what its checks said."""
        model = self.workbench.model
        live = model.runs.get(self._run_id) if self._run_id else model.newest_run(self._target_id)
        wanted = live.id if live is not None else self._run_id or "-"
        if live is not None and not live.record.state.final:
            return
        if self._looked != wanted:
            self._looked = wanted
            begin(self, self._load, group="stored", exclusive=True)

    async def _load(self) -> None:
        run_id = self._looked if self._looked != "-" else ""
        target = self.workbench.target(self._target_id)
        names = (self._target_id,) if target is None else target.names

        def read(history: History) -> RunView | None:
            if run_id:
                found: Run | None = history.run(run_id)
            else:
                newest = sorted((r for n in names for r in history.newest(LOOK_BACK_RUNS, n)), key=lambda run: run.id)
                result, attempt = standing.last(newest)
                found = result or attempt
            if found is None:
                return None
            view = stored_run(found, {})
            view.confined = hardware.confined(environment(history, found))
            return view

        found, self._why = await self.workbench.read(read)
        if not self._why:
            live = self.workbench.model.runs.get(found.id) if found is not None else None
            if found is not None and live is not None and live.record.findings:
                live.confined = found.confined
            else:
                self._stored = found
            self._why = "no run of this target is stored yet: r runs it quickly, R in full"
        if self._stored is not None:
            self.workbench.model.mark(self._stored)
        self.draw()
        self.renew_header()

    def refresh_from(self, names: set[str]) -> None:
        if self._stored is not None and "quarantines" in names:
            self.workbench.model.mark(self._stored)
        super().refresh_from(names)

    def on_mount(self) -> None:
        self.set_interval(CLOCK_PERIOD_S, self._draw_title)

    def _draw_title(self) -> None:
        run = self.run_view
        if run is not None and self.is_mounted:
            self.say("title", readings.title_text(run, self.workbench.model.now_ns()))

    def draw(self) -> None:
        if not self.is_mounted:
            return
        self._look()
        run, ascii = self.run_view, self.workbench.ascii
        numbers, table = self.query_one("#numbers", LiveTable), self.table
        waiting = findings.waiting_for(run, self._why)
        if run is None:
            self.say("title", Text(self._target_id or self._run_id))
            self.say("state", Text(""))
            numbers.display = False
            self.say_empty(waiting)
            return
        if self.has_class("-empty"):
            self.say_empty("")
            table.focus()
        categories = trust.by_category(run.record.findings)
        if categories and self._arranged != run.id:
            self._arranged = run.id
            quiet = (FindingStatus.PASSED, FindingStatus.NOT_APPLICABLE)
            self.folded = {one.name for one in categories if all(said.status in quiet for said in one.checks)}
        self._draw_title()
        self.say("state", findings.summary_text(run, categories, ascii))
        numbers.columns = findings.number_columns(self.size.width)
        rows = findings.number_rows(run, self.size.width, ascii)
        numbers.display = bool(rows)
        self.give_rows(numbers, min(len(rows), MOST_RUNGS) + 1)
        numbers.show(rows)
        only = findings.FILTERS[self.only]
        table.columns = findings.said_columns()
        table.empty = waiting or f"{only.words}: there are none; o shows others"
        folded = set() if self.only else self.folded
        shown = findings.said_rows(run, categories, only, folded, ascii)
        first = table.cursor_key is None
        table.show(shown)
        if first and any(one.status in trust.TOLD_FIRST for one in categories):
            # The worst is what one comes for.
            table.move_to(next((key for key, _ in shown if key.startswith("check ")), ""))
        table.border_title = f"Checks: {only.words}"
        self.row_changed()

    def about(self, kind: str, name: str) -> tuple[str, Sequence[str]]:
        run = self.run_view
        categories = trust.by_category(run.record.findings) if run is not None else []
        if kind == "category":
            one = next((one for one in categories if one.name == name), None)
            return name, self._about_category(one) if one is not None else []
        said = next((said for one in categories for said in one.checks if said.check == name), None)
        view = self.book.checks.get(name) if self.book is not None else None
        head = [view.title, ""] if view is not None else []
        lines = findings.evidence_lines(said, run) if said is not None else []
        return name, [*head, *lines, *([self.problem] if self.problem else findings.check_lines(name, self.book))]

    def _about_category(self, one: trust.Category) -> list[str]:
        lines = [findings.counts_text([one]), ""]
        for said in one.checks:
            word = findings.STATUS_WORDS[said.status]
            arms = findings.arms_text([item.arm for item in said.worst], self.run_view)
            who = f" ({arms})" if arms else ""
            lines.append(f"{said.check} {word}{who}: {said.worst[0].evidence or 'nothing to remark'}")
        return lines

    def groups(self) -> Sequence[str]:
        run = self.run_view
        return [one.name for one in trust.by_category(run.record.findings)] if run is not None else []

    def opened_about(self, name: str) -> dict[str, Any] | None:
        """The checks are of this run; the diff is of the rung that is highlighted above, as it ran."""
        run = self.run_view
        if name == "checks":
            return {"run_id": run.id if run is not None else ""}
        if name != "diff":
            return super().opened_about(name)
        if run is None or not run.record.target:
            return None
        pair = self.workbench.pair_of(run.record.target, self.rung_name)
        left, right = (Source.ran(rung, run.record) for rung in pair)
        return {"target_id": run.record.target, "left": left, "right": right}

    def copy_text(self) -> str:
        run = self.run_view
        if run is None or (self.focused is not None and self.focused.id == "about"):
            return super().copy_text()
        ascii, wide = True, 120
        heads = [column.title for column in findings.number_columns(wide)]
        rows = [[str(cell) for cell in cells] for _, cells in findings.number_rows(run, wide, ascii)]
        categories = trust.by_category(run.record.findings)
        lines = [
            readings.title_text(run, self.workbench.model.now_ns()).plain,
            findings.summary_text(run, categories, ascii).plain,
            "",
            *plain.table(heads, rows),
        ]
        for one in categories:
            lines += ["", f"{one.name}: {findings.counts_text([one])}"]
            for said in one.checks:
                lines += [f"  {findings.STATUS_WORDS[item.status]:<12} {item.check}  {item.arm or 'run'}: "
                          f"{item.evidence}" for item in said.findings]  # fmt: skip
        return "\n".join(lines)
