"""A fuzz of a target, as it goes on or from the store: cases as they are judged, failures, and all about one of them.

A fuzz that the model holds is drawn as its events come, ten times a second at most; any other is read from the store in
a thread. On a wide terminal the failure stands beside the cases, on a narrow one `enter` puts it in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from aisp.engine.protocol import requests
from aisp.store.results.fuzz import FUZZ_CASES
from aisp.store.results.tables import Column as Listed
from aisp.store.results.tables import cells_of, shown
from aisp.store.results.tables.fuzzes import FAILURES, NAIVE, RUNGS, tried
from aisp.tui import fuzzes, plain
from aisp.tui.aside import begin
from aisp.tui.fuzzes import FuzzView
from aisp.tui.keymap import Key, bind
from aisp.tui.screens.base import Sizes, entitle
from aisp.tui.screens.failure import FailureScreen
from aisp.tui.screens.source import SourceView
from aisp.tui.themes import style_of
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

WIDE_COLUMNS = 120
CLOCK_PERIOD_S = 1.0
MOST_RUNGS = 6  # rows of the tally; it scrolls where there are more
BAR_COLUMNS = 100  # from here on there is room for a longer bar
BAR_CELLS = (8, 20)


class FuzzScreen(FailureScreen):
    """See the module.

    Args:
        target_id: whose fuzzes.
        fuzz_id: the one to show first; "" for the newest, also when a newer one comes.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("start", "r", "fuzz",
            "Try the chosen rung, or all of them, on 200 drawn cases against the fp64 reference."),
        Key("stop", "x", "stop", "Stop the fuzz; what was judged is kept."),
        Key("failure", "enter", "read", "Read all about the highlighted failure, and go back.", "⏎"),
        Key("script", "s", "script", "Show the highlighted failure's script whole, and go back."),
        Key("copy", "y", "copy", "Copy the highlighted failure's script; what was found, where nothing failed."),
        Key("replay", "p", "replay",
            "Do the highlighted failure again from its stored sources, and say what became of it."),
        Key("only", "o", "failing", "Show only the failing cases, or every case."),
        Key("pick_rung(1)", "right_square_bracket", "rung", "Show the next rung alone, after the last all.", "[ ]"),
        Key("pick_rung(-1)", "left_square_bracket", "", "Show the rung before alone, before the first all."),
        Key("pick_fuzz(1)", "left_curly_bracket", "earlier fuzz", "Show the fuzz before this one.", "{ }"),
        Key("pick_fuzz(-1)", "right_curly_bracket", "", "Show the fuzz after this one."),
        Key("step_failure(1)", "n", "", "Go to the next failure."),
        Key("step_failure(-1)", "N", "", "Go to the failure before."),
        *("diff", "edit", "history", "trust"),
    )  # fmt: skip
    own_keys_first = True
    heading = "Fuzz {}"
    of_rows = frozenset(("only", "pick_rung(1)", "pick_fuzz(1)"))
    shown = frozenset(("fuzzes", "replays", "connection"))
    redrawn = True
    sizes: ClassVar[Sizes] = {
        "-wide": lambda size: size.width >= WIDE_COLUMNS,
        "-short": lambda size: size.height < 16,
    }
    AUTO_FOCUS = ""  # `draw` knows which pane has something to walk through
    DEFAULT_CSS = """
    FuzzScreen #note { background: $surface; display: none; }
    FuzzScreen #tally { height: 2; }
    FuzzScreen #panes { min-height: 4; }
    FuzzScreen #stream, FuzzScreen #cases { height: 1fr; width: 1fr; }
    FuzzScreen #failures { height: 45%; min-height: 4; width: 1fr; display: none; }
    FuzzScreen #detail, FuzzScreen #script { height: 1fr; width: 1fr; display: none; }
    FuzzScreen.-failing #failures { display: block; }
    FuzzScreen.-reading #detail { display: block; }
    FuzzScreen.-reading #stream { display: none; }
    FuzzScreen.-wide #stream, FuzzScreen.-wide #detail { display: block; }
    FuzzScreen.-script #script { display: block; }
    FuzzScreen.-script #panes { display: none; }
    FuzzScreen.-empty #tally, FuzzScreen.-short #tally { display: none; }
    """

    def __init__(self, target_id: str, fuzz_id: str = "") -> None:
        super().__init__(target_id)
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
        known = self.all_fuzzes
        return next((fuzz for fuzz in known if fuzz.id == self._fuzz_id), known[0] if known else None)

    def _load(self) -> None:
        begin(self, self._read, group="stored", exclusive=True)

    async def _read(self) -> None:
        found, why = await self.workbench.read(partial(fuzzes.read_fuzzes, target=self._target_id))
        self._problem = f"The fuzzes cannot be read: {why}" if why else ""
        kept = {fuzz.id: fuzz for fuzz in self._stored}
        self._stored = [kept.get(fuzz.id, fuzz) for fuzz in found or []]
        self._looked = True
        self.draw()

    async def _fetch_failures(self, fuzz: FuzzView) -> None:
        found, why = await self.workbench.read(lambda history: history.failures(fuzz.id))
        self._problem = f"The failures cannot be read: {why}" if why else self._problem
        for failure in found or []:
            fuzz.take_failure(failure, shrunk=True)
        self.draw()

    def refresh_from(self, names: set[str]) -> None:
        if not self.is_mounted:
            return
        if "replays" in names or "fuzzes" in names:
            self._tell_replays()
        super().refresh_from(names)
        ended = {fuzz.id for fuzz in self.workbench.model.fuzzes_of(self._target_id) if fuzz.state.final}
        if ended - self._ended:
            self._ended = ended
            self._load()
        fuzz = self.fuzz
        if fuzz is not None and names.isdisjoint(self.shown) and f"fuzz:{fuzz.id}" in names:
            self._draw_head()
            self._draw_tally(fuzz)
            self._draw_cases(fuzz)

    def draw(self) -> None:
        if not self.is_mounted:
            return
        fuzz = self.fuzz
        self.refresh_bindings()  # whether there is anything to stop
        self.say_empty(self._empty_text() if fuzz is None else "")
        self._draw_head()
        if fuzz is None:
            return
        if self._rung not in fuzz.rungs:
            self._rung = ""
        if fuzz.stored and fuzz.id not in self._read_failures:
            self._read_failures.add(fuzz.id)
            begin(self, partial(self._fetch_failures, fuzz), group="failures")
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
            "   sizes around powers of two, dtypes, layouts, hard and non-finite values.\n\n"
            "What fails is shrunk to the smallest case, with a script that shows it.\n\n"
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
        wide = self.has_class("-wide")
        table.columns = _tally_columns(fuzz, ascii, wide=wide)
        rows = _tally_rows(fuzz, self._rung, ascii, partial(style_of, self.app), wide=wide)
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
        pane.extend(
            [
                (fuzzes.case_line(case, ascii, with_rung=not alone), fuzzes.case_style(case.verdict))
                for case in list(fuzz.cases)[len(fuzz.cases) - fresh :]
                if self._rung in ("", case.rung) and (case.verdict.failing or not self._only)
            ]
        )
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
            sign = Text(fuzzes.case_sign(one.verdict, ascii), style_of(self.app, fuzzes.case_style(one.verdict)))
            rows.append((one.id, [sign, *cells_of(FAILURES, one)]))
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

    def action_only(self) -> None:
        self._only = not self._only
        self.draw()

    def action_pick_rung(self, by: int) -> None:
        fuzz = self.fuzz
        names = ["", *fuzz.rungs] if fuzz is not None else [""]
        self._rung = names[(names.index(self._rung) + by) % len(names)]
        self.draw()

    def action_pick_fuzz(self, by: int) -> None:
        fuzz, known = self.fuzz, self.all_fuzzes
        at = known.index(fuzz) + by if fuzz is not None else 0
        if fuzz is None or not 0 <= at < len(known):
            self.notify("There is no other fuzz on that side", timeout=3)
            return
        self._fuzz_id = known[at].id if at else ""
        self.draw()

    def action_start(self) -> None:
        if self.workbench.ready(self._target_id):
            begin(self, self._start, group="start", exclusive=True)

    async def _start(self, again: bool = False) -> None:
        target = self.workbench.target(self._target_id)
        self._refused = ""
        reply = await self.workbench.ask_engine(
            "The fuzz was not started",
            requests.FuzzTarget,
            refused=partial(setattr, self, "_refused"),
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What has ended cannot be stopped."""
        if action == "stop" and self.is_mounted:
            return self.fuzz is not None and not self.fuzz.state.final
        return super().check_action(action, parameters)

    def key_label(self, binding: Binding) -> str:
        """Nothing for keys about failures and cases where there are none; pressed all the same, they say why."""
        fuzz = self.fuzz if self.is_mounted else None
        idle = binding.id in ("failure", "script", "replay") and not (fuzz is not None and fuzz.failures)
        return "" if idle else super().key_label(binding)

    def action_stop(self) -> None:
        if (fuzz := self.fuzz) is not None:
            done = "Stopping; what was judged is kept"
            self.workbench.tell_engine("The fuzz was not stopped", requests.Cancel, done=done, run_id=fuzz.id)


def _tally_columns(fuzz: FuzzView, ascii: bool, *, wide: bool) -> list[Column]:
    # On a wide terminal a column that takes what is left would tear the counts away from their rung.
    said = [fuzzes.verdict_word(rung, fuzz.state, ascii, fuzz.asked)[0] for rung in fuzz.rungs.values()]
    widths = {"verdict": max(map(plain.cells, [*said, "right so far"]))}
    return [
        Column(
            column.key,
            column.head or "",
            widths.get(column.key),
            "right" if column.right else "left",
            ratio=int(column.key == "rung" and not wide),
        )
        for column in _shown(fuzz, wide=wide)
    ]


def _tally_rows(
    fuzz: FuzzView, chosen: str, ascii: bool, style: Callable[[str], Style], *, wide: bool
) -> list[tuple[str, list[Cell]]]:
    """A row per rung; the `chosen` one, shown alone, is marked. `style`: of a theme's words, see tui.themes."""
    rows: list[tuple[str, list[Cell]]] = []
    mark = "> " if ascii else "▸ "
    for name, rung in fuzz.rungs.items():
        word, word_style = fuzzes.verdict_word(rung, fuzz.state, ascii, fuzz.asked)
        one = tried(rung.so_far, {})
        styles = dict.fromkeys(("failing", "by_strategy"), fuzzes.WRONG_STYLE if rung.total.failing else "")
        styles |= dict.fromkeys(NAIVE, f"bold {fuzzes.WRONG_STYLE}" if rung.fooled else "")
        columns = _shown(fuzz, wide=wide)
        cells: dict[str, Cell] = {
            column.key: Text(text, style(look))
            if (look := styles.get(column.key)) and (text := column.cell(one)) != plain.DASH
            else column.cell(one)
            for column in columns
        }
        head = f"{mark if name == chosen else '  ' if chosen else ''}{name}"
        cells["rung"] = Text(head, "bold" if name == chosen else "")
        cells["verdict"] = Text(word, style(word_style)) if word_style else word
        rows.append((name, [cells[column.key] for column in columns]))
    return rows


def _shown(fuzz: FuzzView, *, wide: bool) -> Sequence[Listed[Any]]:
    """The columns of the list of rungs that a screen has room for."""
    naive = any(rung.naive is not None for rung in fuzz.rungs.values())
    return shown(RUNGS, "smallest", *(() if wide else ("cases", "unsupported", "max_error")), *(() if naive else NAIVE))
