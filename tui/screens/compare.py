"""Two stored runs side by side: the rungs' ratios, in what the runs differ, the checks that came out otherwise.

What may be claimed is said in store.results.comparison, and in the same words by `aisp compare`.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widgets import Static

from aisp.store.results.comparison import Compared, Side
from aisp.store.results.tables import cells_of
from aisp.store.text import clean_line
from aisp.tui import comparing, plain
from aisp.tui.aside import begin
from aisp.tui.comparing import DIFFERENCES, TURNS
from aisp.tui.keymap import Key, bind
from aisp.tui.screens import Source
from aisp.tui.screens.base import Sizes, WorkScreen, subtitle
from aisp.tui.themes import verdict_text
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.table import Cell, Column, LiveTable
from aisp.tui.widgets.textrows import TextRows

BESIDE_COLUMNS = 150  # from here on what differs and the checks stand beside each other
TIMES_COLUMNS = 60  # from here on the two times are told
INTERVAL_COLUMNS = 120  # from here on the two times have their intervals


class CompareScreen(WorkScreen):
    """See the module.

    Args:
        a, b: ids of the two runs, the one that is compared with first.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("diff", "d,enter", "diff", "Compare the sources of the highlighted rung as they ran, A's with B's."),
        Key("swap", "s", "swap", "Swap A and B."),
        Key("open_side(0)", "1", "run A", "Open run A."),
        Key("open_side(1)", "2", "run B", "Open run B."),
        "history",
    )
    own_keys_first = True
    heading = "Compare {}"
    redrawn = True
    sizes: ClassVar[Sizes] = {"-beside": lambda size: size.width >= BESIDE_COLUMNS}
    chooses = "diff"
    DEFAULT_CSS = """
    CompareScreen #about { background: $surface; padding: 0 1; }
    CompareScreen .pane { border-subtitle-color: $foreground; }
    CompareScreen #pairs { height: 6; }
    CompareScreen #below { height: 1fr; layout: vertical; }
    CompareScreen.-beside #below { layout: horizontal; }
    CompareScreen.-empty #about, CompareScreen.-empty #pairs, CompareScreen.-empty #below { display: none; }
    """

    def __init__(self, a: str, b: str) -> None:
        super().__init__()
        self._ids = (a, b)
        self._compared: Compared | None = None

    def compose_body(self) -> ComposeResult:
        yield TextRows(id="about")
        pairs = LiveTable(id="pairs", classes="pane", empty="Reading the store")
        pairs.border_title = "How fast B is"
        yield pairs
        with Container(id="below"):
            differences = LiveTable(id="differences", classes="pane", empty="The two runs differ in nothing else")
            differences.border_title = "In what they differ"
            differences.columns = [
                Column("what", "what", 18),
                Column("a", "A", None, ratio=1),
                Column("b", "B", None, ratio=1),
                Column("refuses", "", 10),
            ]
            yield differences
            turns = LiveTable(id="turns", classes="pane", empty="Reading the store")
            turns.border_title = "Checks that came out otherwise"
            turns.columns = [
                Column("check", "check", 22),
                Column("arm", "rung", None, ratio=1),
                Column("a", "A", 11),
                Column("b", "B", 11),
                Column("evidence", "evidence", None, ratio=2),
            ]
            yield turns
        yield Static(id="empty", markup=False)

    def on_mount(self) -> None:
        begin(self, self._read, group="read", exclusive=True)

    def on_refitted(self, message: Refitted) -> None:
        if message.pane.id == "about":
            self.draw()

    @property
    def target_id(self) -> str:
        return self._compared.b.run.record.target if self._compared is not None else ""

    @property
    def rung_name(self) -> str:
        return self._rungs()[1]

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if self.is_mounted and "board" in names and not all(side.run.record.state.final for _, side in self._sides()):
            begin(self, self._read, group="read", exclusive=True)  # one went on when it was read, and may have ended

    async def _read(self) -> None:
        found, why = await self.workbench.read(lambda history: comparing.read(history, *self._ids))
        if found is None:
            why = f"The two runs cannot be read: {why}" if why else "There is no store yet: r on a target runs it"
            self.say_empty(why)
            return
        self._compared = found
        self.draw()
        self.refresh_from(set())

    def draw(self) -> None:
        found = self._compared
        if found is None:
            return
        width = self.size.width
        rows = [Text(f" {comparing.sentence(found)} ", "bold reverse")]
        rows += [Text.assemble((f"{name}  ", "bold"), "  ".join(comparing.facts(side))) for name, side in self._sides()]
        about = self.query_one("#about", TextRows)
        if found.conclusion:
            room = about.size.width or width  # a screen that is too low for its tables scrolls, and has a bar
            rows += [Text(line, "bold") for line in plain.wrapped([f"=> {found.conclusion}"], room - 2)]
        about.styles.height = len(rows)
        about.show(rows)
        self._draw_pairs(found, width)
        refusals = [Text("no verdict" if one.refuses else "", "bold") for one in found.differences]
        told = [cells_of(DIFFERENCES[:3], one) for one in found.differences]
        self.query_one("#differences", LiveTable).show(
            [(str(at), [*cells, refusal]) for at, (cells, refusal) in enumerate(zip(told, refusals, strict=True))]
        )
        turns = self.query_one("#turns", LiveTable)
        turns.empty = comparing.no_turns(found)
        turns.show([(str(at), cells_of(TURNS, one)) for at, one in enumerate(found.turns)])
        self.row_changed()

    def _sides(self) -> list[tuple[str, Side]]:
        return [("A", self._compared.a), ("B", self._compared.b)] if self._compared is not None else []

    def _draw_pairs(self, found: Compared, width: int) -> None:
        interval = width >= INTERVAL_COLUMNS
        room = 26 if interval else 9
        left_out = {"a", "b"} if width < TIMES_COLUMNS else set()
        left_out |= {"note"} if width < BESIDE_COLUMNS else set()  # it stands below the table
        left_out |= {"cycles"} if all(pair.cycles is None for pair in found.pairs) else set()
        columns = [
            Column("rung", "rung", None, ratio=1),
            Column("a", "A ms", room, align="right"),
            Column("b", "B ms", room, align="right"),
            Column("ratio", "B as fast as A", 23, align="right"),
            Column("cycles", "in cycles", 23, align="right"),
            Column("verdict", "B is", 11),
            Column("note", "", None, ratio=2),
        ]
        table = self.table
        table.columns = [column for column in columns if column.key not in left_out]
        rows: list[tuple[str, list[Cell]]] = []
        for pair in found.pairs:
            verdict: Cell = plain.DASH
            if pair.verdict.known:
                word = pair.verdict.value
                verdict = Text.assemble(verdict_text(word, None, self.workbench.ascii), f" {word}")
            told: dict[str, Cell] = dict(zip(("a", "b"), comparing.times(pair, interval=interval), strict=True))
            told |= {"rung": clean_line(pair.rung), "verdict": verdict, "note": clean_line(pair.note, limit=2000)}
            dim = "" if pair.verdict.known else "dim"  # a figure, and no verdict
            told |= {"ratio": Text(comparing.ratio(pair), dim), "cycles": Text(comparing.cycles(pair), dim)}
            rows.append((pair.rung, [told[column.key] for column in table.columns]))
        first = table.cursor_key is None
        table.show(rows)
        if first and (lead := found.b.run.lead) is not None:
            table.move_to(next((pair.rung for pair in found.pairs if pair.rungs[1] == lead.rung), ""))
        table.styles.height = min(len(rows) + 3, max(4, self.size.height // 2))

    def row_changed(self) -> None:
        """What has no room in a highlighted row, below its table."""
        found = self._compared
        if found is None:
            return
        texts = {
            "pairs": [pair.note for pair in found.pairs],
            "differences": [one.sentence for one in found.differences],
            "turns": [turn.evidence for turn in found.turns],
        }
        keys = {"pairs": [pair.rung for pair in found.pairs]}
        for name, told in texts.items():
            table = self.query_one(f"#{name}", LiveTable)
            rows = keys.get(name, [str(number) for number in range(len(told))])
            text = told[rows.index(table.cursor_key)] if table.cursor_key in rows else ""
            subtitle(table, plain.fit(clean_line(text, limit=2000), max(0, table.size.width - 4)))

    def copy_text(self) -> str:
        found = self._compared
        if found is None:
            return ""
        lines = [f"{name} {'  '.join(comparing.facts(side))}" for name, side in self._sides()]
        for pair in found.pairs:
            words = [comparing.as_fast(pair), pair.verdict.value if pair.verdict.known else "", pair.note]
            lines.append(f"{pair.rung}: B is {', '.join(word for word in words if word)}")
        return "\n".join([*lines, *([found.conclusion] if found.conclusion else [])])

    def _rungs(self) -> tuple[str, str]:
        pairs = self._compared.pairs if self._compared is not None else []
        return next((pair.rungs for pair in pairs if pair.rung == self.chosen_key), ("", ""))

    def action_diff(self) -> None:
        found = self._compared
        if found is None:
            return
        sides = zip(self._rungs(), (found.a, found.b), strict=True)
        sources = [Source.ran(rung, side.run.record) for rung, side in sides]
        if not all(source.snapshot for source in sources):
            self.notify("The sources of one of the runs were not kept", severity="warning")
            return
        self.workbench.open_diff(self.target_id, *sources)

    def action_swap(self) -> None:
        self._ids = (self._ids[1], self._ids[0])
        begin(self, self._read, group="read", exclusive=True)

    def action_open_side(self, side: int) -> None:
        self.workbench.open_screen("run", run_id=self._ids[side])
