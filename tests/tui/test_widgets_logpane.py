"""The log pane: the newest lines, following unless somebody reads further up."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.geometry import Region

from aisp.tui import themes
from aisp.tui.widgets.glyphs import GraphStyle
from aisp.tui.widgets.logpane import LogPane


class LogApp(App[None]):
    """One log that fills the screen."""

    def __init__(self, max_lines: int = 5000) -> None:
        super().__init__()
        themes.register(self)
        self.theme = "aisp-dark"
        self.log_pane = LogPane(max_lines=max_lines)
        self.graph_style = GraphStyle.BRAILLE

    def compose(self) -> ComposeResult:
        yield self.log_pane

    def on_mount(self) -> None:
        self.log_pane.focus()


def mode(pane: LogPane) -> str:
    return "following" if pane._following else "reading"


def drawn(pane: LogPane) -> list[str]:
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


def watch_refreshes(widget: Any, monkeypatch: pytest.MonkeyPatch) -> list[Region | None]:
    seen: list[Region | None] = []
    original = widget.refresh

    def refresh(*regions: Region, **options: Any) -> Any:
        seen.extend(regions or (None,))
        return original(*regions, **options)

    monkeypatch.setattr(widget, "refresh", refresh)
    return seen


@pytest.mark.parametrize("size", [(40, 8), (80, 20), (200, 30)])
async def test_the_tail_is_shown_and_followed_at_three_sizes(size: tuple[int, int]) -> None:
    app = LogApp()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert drawn(app.log_pane)[0] == " nothing was printed"
        app.log_pane.extend([f"line {n}" for n in range(100)])
        await pilot.pause()
        assert drawn(app.log_pane) == [f"line {n}" for n in range(100 - size[1], 100)]
        app.log_pane.extend(["the newest"])
        await pilot.pause()
        assert drawn(app.log_pane)[-1] == "the newest"


async def test_a_reader_further_up_is_left_alone_and_G_follows_again() -> None:
    app = LogApp(max_lines=60)
    async with app.run_test(size=(40, 8)) as pilot:
        app.log_pane.extend([f"line {n}" for n in range(60)])
        await pilot.pause()
        await pilot.press("k", "k", "pageup")
        await pilot.pause()
        before = drawn(app.log_pane)
        assert before[0] == "line 43" and mode(app.log_pane) == "reading"
        # The ten oldest lines fall away, what is being read does not move.
        app.log_pane.extend([f"more {n}" for n in range(10)])
        await pilot.pause()
        assert drawn(app.log_pane) == before
        assert len(app.log_pane._lines) == 60
        await pilot.press("G")
        await pilot.pause()
        assert mode(app.log_pane) == "following"
        assert drawn(app.log_pane)[-1] == "more 9"
        await pilot.press("g")
        await pilot.pause()
        assert drawn(app.log_pane)[0] == "line 10"


async def test_what_is_being_read_falls_off_the_end_in_order() -> None:
    app = LogApp(max_lines=20)
    async with app.run_test(size=(40, 8)) as pilot:
        app.log_pane.extend([f"line {n}" for n in range(20)])
        await pilot.pause()
        await pilot.press("g")
        await pilot.pause()
        app.log_pane.extend([f"more {n}" for n in range(5)])
        await pilot.pause()
        assert drawn(app.log_pane)[0] == "line 5"
        assert mode(app.log_pane) == "reading"


async def test_five_thousand_lines_are_kept_and_only_those_in_sight_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = LogApp()
    async with app.run_test(size=(80, 24)) as pilot:
        built: list[int] = []
        original = app.log_pane.render_line

        def render_line(y: int) -> Any:
            built.append(y)
            return original(y)

        monkeypatch.setattr(app.log_pane, "render_line", render_line)
        app.log_pane.extend([f"line {n}" for n in range(6000)])
        await pilot.pause()
        assert len(app.log_pane._lines) == 5000
        assert drawn(app.log_pane)[-1] == "line 5999"
        assert len(built) < 24 * 8
        assert app.log_pane.text.startswith("line 1000\nline 1001\n")


async def test_a_line_that_fits_below_repaints_one_row_and_lays_nothing_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = LogApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.log_pane.extend(["one", "two"])
        await pilot.pause()
        seen = watch_refreshes(app.log_pane, monkeypatch)
        app.log_pane.extend(["three"])
        assert seen == [Region(0, 2, 80, 1)]
        await pilot.pause()
        assert drawn(app.log_pane)[:3] == ["one", "two", "three"]


async def test_a_long_log_grows_without_a_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    app = LogApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.log_pane.extend([f"line {n}" for n in range(100)])
        await pilot.pause()
        layouts: list[bool] = []
        original = app.log_pane.refresh

        def refresh(*regions: Region, layout: bool = False, **options: Any) -> Any:
            layouts.append(layout)
            return original(*regions, layout=layout, **options)

        monkeypatch.setattr(app.log_pane, "refresh", refresh)
        app.log_pane.extend(["one more"])
        await pilot.pause()
        assert layouts and not any(layouts)
        assert app.log_pane.vertical_scrollbar.window_virtual_size == 101


async def test_long_lines_are_cut_and_can_be_moved_sideways() -> None:
    app = LogApp()
    async with app.run_test(size=(20, 5)) as pilot:
        app.log_pane.extend(["0123456789" * 3, "short"])
        await pilot.pause()
        assert drawn(app.log_pane)[0] == "0123456789012345678…"
        await pilot.press("l", "right", "l")
        assert drawn(app.log_pane)[0] == "01234567890123456789"
        assert drawn(app.log_pane)[1] == ""
        await pilot.press("h", "h", "h")
        assert drawn(app.log_pane)[1] == "short"


async def test_text_is_never_markup_nor_obeyed_and_wide_characters_fit() -> None:
    app = LogApp()
    async with app.run_test(size=(30, 8)) as pilot:
        app.log_pane.extend(["[bold]x[/] [@click=app.quit]y[/]", "\x1b]0;title\x07", "a\tb", "two\nlines"])
        app.log_pane.extend(["漢字" * 10, "🚀" * 20])
        await pilot.pause()
        lines = [app.log_pane.render_line(y).text for y in range(8)]
        assert lines[0] == "[bold]x[/] [@click=app.quit]y…"
        assert lines[1].startswith("␛]0;title␇")
        assert lines[2].rstrip() == "a   b"
        assert [line.rstrip() for line in lines[3:5]] == ["two", "lines"]
        assert [cell_len(line) for line in lines] == [30] * 8
        assert lines[5] == "漢字" * 7 + " …"


async def test_clear_forgets_everything_and_follows_again() -> None:
    app = LogApp()
    async with app.run_test(size=(40, 8)) as pilot:
        app.log_pane.extend([f"line {n}" for n in range(50)])
        await pilot.pause()
        await pilot.press("g")
        app.log_pane.clear()
        await pilot.pause()
        assert drawn(app.log_pane)[0] == " nothing was printed"
        app.log_pane.extend([f"new {n}" for n in range(50)])
        await pilot.pause()
        assert drawn(app.log_pane)[-1] == "new 49"


async def test_without_colour_it_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = LogApp()
    async with app.run_test(size=(40, 8)) as pilot:
        await pilot.pause()
        app.log_pane.extend(["error"], style="bold $error")
        await pilot.pause()
        assert drawn(app.log_pane)[0] == "error"
        assert all(segment.style is not None for y in range(8) for segment in app.log_pane.render_line(y))
