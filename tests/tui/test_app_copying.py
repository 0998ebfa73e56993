"""Editing or watching a lesson that came with aisp: a copy in one's own folder is offered first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aisp.engine.protocol import events, requests
from aisp.kernels import catalog
from aisp.tui.app import Workbench
from tests.tui.app_support import opened, screen_name, screen_text, told, until
from tests.tui.fakes import FakeLink
from tests.tui.live_support import isolate

LESSON = "ch09:small_matmuls"


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the app is started in."""
    isolate(tmp_path, monkeypatch)
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@asynccontextmanager
async def at_lesson(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: FakeLink | None = None
) -> AsyncIterator[tuple[Workbench, Any, list[Path]]]:
    """The app on a shipped lesson, with the files that were opened in an editor."""
    edited: list[Path] = []
    shipped = catalog.load([catalog.shipped_root() / "ch09_arithmetic_intensity"])
    async with opened(tmp_path, size=(120, 40), catalog=shipped, link=link or FakeLink()) as (app, pilot):
        monkeypatch.setattr(app, "edit_file", lambda path, _line: edited.append(path))
        app.open_screen("lesson", target_id=LESSON)
        await until(pilot, lambda: screen_name(app) == "LessonScreen")
        yield app, pilot, edited


async def asked(app: Workbench, pilot: Any, key: str) -> str:
    await pilot.press(key)
    await until(pilot, lambda: screen_name(app) == "CopyScreen")
    return screen_text(app)


@pytest.mark.slow
async def test_e_offers_a_copy_and_edits_that(tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at_lesson(tmp_path, monkeypatch) as (app, pilot, edited):
        drawn = await asked(app, pilot, "e")
        assert f"{LESSON} is a lesson that came with aisp. Edit a copy of it?" in drawn
        assert "⏎ copy and edit that  p edit in place  esc leave" in drawn.splitlines()[-1]
        await pilot.press("enter")
        await until(pilot, lambda: edited)
        assert edited == [mine / "small_matmuls" / "baseline.py"]
        assert app.target("mine:small_matmuls") is not None and app.target(LESSON) is not None
        assert f"{LESSON} was copied to {mine / 'small_matmuls'}: it is mine:small_matmuls" in told(app)


@pytest.mark.slow
async def test_w_watches_the_copy(tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = FakeLink()
    (mine / "small_matmuls").mkdir()
    async with at_lesson(tmp_path, monkeypatch, link) as (app, pilot, _):
        await asked(app, pilot, "w")
        await pilot.press("enter")
        await until(pilot, lambda: link.sent_of(requests.StartWatch))
        (sent,) = link.sent_of(requests.StartWatch)
        assert (sent.target, sent.root) == ("mine:small_matmuls_2", str(mine / "small_matmuls_2"))
        assert screen_name(app) == "WatchScreen"


@pytest.mark.slow
async def test_p_edits_the_lesson_itself_and_is_asked_once(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_lesson(tmp_path, monkeypatch) as (app, pilot, edited):
        await asked(app, pilot, "e")
        await pilot.press("p")
        await until(pilot, lambda: len(edited) == 1)
        await pilot.press("e")
        await until(pilot, lambda: len(edited) == 2)
        assert all(path.is_relative_to(catalog.shipped_root()) for path in edited)
    assert list(mine.iterdir()) == []


@pytest.mark.slow
async def test_escape_does_neither(tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = FakeLink()
    async with at_lesson(tmp_path, monkeypatch, link) as (app, pilot, edited):
        for key in ("e", "w"):
            await asked(app, pilot, key)
            await pilot.press("escape")
            await until(pilot, lambda: screen_name(app) == "LessonScreen")
        assert (edited, link.sent_of(requests.StartWatch), list(mine.iterdir())) == ([], [], [])


async def test_a_lesson_under_watch_is_watched_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = FakeLink([events.WatchChanged(target=LESSON, folder="/f", active=True)])
    async with at_lesson(tmp_path, monkeypatch, link) as (app, pilot, _):
        await pilot.press("w")
        await until(pilot, lambda: screen_name(app) == "WatchScreen")


async def test_a_folder_where_nothing_can_be_made_is_told_and_nothing_is_edited(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mine / "lesson.md").write_text("a target itself")
    async with at_lesson(tmp_path, monkeypatch) as (app, pilot, edited):
        await asked(app, pilot, "e")
        await pilot.press("enter")
        await until(pilot, lambda: "Nothing was copied" in told(app))
        assert "is itself a target; targets do not nest" in told(app) and edited == []
