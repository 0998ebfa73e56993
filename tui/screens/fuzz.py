"""A fuzz of a target, as it goes on or from the store: cases as they are judged, failures, and all about one of them.

A fuzz that the model holds is drawn as its events come, ten times a second at most; any other is read from the store in
a thread. On a wide terminal the failure stands beside the cases, on a narrow one `enter` puts it in their place.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Static

from aisp.engine.protocol import requests
from aisp.store.results.fuzz import FUZZ_CASES, case_text
from aisp.store.results.tables import cells_of, shown
from aisp.store.results.tables.fuzzes import FAILURES, NAIVE, RUNGS, tried
from aisp.store.text import clean_line
from aisp.tui import fuzzes, plain
from aisp.tui.aside import begin
from aisp.tui.fuzzes import FuzzView
from aisp.tui.keymap import Key, bind
from aisp.tui.screens.base import WorkScreen, entitle
from aisp.tui.screens.source import SourceView
from aisp.tui.themes import style_of
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from textual.widget import Widget

    from aisp.store.record import Failure

WIDE_COLUMNS = 120
CLOCK_PERIOD_S = 1.0
MOST_RUNGS = 6  # rows of the tally; it scrolls where there are more
BAR_COLUMNS = 100  # from here on there is room for a longer bar
BAR_CELLS = (8, 20)


class FuzzScreen(WorkScreen):
    """See the module.

    Args:
        target_id: whose fuzzes.
        fuzz_id: the one to show first; "" for the newest, also when a newer one comes.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key(
            "start", "r", "fuzz", "Try the chosen rung, or all of them, on 200 drawn cases against the fp64 reference."
        ),
        Key("stop", "x", "stop", "Stop the fuzz; what was judged is kept."),
        Key("failure", "enter", "read", "Read all about the highlighted failure, and go back.", "⏎"),
        Key("script", "s", "script", "Show the highlighted failure's script whole, and go back."),
        Key("copy", "y", "copy", "Copy the highlighted failure's script; what was found, where nothing failed."),
        Key(
            "replay",
            "p",
            "replay",
            "Do the highlighted failure again from its stored sources, and say what became of it.",
        ),
        Key("only", "o", "failing", "Show only the failing cases, or every case."),
        Key("pick_rung(1)", "right_square_bracket", "rung", "Show the next rung alone, after the last all.", "[ ]"),
        Key("pick_rung(-1)", "left_square_bracket", "", "Show the rung before alone, before the first all."),
        Key("pick_fuzz(1)", "left_curly_bracket", "earlier fuzz", "Show the fuzz before this one.", "{ }"),
        Key("pick_fuzz(-1)", "right_curly_bracket", "", "Show the fuzz after this one."),
        Key("step_failure(1)", "n", "", "Go to the next failure."),
        Key("step_failure(-1)", "N", "", "Go to the failure before."),
        *("diff", "edit", "history", "trust"),
    )
    own_keys_first = True
    AUTO_FOCUS = ""  # `draw` knows which pane has something to walk through
    DEFAULT_CSS = """
    FuzzScreen #title { background: $surface; text-style: bold; }
    FuzzScreen #state, FuzzScreen #note { background: $surface; }
    FuzzScreen #note { display: none; }
    FuzzScreen #tally { height: 2; }
    FuzzScreen #panes { height: 1fr; min-height: 4; layout: vertical; }
    FuzzScreen #stream { height: 1fr; width: 1fr; }
    FuzzScreen #cases { height: 1fr; width: 1fr; }
    FuzzScreen #failures { height: 45%; min-height: 4; width: 1fr; display: none; }
    FuzzScreen #detail { height: 1fr; width: 1fr; display: none; }
    FuzzScreen #script { height: 1fr; width: 1fr; display: none; }
    FuzzScreen #empty { display: none; height: 1fr; padding: 1 2; }
    FuzzScreen.-failing #failures { display: block; }
    FuzzScreen.-reading #detail { display: block; }
    FuzzScreen.-reading #stream { display: none; }
    FuzzScreen.-wide #panes { layout: horizontal; }
    FuzzScreen.-wide #stream { display: block; }
    FuzzScreen.-wide #detail { display: block; }
    FuzzScreen.-script #script { display: block; }
    FuzzScreen.-script #panes { display: none; }
    FuzzScreen.-empty #empty { display: block; }
    FuzzScreen.-empty #panes, FuzzScreen.-empty #tally { display: none; }
    FuzzScreen.-short #tally { display: none; }
    """

    def __init__(self, target_id: str, fuzz_id: str = "") -> None:
        super().__init__()
        self._target_id = target_id
        self._fuzz_id = fuzz_id  # "" follows the newest
        self._rung = ""  # shown alone; "" for all
        self._only = False
        self._stored: list[FuzzView] = []
        self._read_failures: set[str] = set()
        self._looked = False
        self._problem = ""  # why the store cannot be read
        self._refused = ""  # why the engine did not start a fuzz
        self._ended: set[str] = set()
        self._cases_told: tuple[str, str, bool, int] = ("", "", False, 0)  # fuzz, rung, only, cases that were drawn
        self._newest: str | None = None  # failure at the top of the list
        self._replaying: set[str] = set()  # failures whose replay was asked for here and has not ended
        self._replay_ids: dict[str, str] = {}  # failure by the id of its replay

    @property
    def target_id(self) -> str:
        return self._target_id

    @property
    def header_title(self) -> str:
        return f"Fuzz {self._target_id}"

    @property
    def rung_name(self) -> str:
        failure = self.failure if self.is_mounted else None
        return failure.rung if failure is not None else self._rung

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        yield TextRows(id="state")
        yield TextRows(id="note")
        yield LiveTable(id="tally", name="Tally", empty="no rungs yet")
        with Container(id="panes"):
            with Vertical(id="stream"):
                yield LogPane(id="cases", classes="pane", empty="no case to show")
                table = LiveTable(id="failures", classes="pane", empty="no case has failed")
                widths = {"rung": 16, "strategy": 11, "finding": 12}
                said = [
                    Column(one.key, one.head or "", widths.get(one.key), ratio=one.key == "case") for one in FAILURES
                ]
                table.columns = [Column("sign", "", 1), *said]
                yield table
            yield LogPane(id="detail", classes="pane", empty="nothing to tell yet")
        yield SourceView(id="script", classes="pane")
        yield Static(id="empty", markup=False)

    def on_mount(self) -> None:
        self.query_one("#tally", LiveTable).can_focus = False
        self._load()
        self.set_interval(CLOCK_PERIOD_S, self._draw_head)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE_COLUMNS, "-wide")
        self.set_class(event.size.height < 16, "-short")
        self.call_after_refresh(self.draw)

    def on_refitted(self, message: Refitted) -> None:
        if message.pane.id == "detail":
            self._draw_detail()

    @property
    def cases(self) -> LogPane:
        """The cases as they come."""
        return self.query_one("#cases", LogPane)

    @property
    def table(self) -> LiveTable:
        """The failures, newest first."""
        return self.query_one("#failures", LiveTable)

    # -- which fuzz -------------------------------------------------------------------------------------

    @property
    def all_fuzzes(self) -> list[FuzzView]:
        """Every fuzz of the target that is known, newest first; one that missed events gives way to its record."""
        found = {fuzz.id: fuzz for fuzz in self._stored}
        for fuzz in self.workbench.model.fuzzes_of(self._target_id):
            if fuzz.id not in found or not (fuzz.gaps and fuzz.state.final):
                found[fuzz.id] = fuzz
        return sorted(found.values(), key=lambda fuzz: fuzz.id, reverse=True)

    @property
    def fuzz(self) -> FuzzView | None:
        """The one that is shown."""
        known = self.all_fuzzes
        return next((fuzz for fuzz in known if fuzz.id == self._fuzz_id), known[0] if known else None)

    @property
    def failure(self) -> Failure | None:
        """The highlighted failure."""
        fuzz = self.fuzz
        return fuzz.failures.get(self.table.cursor_key or "") if fuzz is not None else None

    def _load(self) -> None:
        begin(self, self._read, group="stored", exclusive=True)

    async def _read(self) -> None:
        try:
            found = await self.workbench.stored(partial(fuzzes.read_fuzzes, target=self._target_id))
            self._problem = ""
        except Exception as error:
            found, self._problem = None, clean_line(f"The fuzzes cannot be read: {error}")
        kept = {fuzz.id: fuzz for fuzz in self._stored}
        self._stored = [kept.get(fuzz.id, fuzz) for fuzz in found or []]
        self._looked = True
        self.draw()

    def _want_failures(self, fuzz: FuzzView) -> None:
        if fuzz.stored and fuzz.id not in self._read_failures:
            self._read_failures.add(fuzz.id)
            begin(self, partial(self._fetch_failures, fuzz), group="failures")

    async def _fetch_failures(self, fuzz: FuzzView) -> None:
        try:
            found = await self.workbench.stored(lambda history: history.failures(fuzz.id))
        except Exception as error:
            self._problem = f"The failures cannot be read: {error}"
            found = None
        for failure in found or []:
            fuzz.take_failure(failure, shrunk=True)
        self.draw()

    # -- drawing ----------------------------------------------------------------------------------------

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if not self.is_mounted:
            return
        if "replays" in names or "fuzzes" in names:
            self._tell_replays()
        ended = {fuzz.id for fuzz in self.workbench.model.fuzzes_of(self._target_id) if fuzz.state.final}
        if ended - self._ended:
            self._ended = ended
            self._load()
        fuzz = self.fuzz
        if not names or names & {"fuzzes", "replays", "connection"}:
            self.draw()
        elif fuzz is not None and f"fuzz:{fuzz.id}" in names:
            self._draw_head()
            self._draw_tally(fuzz)
            self._draw_cases(fuzz)

    def draw(self) -> None:
        """Draw everything."""
        if not self.is_mounted:
            return
        fuzz = self.fuzz
        self.refresh_bindings()  # whether there is anything to stop
        self.set_class(fuzz is None, "-empty")
        self._draw_head()
        if fuzz is None:
            self.query_one("#empty", Static).update(Text(self._empty_text()))
            if self.focused is not None:
                # A hidden pane must not keep the focus: its keys would do nothing that can be seen.
                self.set_focus(None)
            return
        if self._rung not in fuzz.rungs:
            self._rung = ""
        self._want_failures(fuzz)
        self._draw_tally(fuzz)
        self._draw_cases(fuzz)
        self._draw_failures(fuzz)
        self._draw_detail()
        if self.focused is None:
            (self.table if self.has_class("-failing") else self.cases).focus()

    def _empty_text(self) -> str:
        if self._problem:
            return self._problem
        if not self._looked:
            return "Reading the store"
        refused = f"The engine refused: {self._refused}\n\n" if self._refused else ""
        return (
            f"{refused}No fuzz of this target is stored yet.\n\n"
            f"r  tries all its rungs on {FUZZ_CASES} drawn cases each, against the fp64 reference:\n"
            "   sizes of 1 and around powers of two, dtypes, layouts, hard and non-finite values.\n\n"
            "What fails is shrunk to the smallest failing case, with a script that shows it.\n\n"
            f"or, in a shell: {self.workbench.typed('fuzz', self._target_id)}"
        )

    def _draw_head(self) -> None:
        if not self.is_mounted:
            return
        fuzz, ascii = self.fuzz, self.workbench.ascii
        title, state, note = (self.query_one(f"#{name}", TextRows) for name in ("title", "state", "note"))
        if fuzz is None:
            title.show([Text(self._target_id)])
            state.show([Text("no fuzz yet")])
            note.display = False
            return
        known = self.all_fuzzes
        words = fuzzes.title_text(fuzz, ascii)
        if len(known) > 1:
            words += f"  fuzz {len(known) - [one.id for one in known].index(fuzz.id)} of {len(known)}"
        title.show([Text(words)])
        bar = BAR_CELLS[self.size.width >= BAR_COLUMNS]
        style = "bold" if not fuzz.state.final or fuzz.reason else ""
        state.show([Text(fuzzes.state_text(fuzz, self.workbench.model.now_ns(), ascii, bar=bar), style)])
        said = [f"not started: {self._refused}"] if self._refused else []
        said += [self._problem] if self._problem else []
        said += fuzz.notes
        note.display = bool(said)
        note.show([Text("; ".join(said), "bold" if self._refused or self._problem else "")])

    def _draw_tally(self, fuzz: FuzzView) -> None:
        table, ascii = self.query_one("#tally", LiveTable), self.workbench.ascii
        wide = self.size.width >= WIDE_COLUMNS
        naive = any(rung.naive is not None for rung in fuzz.rungs.values())
        # On a wide terminal a column that takes what is left would tear the counts away from their rung.
        left = () if wide else ("cases", "unsupported", "max_error")
        columns = shown(RUNGS, "smallest", *left, *(() if naive else NAIVE))
        said = [fuzzes.verdict_word(rung, fuzz.state, ascii, fuzz.asked)[0] for rung in fuzz.rungs.values()]
        widths = {"verdict": max(map(plain.cells, [*said, "right so far"]))}
        table.columns = [
            Column(
                column.key,
                column.head or "",
                widths.get(column.key),
                "right" if column.right else "left",
                ratio=int(column.key == "rung" and not wide),
            )
            for column in columns
        ]
        rows: list[tuple[str, list[Cell]]] = []
        mark = "> " if ascii else "▸ "
        for name, rung in fuzz.rungs.items():
            word, style = fuzzes.verdict_word(rung, fuzz.state, ascii, fuzz.asked)
            chosen, one = name == self._rung, tried(rung.so_far, {})
            styles = dict.fromkeys(("failing", "by_strategy"), fuzzes.WRONG_STYLE if rung.total.failing else "")
            styles |= dict.fromkeys(NAIVE, f"bold {fuzzes.WRONG_STYLE}" if rung.fooled else "")
            cells: dict[str, Cell] = {
                column.key: Text(text, style_of(self.app, look))
                if (look := styles.get(column.key)) and (text := column.cell(one)) != plain.DASH
                else column.cell(one)
                for column in columns
            }
            cells["rung"] = Text(f"{mark if chosen else '  ' if self._rung else ''}{name}", "bold" if chosen else "")
            cells["verdict"] = Text(word, style_of(self.app, style)) if style else word
            rows.append((name, [cells[column.key] for column in columns]))
        self.give_rows(table, min(max(1, len(rows)), MOST_RUNGS) + 1)
        table.show(rows)

    def _draw_cases(self, fuzz: FuzzView) -> None:
        """Add the cases that came since; begin anew where another fuzz, rung or choice is shown."""
        pane, ascii = self.cases, self.workbench.ascii
        *same, drawn = self._cases_told
        if [fuzz.id, self._rung, self._only] != same or fuzz.case_count < drawn:
            pane.clear()
            drawn = 0
        fresh = min(fuzz.case_count - drawn, len(fuzz.cases))
        self._cases_told = (fuzz.id, self._rung, self._only, fuzz.case_count)
        alone = bool(self._rung) or len(fuzz.rungs) == 1
        lines = []
        for at in range(len(fuzz.cases) - fresh, len(fuzz.cases)):
            case = fuzz.cases[at]
            if self._rung in ("", case.rung) and (case.verdict.failing or not self._only):
                line = fuzzes.case_line(case, ascii, with_rung=not alone)
                lines.append((line, fuzzes.case_style(case.verdict)))
        pane.extend(lines)
        which = "Failing cases" if self._only else "Cases"
        of = f" of {self._rung}" if self._rung else ""
        told = (
            "the store keeps the failing ones alone"
            if fuzz.stored
            else "newest last, errors in units of what is allowed"
        )
        entitle(pane, f"{which}{of}: {told}")

    def _draw_failures(self, fuzz: FuzzView) -> None:
        table, ascii = self.table, self.workbench.ascii
        # By id, which begins with the time: the store has them in an order of its own.
        newest_first = sorted(fuzz.failures.values(), key=lambda one: one.id, reverse=True)
        shown = [one for one in newest_first if self._rung in ("", one.rung)]
        # The newest is highlighted until the person goes to another or reads.
        follows = table.cursor_key in (None, self._newest) and not self._reading
        rows: list[tuple[str, list[Cell]]] = []
        for one in shown:
            style = style_of(self.app, fuzzes.case_style(one.verdict))
            rows.append(
                (
                    one.id,
                    [Text(fuzzes.case_sign(one.verdict, ascii), style), *cells_of(FAILURES, one)],
                )
            )
        table.show(rows)
        self._newest = rows[0][0] if rows else None
        if follows and self._newest is not None:
            table.move_to(self._newest)
        had = self.has_class("-failing")
        self.set_class(bool(rows), "-failing")
        if rows and not had and self.focused is self.cases:
            table.focus()
        elif not rows and self.focused is table:
            self.cases.focus()
        of = f" of {self._rung}" if self._rung else ""
        entitle(table, f"Failures{of}, newest first: {len(rows)}")

    @property
    def _reading(self) -> bool:
        """Whether the text about a failure, or its script, has the focus."""
        return self.focused is not None and self.focused.id in ("detail", "script")

    def _draw_detail(self) -> None:
        """Say all about the highlighted failure; of the fuzz where there is none."""
        fuzz = self.fuzz
        if not self.is_mounted or fuzz is None:
            return
        pane, failure, ascii = self.query_one("#detail", LogPane), self.failure, self.workbench.ascii
        # Out of sight it has no width yet: it will have the screen's.
        width = max(20, (pane.inner_width if pane.size.width else self.size.width - 2) - 1)
        if failure is not None:
            lines = fuzzes.failure_lines(
                failure, width, ascii, self._replay_words(failure.id), drawn=failure.id in fuzz.drawn
            )
            title = f"Failure of {failure.rung}"
        else:
            lines = fuzzes.summary_lines(fuzz, ascii, width)
            title = "What is said"
        about = (fuzz.id, failure.id if failure is not None else "")
        pane.tell((self.app.theme, width, *lines), lambda: lines, about=about)
        entitle(pane, title)
        if self.has_class("-script"):
            self._show_script()

    def _replay_words(self, failure_id: str) -> str:
        """What became of doing a failure again; "" where nobody asked."""
        if failure_id in self._replaying:
            return "waiting for the device"
        found = self.workbench.model.replays.get(failure_id)
        return fuzzes.replay_text(found) if found is not None else ""

    def _tell_replays(self) -> None:
        """Say what became of the replays that were asked for here."""
        model = self.workbench.model
        for replay_id, failure_id in list(self._replay_ids.items()):
            found, view = model.replays.get(failure_id), model.fuzzes.get(replay_id)
            if found is not None and found.fuzz_id == replay_id:
                text = fuzzes.replay_text(found)
            elif view is not None and view.state.final:
                text = f"it did not come to its end: {view.reason or view.state.value}"
            else:
                continue
            del self._replay_ids[replay_id]
            self._replaying.discard(failure_id)
            self.notify(text, title="Replay", timeout=10)

    # -- keys -------------------------------------------------------------------------------------------

    def on_live_table_highlighted(self, message: LiveTable.Highlighted) -> None:
        message.stop()
        if message.table is self.table:
            self._draw_detail()

    def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        message.stop()
        if message.table is self.table:
            self.action_failure()

    def action_failure(self) -> None:
        """Read all about the highlighted failure, and go back."""
        if self._reading:
            self._close_reading()
            return
        if self.fuzz is None:
            self.notify("There is no fuzz yet: r starts one", severity="warning")
            return
        self.add_class("-reading")
        self.query_one("#detail").focus()
        self.call_after_refresh(self._draw_detail)

    def _close_reading(self) -> None:
        self.remove_class("-reading", "-script")
        (self.table if self.has_class("-failing") else self.cases).focus()

    async def action_back(self) -> None:
        """Leave the zoom, then the script, then the failure, then the screen."""
        if self.maximized is not None:
            await super().action_back()
        elif self.has_class("-script"):
            self.action_script()
        elif self._reading:
            self._close_reading()
        else:
            await super().action_back()

    def action_step_failure(self, by: int) -> None:
        """Go to the next failure, or the one before; a text that is being read changes with it."""
        self.table.action_cursor(by)

    def action_script(self) -> None:
        """Show the failure's script whole, and go back."""
        if self.has_class("-script"):
            self.remove_class("-script")
            back: Widget = self.table
            if self.has_class("-reading"):
                back = self.query_one("#detail")
            back.focus()
            return
        failure = self.failure
        if failure is None or not failure.script:
            self.notify("No failure with a script is highlighted", severity="warning")
            return
        self.add_class("-script")
        self._show_script()
        self.query_one("#script", SourceView).focus()

    def _show_script(self) -> None:
        view, failure = self.query_one("#script", SourceView), self.failure
        if failure is not None and view.source != failure.script.expandtabs(8):
            view.show(failure.script, "failure.py")
        view.border_title = Content(
            f"Script of {failure.rung}, {case_text(failure.case)}" if failure is not None else "Script"
        )

    def copy_text(self) -> str:
        """The highlighted failure's script; without one what is said of the rungs."""
        fuzz, failure = self.fuzz, self.failure
        if failure is not None and failure.script:
            return failure.script
        if fuzz is None:
            return ""
        ascii = True
        head = [
            f"{self._target_id} {fuzzes.title_text(fuzz, ascii)}",
            fuzzes.state_text(fuzz, self.workbench.model.now_ns(), ascii),
            "",
        ]
        return "\n".join([*head, *(line for line, _ in fuzzes.summary_lines(fuzz, ascii, 120))])

    def action_only(self) -> None:
        """Show only the failing cases, or every case."""
        self._only = not self._only
        self.draw()

    def action_pick_rung(self, by: int) -> None:
        """Show the next rung alone, after the last all of them."""
        fuzz = self.fuzz
        names = ["", *fuzz.rungs] if fuzz is not None else [""]
        self._rung = names[(names.index(self._rung) + by) % len(names)]
        self.draw()

    def action_pick_fuzz(self, by: int) -> None:
        """Show the fuzz before or after this one; at the newest it follows what comes."""
        fuzz, known = self.fuzz, self.all_fuzzes
        at = known.index(fuzz) + by if fuzz is not None else 0
        if fuzz is None or not 0 <= at < len(known):
            self.notify("There is no other fuzz on that side", timeout=3)
            return
        self._fuzz_id = known[at].id if at else ""
        self.draw()

    def action_start(self) -> None:
        """Start a fuzz of the chosen rung, or of all."""
        if self.workbench.ready(self._target_id):
            begin(self, self._start, group="start", exclusive=True)

    async def _start(self, again: bool = False) -> None:
        target = self.workbench.target(self._target_id)
        self._refused = ""
        reply = await self.workbench.ask_engine(
            "The fuzz was not started",
            requests.FuzzTarget,
            refused=self._say_why,
            root=str(target.root) if target is not None else "",
            target=self._target_id,
            rungs=[self._rung] if self._rung else [],
            cases=FUZZ_CASES,
            trigger="tui",
            again=again,
        )
        if reply is not None:
            self._fuzz_id = ""
            if not reply.joined:
                self.notify("The fuzz starts once its device is free", timeout=4)
            elif await self.workbench.wants_another(self._target_id, reply.joined):
                await self._start(again=True)
        self.draw()

    def _say_why(self, why: str) -> None:
        self._refused = why

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What has ended cannot be stopped."""
        if action == "stop" and self.is_mounted:
            return self.fuzz is not None and not self.fuzz.state.final
        return super().check_action(action, parameters)

    def key_label(self, binding: Binding) -> str:
        """Nothing for keys about failures and cases where there are none; pressed all the same, they say why."""
        fuzz = self.fuzz if self.is_mounted else None
        idle = {"only"} if fuzz is None else set()
        idle |= set() if fuzz is not None and fuzz.failures else {"failure", "script", "replay"}
        return "" if binding.id in idle else super().key_label(binding)

    def action_stop(self) -> None:
        """Stop the fuzz that is shown."""
        if (fuzz := self.fuzz) is not None:
            begin(self, partial(self._stop, fuzz.id), group="stop", exclusive=True)

    async def _stop(self, fuzz_id: str) -> None:
        if await self.workbench.ask_engine("The fuzz was not stopped", requests.Cancel, run_id=fuzz_id) is not None:
            self.notify("Stopping; what was judged is kept", timeout=4)

    def action_replay(self) -> None:
        """Do the highlighted failure again."""
        failure = self.failure
        if failure is None:
            self.notify("Highlight a failure first", severity="warning")
        elif failure.id in self._replaying:
            self.notify("It is being done again already", timeout=3)
        else:
            begin(self, partial(self._replay, failure.id), group="replay")

    async def _replay(self, failure_id: str) -> None:
        self._replaying.add(failure_id)
        self._draw_detail()
        reply = await self.workbench.ask_engine(
            "The failure was not replayed", requests.ReplayFailure, failure=failure_id
        )
        if reply is None or not reply.run_ids:
            self._replaying.discard(failure_id)
        else:
            self._replay_ids[reply.run_ids[0]] = failure_id
            self._tell_replays()  # a short one may have ended before the reply was read
        self._draw_detail()
