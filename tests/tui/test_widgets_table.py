"""The live table: virtual rows, a cursor that keeps its row, and repaints of what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.geometry import Region

from aisp.tui import themes
from aisp.tui.widgets.glyphs import GraphStyle
from aisp.tui.widgets.lines import Cell, cell_segments
from aisp.tui.widgets.table import Column, LiveTable, fit

COLUMNS = [
    Column("name", "name", ratio=1),
    Column("ms", "ms", 8, "right"),
    Column("note", "note", ratio=2),
]


class TableApp(App[None]):
    """One table that fills the screen; keeps what it says."""

    def __init__(self, columns: Sequence[Column] = COLUMNS) -> None:
        super().__init__()
        themes.register(self)
        self.theme = "aisp-dark"
        self.table = LiveTable(columns, empty="no runs yet; r starts one")
        self.graph_style = GraphStyle.BRAILLE
        self.said: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        yield self.table

    def on_mount(self) -> None:
        self.table.focus()

    def on_live_table_highlighted(self, message: LiveTable.Highlighted) -> None:
        self.said.append(("highlighted", message.key))

    def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        self.said.append(("chosen", message.key))


def rows_of(count: int, **changed: str) -> list[tuple[str, list[Cell]]]:
    return [(f"k{n}", [f"row {n}", changed.get(f"k{n}", f"{n}.0"), f"note {n}"]) for n in range(count)]


def drawn(table: LiveTable) -> list[str]:
    return [table.render_line(y).text for y in range(table.size.height)]


def watch_refreshes(widget: Any, monkeypatch: pytest.MonkeyPatch) -> list[Region | None]:
    seen: list[Region | None] = []
    original = widget.refresh

    def refresh(*regions: Region, **options: Any) -> Any:
        seen.extend(regions or (None,))
        return original(*regions, **options)

    monkeypatch.setattr(widget, "refresh", refresh)
    return seen


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (
            (40, 8),
            [
                "name               ms  note             ",
                "row 0             0.0  note 0           ",
                "row 1             1.0  note 1           ",
            ],
        ),
        (
            (80, 20),
            [
                "name                            ms  note" + " " * 40,
                "row 0                          0.0  note 0" + " " * 38,
                "row 1                          1.0  note 1" + " " * 38,
            ],
        ),
        (
            (200, 30),
            [
                "name" + " " * 68 + "ms  note" + " " * 120,
                "row 0" + " " * 66 + "0.0  note 0" + " " * 118,
                "row 1" + " " * 66 + "1.0  note 1" + " " * 118,
            ],
        ),
    ],
)
async def test_two_rows_as_text_at_three_sizes(size: tuple[int, int], expected: list[str]) -> None:
    app = TableApp()
    async with app.run_test(size=size) as pilot:
        app.table.show(rows_of(2))
        await pilot.pause()
        lines = drawn(app.table)
        assert lines[:3] == expected
        assert lines[3:] == [" " * size[0]] * (size[1] - 3)


async def test_an_empty_table_says_what_to_do() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 8)) as pilot:
        await pilot.pause()
        assert drawn(app.table)[1] == " no runs yet; r starts one" + " " * 14
        app.table.show(rows_of(1))
        app.table.show([])
        await pilot.press("enter", "j", "G")
        assert app.table.cursor_key is None
        assert "no runs yet" in drawn(app.table)[1]


async def test_ten_thousand_rows_build_only_those_in_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        built: list[int] = []
        original = app.table.render_line

        def render_line(y: int) -> Any:
            built.append(y)
            return original(y)

        monkeypatch.setattr(app.table, "render_line", render_line)
        app.table.show(rows_of(10_000))
        await pilot.pause()
        await pilot.press("G")
        await pilot.pause()
        assert app.table.cursor_key == "k9999"
        assert "row 9999" in drawn(app.table)[-1]
        assert len(built) < 24 * 8


async def test_one_changed_cell_repaints_one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(rows_of(200))
        await pilot.pause()
        seen = watch_refreshes(app.table, monkeypatch)
        app.table.show(rows_of(200, k5="7.25"))
        assert seen == [Region(26, 6, 8, 1)]
        assert drawn(app.table)[6][26:34] == "    7.25"


async def test_a_change_out_of_sight_and_equal_rows_repaint_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(rows_of(200))
        await pilot.pause()
        seen = watch_refreshes(app.table, monkeypatch)
        app.table.show(rows_of(200))
        app.table.show(rows_of(200, k150="9"))
        assert seen == []
        assert app.table.row("k150") == ["row 150", "9", "note 150"]


async def test_moving_the_cursor_repaints_two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(rows_of(200))
        await pilot.pause()
        seen = watch_refreshes(app.table, monkeypatch)
        app.table.action_cursor(1)
        assert sorted(region.y for region in seen if region) == [1, 2]
        assert len(seen) == 2


async def test_rows_that_grow_at_the_end_repaint_the_new_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(rows_of(3))
        await pilot.pause()
        seen = watch_refreshes(app.table, monkeypatch)
        app.table.show(rows_of(4))
        assert [(region.y, region.height) for region in seen if region] == [(4, 1)]
        assert None not in seen


async def test_keys_move_choose_and_tell() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 11)) as pilot:
        app.table.show(rows_of(100))
        await pilot.pause()
        app.said.clear()
        await pilot.press("j", "down", "k", "enter", "G", "up", "g", "pagedown", "pageup")
        await pilot.pause()
        assert app.said == [
            ("highlighted", "k1"),
            ("highlighted", "k2"),
            ("highlighted", "k1"),
            ("chosen", "k1"),
            ("highlighted", "k99"),
            ("highlighted", "k98"),
            ("highlighted", "k0"),
            ("highlighted", "k9"),
            ("highlighted", "k0"),
        ]


async def test_the_cursor_stays_on_its_key_when_rows_move_and_on_its_place_when_it_goes() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        rows = rows_of(10)
        app.table.show(rows)
        assert app.table.move_to("k4")
        app.table.show([("new", ["fresh", "0", ""]), *reversed(rows)])
        assert app.table.cursor_key == "k4"
        await pilot.pause()
        app.said.clear()
        app.table.show([row for row in rows if row[0] not in ("k4",)])
        await pilot.pause()
        assert app.table.cursor_key == "k7"
        assert app.said == [("highlighted", "k7")]
        assert not app.table.move_to("k4")


async def test_the_cursor_row_is_always_in_sight() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 8)) as pilot:
        app.table.show(rows_of(50))
        app.table.move_to("k30")
        await pilot.pause()
        assert any("row 30" in line for line in drawn(app.table))
        await pilot.resize_terminal(80, 4)
        await pilot.pause()
        assert any("row 30" in line for line in drawn(app.table))


async def test_the_scrollbar_covers_no_column() -> None:
    app = TableApp([Column("name", "name", ratio=1), Column("sol", "of SOL", 6, "right")])
    async with app.run_test(size=(20, 6)) as pilot:
        app.table.show([(f"k{n}", [f"row {n}", "94 %"]) for n in range(3)])
        await pilot.pause()
        assert [line.rstrip() for line in drawn(app.table)[:2]] == ["name          of SOL", "row 0           94 %"]
        app.table.show([(f"k{n}", [f"row {n}", "94 %"]) for n in range(30)])
        await pilot.pause()
        assert app.table.show_vertical_scrollbar
        # The last cell is the scrollbar's.
        assert drawn(app.table)[:2] == ["name         of SOL ", "row 0          94 % "]


async def test_a_click_moves_and_a_click_on_the_cursor_chooses() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(rows_of(5))
        await pilot.pause()
        app.said.clear()
        await pilot.click(LiveTable, offset=(3, 4))
        await pilot.click(LiveTable, offset=(3, 0))
        await pilot.click(LiveTable, offset=(3, 15))
        await pilot.click(LiveTable, offset=(3, 4))
        await pilot.pause()
        assert app.said == [("highlighted", "k3"), ("chosen", "k3")]


def test_columns_shrink_then_drop_from_the_right_most_ratio() -> None:
    columns = [
        Column("id", "id", ratio=1),
        Column("ms", "ms", 8),
        Column("why", "why", ratio=2),
        Column("gpu", "gpu", 6),
        Column("when", "when", ratio=1),
    ]
    natural = [2, 2, 3, 3, 4]
    wide = fit(columns, natural, 120)
    assert sum(wide) + 4 * 2 == 120 and wide[1] == 8 and wide[3] == 6
    assert wide[2] > wide[0] > 6
    assert fit(columns, natural, 40) == [6, 8, 6, 6, 6]
    assert fit(columns, natural, 39) == [8, 8, 11, 6, 0]
    assert fit(columns, natural, 31) == [13, 8, 0, 6, 0]
    assert fit(columns, natural, 20) == [10, 8, 0, 0, 0]
    assert fit(columns, natural, 12) == [12, 0, 0, 0, 0]
    assert fit(columns, natural, 3) == [3, 0, 0, 0, 0]
    assert fit([], [], 80) == []


def shown_columns(table: LiveTable) -> list[str]:
    return [column.key for column, width in zip(table.columns, table._widths, strict=True) if width]


async def test_a_narrow_terminal_drops_columns_and_a_wide_one_brings_them_back() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 8)) as pilot:
        app.table.show(rows_of(3))
        await pilot.resize_terminal(20, 8)
        await pilot.pause()
        assert drawn(app.table)[1] == "row 0            0.0"
        assert shown_columns(app.table) == ["name", "ms"]
        await pilot.resize_terminal(80, 8)
        await pilot.pause()
        assert shown_columns(app.table) == ["name", "ms", "note"]
        assert "note 0" in drawn(app.table)[1]


async def test_a_column_without_width_is_as_wide_as_its_widest_cell() -> None:
    app = TableApp([Column("a", "a"), Column("b", "b")])
    async with app.run_test(size=(40, 6)) as pilot:
        app.table.show([("1", ["x", "y"])])
        await pilot.pause()
        assert drawn(app.table)[1] == "x  y" + " " * 36
        app.table.show([("1", ["xxxxx", "y"])])
        assert drawn(app.table)[1] == "xxxxx  y" + " " * 32


async def test_wide_characters_keep_the_columns_in_line() -> None:
    app = TableApp([Column("a", "a", 8), Column("b", "b", 6, "right"), Column("c", "c", 4)])
    async with app.run_test(size=(40, 8)) as pilot:
        names = ["plain", "漢字かな", "漢字かなも", "🚀🚀🚀🚀🚀", "é́a", ""]
        app.table.show([(str(n), [name, "1.5", "end"]) for n, name in enumerate(names)])
        await pilot.pause()
        for line in drawn(app.table):
            assert cell_len(line) == 40
        for line in drawn(app.table)[1:7]:
            assert cell_len(line[: line.index("1.5")]) == 13
            assert cell_len(line[: line.index("end")]) == 18


def test_a_cell_is_cut_with_a_sign_and_aligned() -> None:
    def text(cell: Cell, width: int, align: str = "left", ellipsis: str = "…") -> str:
        segments = cell_segments(cell, width, Style(), align=align, ellipsis=ellipsis)
        return "".join(segment.text for segment in segments)

    assert text("optimized_swizzled", 8) == "optimiz…"
    assert text("optimized_swizzled", 8, ellipsis="~") == "optimiz~"
    assert text("漢字", 3) == "漢…"
    assert text("漢字かな", 4) == "漢 …"
    assert text("ab", 4, "right") == "  ab"
    assert text("ab", 1) == "…"
    assert text("ab", 0) == ""
    assert text("", 3) == "   "


def test_styles_of_a_text_cell_survive_the_cut_and_lie_over_the_row() -> None:
    cell = Text.assemble(("▲", "bold green"), " 1.83×")
    segments = cell_segments(cell, 4, Style(reverse=True))
    assert [segment.text for segment in segments] == ["▲", " 1…"]
    first, second = (segment.style for segment in segments)
    assert first == Style(reverse=True, bold=True, color="green")
    assert second == Style(reverse=True)
    assert cell_segments(Text("x", "no such style"), 1, Style())[0].text == "x"


async def test_hostile_text_is_shown_and_not_obeyed() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 8)) as pilot:
        app.table.show([("k", ["[@click=app.quit]x[/]", "\x1b[31m1", Text("a\nb\x9b2J")])])
        await pilot.pause()
        line = drawn(app.table)[1]
        assert "[@click=app.quit]x[/]" in line
        assert "␛[31m1" in line
        assert "a b\\x9b2J" in line
        assert cell_len(line) == 80


async def test_without_colour_it_renders_and_the_cursor_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = TableApp()
    async with app.run_test(size=(60, 8)) as pilot:
        await pilot.pause()
        app.table.show(rows_of(3))
        await pilot.pause()
        styles = [segment.style for segment in app.table.render_line(1)]
        assert all(style is not None and style.reverse for style in styles)
        assert all(segment.style is not None for y in range(8) for segment in app.table.render_line(y))


async def test_a_long_first_cell_flows_over_empty_cells_and_no_further() -> None:
    app = TableApp([Column("a", "a", width=4), Column("b", "b", width=4), Column("c", "c", width=4)])
    async with app.run_test(size=(30, 6)):
        app.table.show(
            [
                ("heading", ["a long heading that goes on", "", ""]),
                ("stopped", ["a long heading", "", "full"]),
                ("plain", ["cut off", "full", ""]),
            ]
        )
        heading, stopped, cut = (line.rstrip() for line in drawn(app.table)[1:4])
    assert heading == "a long heading t…"[: len(heading) - 1] + "…"
    assert len(heading) == 16
    assert stopped == "a long he…  full"
    assert cut == "cut…  full"


async def test_what_a_heading_covered_is_drawn_again_when_the_row_fills() -> None:
    app = TableApp([Column("a", "a", width=4), Column("b", "b", width=4)])
    async with app.run_test(size=(20, 6)) as pilot:
        app.table.show([("row", ["a long name", ""])])
        assert drawn(app.table)[1].rstrip() == "a long na…"
        app.table.show([("row", ["a long name", "9"])])
        await pilot.pause()
        assert drawn(app.table)[1].rstrip() == "a l…  9"
