"""Search in panes of text: `/` and words, `n` and `N`, the count, the marks, escape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aisp.tui.screens.source import SourceView
from aisp.tui.widgets.diffview import DiffView
from aisp.tui.widgets.finding import Findable, FindLine
from aisp.tui.widgets.logpane import LogPane
from tests.replacing import replace
from tests.tui.app_support import LESSON, make_catalog, opened, screen_name, screen_text, until


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "settings.toml"))


def marked(app: Any) -> list[str]:
    """What is drawn reversed, the header's own name aside."""
    return [
        segment.text
        for strip in app.screen._compositor.render_strips()[1:]
        for segment in strip
        if segment.style is not None and segment.style.reverse and any(map(str.isalnum, segment.text))
    ]


async def search(pilot: Any, words: str, count: str) -> None:
    """Type words and look at the count beside them."""
    await pilot.press("slash", *words)
    await until(pilot, lambda: screen_text(pilot.app).splitlines()[-2].rstrip().endswith(count))


LONG = LESSON + "\n".join(f"\n## Part {number}\n\nA tile of part {number}, `tile` twice." for number in range(30))
LONG += "\n\n| name | what |\n|---|---|\n| last | the needle in a table |\n"


@pytest.mark.slow
async def test_a_lessons_text_is_searched_marked_and_counted(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    targets = tuple(replace(one, lesson=LONG) if one.name == "transpose" else one for one in catalog.targets)
    async with opened(tmp_path / "k", size=(80, 24), catalog=replace(catalog, targets=targets)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: "touches 32" in screen_text(app))
        await search(pilot, "TILE OF PART 2", "1 of 11")
        await pilot.press("enter")
        await until(pilot, lambda: "tile of part 2" in " ".join(marked(app)))
        await pilot.press("N")
        await until(pilot, lambda: "tile of part 29" in screen_text(app))
        assert "11 of 11" in screen_text(app)
        await pilot.press("n")
        await until(pilot, lambda: "1 of 11" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query(FindLine))
        assert screen_name(app) == "LessonScreen" and not marked(app)
        await search(pilot, "needle", "1 of 1")
        await until(pilot, lambda: "needle in a table" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query(FindLine))
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")


async def test_a_source_is_searched_while_the_rungs_have_the_focus(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(140, 40)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.press("enter", "s")
        await until(pilot, lambda: "y = x.t()" in screen_text(app))
        app.screen.table.focus()  # type: ignore[attr-defined]
        await search(pilot, "x.t", "1 of 1")
        await pilot.press("enter")
        await until(pilot, lambda: "x" in marked(app) and "t" in marked(app))
        assert isinstance(app.screen.focused, SourceView)
        await pilot.press("slash", *"nowhere")
        await until(pilot, lambda: "none" in screen_text(app).splitlines()[-2])
        await pilot.press("escape")
        await until(pilot, lambda: not marked(app))


@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=["one column", "side by side"])
@pytest.mark.slow
async def test_n_in_a_diff_goes_to_matches_during_a_search_and_to_changes_after_it(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with opened(tmp_path, size=size) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.press("d")
        await until(pilot, lambda: "return y.contiguous()" in screen_text(app))
        view = app.screen.query_one(DiffView)
        await until(pilot, lambda: view.hunks == 1)
        await search(pilot, "contiguous", "1 of 2")
        await pilot.press("enter", "n")
        await until(pilot, lambda: "2 of 2" in screen_text(app))
        assert marked(app).count("contiguous") == 2 and view._current == 0
        await pilot.press("escape", "n")
        await until(pilot, lambda: view._current == 1)
        assert not marked(app)


async def test_a_log_counts_on_while_lines_come_and_goes_sideways_to_a_match(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        pane = LogPane()
        await app.screen.mount(pane, before="KeyLine")
        pane.extend([f"line {number}" for number in range(200)] + ["far " * 60 + "out"])
        pane.focus()
        await pilot.pause()
        await search(pilot, "out", "1 of 1")
        await pilot.press("enter")
        await until(pilot, lambda: "out" in marked(app))
        pane.extend(["cut out", "no match"])
        await pilot.press("n")
        await until(pilot, lambda: "2 of 2" in screen_text(app))
        await pilot.press("n", "n")
        assert pane.match_told == "2 of 2"


async def test_a_search_that_is_left_at_once_leaves_the_lesson_as_it_was(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: "touches 32" in screen_text(app))
        before = screen_text(app)
        for way in (["escape"], ["enter"], ["x", "backspace", "enter"]):
            await pilot.press("slash", *way)
            await until(pilot, lambda: not app.screen.query(FindLine) and screen_text(app) == before)


def test_every_pane_of_text_can_be_searched() -> None:
    assert all(issubclass(kind, Findable) for kind in (LogPane, SourceView, DiffView))
