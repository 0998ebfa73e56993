"""What the two screens of checks share: a folding list by category, and all about the highlighted row beside it.

On a wide terminal the text stands beside the list; on a narrow one enter puts it in the list's place, and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Static

from aisp.store.results import repeating
from aisp.store.results.trust import category_of
from aisp.store.text import clean_line
from aisp.tui import findings
from aisp.tui.aside import aside, begin
from aisp.tui.keymap import Key
from aisp.tui.screens.base import Sizes, entitle
from aisp.tui.screens.folding import FoldingScreen, folding_keys
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import LiveTable
from aisp.tui.widgets.textrows import TextRows

WIDE_COLUMNS = 120
EVIDENCE = Key(
    "evidence", "enter", "evidence", "Read all about the highlighted row, and go back; fold or unfold a category.", "⏎"
)
ONLY = Key("only", "o", "only", "Show every check, only what is not passed, or only what was caught or is suspect.")
WALKING = (
    Key("step_check(1)", "right_square_bracket", "check", "Go to the next check.", "[ ]"),
    Key("step_check(-1)", "left_square_bracket", "", "Go to the check before."),
    Key("proof", "p", "proof", "Open the lesson of the cheat that proves the highlighted check."),
)
FOLDING = folding_keys("category")


class ChecklistScreen(FoldingScreen):
    """See the module. A subclass fills the list in `draw` and says in `about` what is known of a row."""

    DEFAULT_CSS = """
    ChecklistScreen #panes { min-height: 4; }
    ChecklistScreen #about { height: 1fr; width: 1fr; display: none; }
    ChecklistScreen.-reading #about { display: block; }
    ChecklistScreen.-reading #checks { display: none; }
    ChecklistScreen.-wide #about { width: 45%; display: block; }
    ChecklistScreen.-wide #checks { width: 1fr; display: block; }
    """
    own_keys_first = True
    redrawn = True
    sizes: ClassVar[Sizes] = {"-wide": lambda size: size.width >= WIDE_COLUMNS}
    of_rows = frozenset((EVIDENCE.action, ONLY.action, *(key.action for key in WALKING)))
    main_table = "checks"
    chooses = "evidence"

    def __init__(self) -> None:
        super().__init__()
        self.book: findings.Book | None = None
        self.only = 0  # which of findings.FILTERS is on
        self.problem = ""  # why the registry could not be read

    def compose_above(self) -> ComposeResult:
        """What stands between the state and the list."""
        yield from ()

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="title")
        yield TextRows(id="state")
        yield from self.compose_above()
        with Container(id="panes"):
            yield LiveTable(id="checks", name="Checks", classes="pane", empty="reading the store")
            yield LogPane(id="about", classes="pane", empty="nothing is highlighted")
        yield Static(id="empty", markup=False)

    def on_mount(self) -> None:
        self.table.focus()
        begin(self, self._read_book, group="book", exclusive=True)

    async def _read_book(self) -> None:
        try:
            self.book = await aside(findings.read_book)
        except Exception as error:
            self.problem = clean_line(f"the registry of checks cannot be read: {error}")
        if self.is_mounted:
            self.draw()

    def about(self, kind: str, name: str) -> tuple[str, Sequence[str]]:
        raise NotImplementedError

    @property
    def highlighted(self) -> tuple[str, str]:
        """Kind ("category", "check", "issue" or "") and name of the row."""
        kind, _, name = self.chosen_key.partition(" ")
        return kind, name

    def row_changed(self) -> None:
        """Say all about the highlighted row, where the pane for it is in sight."""
        if not self.is_mounted:
            return
        pane = self.query_one("#about", LogPane)
        kind, name = self.highlighted
        title, lines = self.about(kind, name) if kind else ("evidence", [])
        pane.prose(lines, labelled=True, about=(kind, name))
        entitle(pane, title)

    def action_evidence(self) -> None:
        pane = self.query_one("#about", LogPane)
        if self.focused is pane:
            self._close_reading()
        elif self.highlighted[0] == "category":
            self.action_toggle_fold()
        elif self.highlighted[0]:
            self.add_class("-reading")
            pane.focus()
            self.row_changed()

    def _close_reading(self) -> None:
        self.remove_class("-reading")
        self.table.focus()

    async def action_back(self) -> None:
        """Leave the zoom, then the pane about a row, then the screen."""
        if self.maximized is None and self.focused is not None and self.focused.id == "about":
            self._close_reading()
        else:
            await super().action_back()

    def action_step_check(self, by: int) -> None:
        table = self.table
        while True:
            before = table.cursor_key
            table.action_cursor(by)
            if table.cursor_key == before or not (table.cursor_key or "").startswith("category "):
                return

    def group(self) -> str:
        kind, name = self.highlighted
        return name if kind == "category" else category_of(name)

    def head(self, group: str) -> str:
        return f"category {group}"

    def action_only(self) -> None:
        self.only = (self.only + 1) % len(findings.FILTERS)
        self.draw()

    def action_proof(self) -> None:
        targets = self.proofs()
        if not targets:
            self.notify("No cheat of the gallery is about this row")
            return
        known = [target for target in targets if self.workbench.target(target) is not None]
        if known:
            self.workbench.open_screen("lesson", target_id=known[0])
            return
        from aisp.kernels.catalog import shipped_root  # the loader was read in a thread, with the lessons

        folder = shipped_root().parent / "checks" / "gallery" / targets[0].partition(":")[0]
        self.notify(f"{targets[0]} is in the gallery: open it with `{repeating.shell('aisp-tui', str(folder))}`")

    def proofs(self) -> Sequence[str]:
        kind, name = self.highlighted
        if self.book is None:
            return ()
        if kind == "check":
            return self.book.proofs(name)
        if kind == "issue" and name in self.book.issues:
            fixture = self.book.issues[name].fixture
            return (fixture.replace("/", ":"),) if fixture else ()
        return ()

    def copy_text(self) -> str:
        kind, name = self.highlighted
        title, lines = self.about(kind, name) if kind else ("", ())
        return "\n".join([title, *lines]) if title else ""
