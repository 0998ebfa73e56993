"""A stored run of one's own target, opened where the target is not among those that are open: what each key does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from aisp.engine import paths
from aisp.engine.protocol import events, requests
from aisp.kernels.catalog import load
from aisp.store import Store
from aisp.tui.app import Workbench
from aisp.tui.screens import Place
from aisp.tui.settings import Settings
from tests.replacing import replace
from tests.store.examples import finished, planned
from tests.tui.app_support import make_link, screen_name, screen_text, told, until
from tests.tui.fake_engine import make_target
from tests.tui.fakes import FakeLink

FILE = """
def reference(x: "float32 [8] normal") -> "float32 [8]":
    return x


def baseline(x):
    return x + 0


def optimized(x):
    return x
"""


def file_of_ones_own(tmp_path: Path) -> Path:
    file = tmp_path / "softmax.py"
    file.write_text(FILE)
    return file


def folder_of_ones_own(tmp_path: Path) -> Path:
    folder = make_target(tmp_path / "work", "mine")
    (folder / "optimized.py").write_text("def run(x):\n    return 1 + x\n")
    return folder


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of the test's own: two tests at once, and whoever runs them, have others."""
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))


def ran(folder: Path) -> tuple[str, str]:
    """The id of a stored run of the target in a folder, and the target's."""
    from aisp.kernels.catalog import read_sources

    (target,) = load([folder]).targets
    with Store.open(paths.database_file()) as store:
        run = planned(target.id, snapshot=store.put_snapshot(read_sources(target)))
        run = replace(run, folder=os.fsencode(folder))
        store.plan([run])
        store.finish(finished(run), {})
    return run.id, target.id


@asynccontextmanager
async def showing(run_id: str, tmp_path: Path) -> AsyncIterator[tuple[Workbench, Pilot[None], FakeLink]]:
    """The app as `aisp-tui run RUN` opens it, with another folder's targets."""
    make_target(tmp_path / "others", "other")
    link = make_link(told=False)
    place = Place(tmp_path / "others", screen="run", arguments={"run_id": run_id})
    app = Workbench(place=place, link=link, settings=Settings(graph="braille"))  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.catalog is not None and getattr(app.screen, "_stored", None))
        yield app, pilot, link


@pytest.mark.parametrize("make", [file_of_ones_own, folder_of_ones_own])
async def test_the_keys_of_a_run_of_ones_own_work_are_about_its_folder(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path)
    run_id, target_id = ran(folder)
    edited: list[Path] = []
    monkeypatch.setattr(Workbench, "edit_file", lambda self, path, line=None: edited.append(path))
    async with showing(run_id, tmp_path) as (app, pilot, link):
        await until(pilot, lambda: app.target(target_id) is not None)
        await pilot.press("e")
        await until(pilot, lambda: screen_name(app) == "PickerScreen")
        await pilot.press("enter")
        await until(pilot, lambda: edited)
        assert edited[0].is_relative_to(folder)
        await pilot.press("d")
        await until(pilot, lambda: screen_name(app) == "DiffScreen" and app.screen.view.ready)  # type: ignore[attr-defined]
        await pilot.press("escape", "w")
        await until(pilot, lambda: screen_name(app) == "WatchScreen")
        await pilot.press("escape")
        await pilot.press("r")
        await until(pilot, lambda: any(isinstance(kind, requests.StartRuns) for kind in link.sent))
        (request,) = (one for one in link.sent if isinstance(one, requests.StartRuns))
        assert (request.roots, request.targets) == ([str(folder)], [target_id])
        assert "no target" not in told(app)


@pytest.mark.parametrize("make", [file_of_ones_own, folder_of_ones_own])
async def test_without_its_folder_the_keys_say_so_and_the_diff_is_of_what_ran(make: Any, tmp_path: Path) -> None:
    folder = make(tmp_path)
    run_id, target_id = ran(folder)
    folder.rename(tmp_path / "elsewhere")
    async with showing(run_id, tmp_path) as (app, pilot, link):
        await until(pilot, lambda: "not on this machine" in app.absent(target_id))
        for key in ("r", "R", "w", "e"):
            app.clear_notifications()
            await pilot.press(key)
            await until(pilot, lambda: f"{folder} is not on this machine; d shows the sources that ran" in told(app))
            assert screen_name(app) == "RunScreen"
        assert not any(isinstance(one, requests.StartRuns | requests.StartWatch) for one in link.sent)
        await pilot.press("d")
        await until(pilot, lambda: screen_name(app) == "DiffScreen" and app.screen.view.ready)  # type: ignore[attr-defined]
        assert "x + " in screen_text(app)
        await pilot.press("escape")
        app.open_screen("diff", target_id=target_id)  # as from the palette
        await until(pilot, lambda: "return" in screen_text(app))
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        app.pop_screen()
        app.open_screen("history", target_id=target_id)
        await until(pilot, lambda: getattr(app.screen, "_results", None))
        await pilot.press("d")
        await until(pilot, lambda: screen_name(app) == "DiffScreen" and "return" in screen_text(app))


async def test_a_target_of_the_same_name_elsewhere_is_not_taken_for_it_in_silence(tmp_path: Path) -> None:
    folder = make_target(tmp_path / "apart" / "others", "other")
    run_id, _ = ran(folder)
    async with showing(run_id, tmp_path) as (app, pilot, _link):
        await until(pilot, lambda: "This is of" in told(app))
        assert str(folder) in told(app) and str(tmp_path / "others" / "other") in told(app)


async def test_a_watch_of_ones_own_file_that_a_shell_began_opens_and_its_keys_are_about_it(tmp_path: Path) -> None:
    folder = file_of_ones_own(tmp_path)
    run_id, target_id = ran(folder_of_ones_own(tmp_path))
    watched = events.WatchChanged(target="softmax:softmax", folder=str(folder), active=True)
    async with showing(run_id, tmp_path) as (app, pilot, link):
        link.push(watched)
        app.open_screen("watch", target_id="softmax:softmax")
        await until(pilot, lambda: screen_name(app) == "WatchScreen" and app.target("softmax:softmax") is not None)
        assert app.target("softmax:softmax").folder == folder  # type: ignore[union-attr]
        await until(pilot, lambda: app.target(target_id) is not None)  # the run's is there as well
