"""Where text from outside enters the app, it is made clean: taking one such cleaning away fails a test here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import paths
from aisp.engine.protocol import events
from aisp.kernels.catalog.model import Kind, Needs, Role, Rung
from aisp.store import Store
from aisp.tui import findings
from aisp.tui.commands_palette import commands
from aisp.tui.model import Model
from aisp.tui.screens import Source
from aisp.tui.screens.confirm import ConfirmScreen
from aisp.tui.screens.picker import PickerScreen
from tests.replacing import replace
from tests.tui.app_support import H100, fill_store, keep, make_catalog, opened, screen_name, screen_text, told, until
from tests.tui.hostile import EVIL, EVIL_NAME, MARKUP, commands_in
from tests.tui.hostile import catalog as hostile_catalog
from tests.tui.live_support import isolate
from tests.tui.roof_support import GEMM, counted_catalog, fill_roofs

TRANSPOSE = "ch07:transpose"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def assert_clean(*texts: str) -> None:
    text = "\n".join(texts)
    assert commands_in(text.encode("utf-8", "backslashreplace")) == []
    assert "\u241b" in text  # it did arrive


async def test_whatever_is_told_in_a_corner_is_one_line_of_text(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        app.screen.notify(f"{EVIL}\nand more")
        await pilot.pause()
        assert_clean(told(app), screen_text(app))
        assert MARKUP in told(app) and "\n" not in told(app)


def test_why_the_engine_is_away_and_what_became_of_a_replay_are_clean() -> None:
    model = Model()
    model.set_connection("lost", EVIL)
    assert_clean(str(model.connection))
    assert_clean(model.banners["engine"].text)
    model.apply([events.ReplayFinished(fuzz_id="F", failure="X", outcome="passes", detail="two\nlines")])
    assert model.replays["X"].detail == "two lines"


@pytest.mark.slow
async def test_names_of_files_and_folders_are_drawn_as_text(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path / EVIL_NAME)
    (target,) = (target for target in catalog.targets if target.id == TRANSPOSE)
    rung = Rung(
        f"optimized_{EVIL_NAME}", Role.OPTIMIZED, Kind.CUDA, target.folder / f"optimized_{EVIL_NAME}.py",
        Needs(90, 1), EVIL, gpu_only=True,
    )  # fmt: skip
    wrong = replace(rung, name=f"wrong_{EVIL_NAME}", role=Role.WRONG)
    rung.path.write_text(f"# {EVIL}\n", "utf-8")
    wild = replace(
        target, rungs=(*target.rungs, rung, wrong), files=(*target.files, f"notes {EVIL_NAME}.py"), lesson=f"# {EVIL}"
    )
    targets = tuple(wild if known is target else known for known in catalog.targets)
    async with opened(tmp_path, size=(200, 50), catalog=replace(catalog, targets=targets)) as (app, pilot):
        app.path = tmp_path / EVIL_NAME
        app.screen.refresh_from(set())
        app.screen.table.move_to(f"target {TRANSPOSE}")  # type: ignore[attr-defined]
        await pilot.press("z", "y")
        await pilot.pause()
        assert_clean(screen_text(app))
        await pilot.press("z", "tab", "z")
        await pilot.pause()
        assert_clean(screen_text(app))
        await pilot.press("y")
        assert_clean(app.clipboard)
        await pilot.press("z")
        app.open_screen("lesson", target_id=TRANSPOSE)
        await pilot.pause(0.2)
        await pilot.press("y")
        assert_clean(app.clipboard, screen_text(app))
        for name in (rung.name, wrong.name, f"notes {EVIL_NAME}.py"):
            app.screen.table.move_to(name)  # type: ignore[attr-defined]
            await pilot.pause()
            assert_clean(screen_text(app))
            await pilot.press("i")
            await pilot.pause()
            assert_clean(screen_text(app))
            await pilot.press("i")
        app.screen.table.move_to(rung.name)  # type: ignore[attr-defined]
        await pilot.press("s")
        await until(pilot, lambda: "\u241b" in str(app.screen.query_one("#source").border_title))
        await pilot.pause(0.1)
        await pilot.press("y")
        assert_clean(app.clipboard, screen_text(app))
        rung.path.unlink()
        await pilot.press("m", "s")
        await until(pilot, lambda: "cannot be read" in app.screen.copy_text())  # type: ignore[attr-defined]
        assert_clean(screen_text(app), app.screen.copy_text())  # type: ignore[attr-defined]


async def test_the_prose_of_a_catalogue_is_drawn_as_text(tmp_path: Path) -> None:
    catalog = hostile_catalog(tmp_path)
    rows = [f"chapter {catalog.chapters[0].id}", f"target {catalog.targets[0].id}", "problem 0", "problems problems"]
    async with opened(tmp_path, size=(200, 50), catalog=catalog) as (app, pilot):
        for row in rows:
            app.screen.table.move_to(row)  # type: ignore[attr-defined]
            await pilot.pause()
            assert_clean(screen_text(app), app.screen.copy_text())  # type: ignore[attr-defined]
        told_of = [command.shown for command in commands(app) if command.title.startswith("Lesson ")]
    assert_clean(*map(str, told_of))


async def test_a_question_and_a_list_to_pick_from_are_drawn_as_text(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        for screen in (ConfirmScreen(EVIL, EVIL), PickerScreen(EVIL, [("a", EVIL)])):
            app.push_screen(screen)  # type: ignore[arg-type]
            await pilot.pause()
            assert_clean(screen_text(app))
            assert commands_in(str(screen.query_one("#box").border_title).encode()) == []
            app.pop_screen()


@pytest.mark.slow
async def test_what_is_typed_or_pasted_into_the_filter_is_drawn_as_text(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await pilot.press("slash")
        app.screen.query_one("#filter").value = EVIL  # type: ignore[attr-defined]
        await pilot.pause()
        assert_clean(str(app.screen.table.border_title), app.screen.table.empty)  # type: ignore[attr-defined]
        for cut in range(1, len(EVIL), 7):
            app.screen.query_one("#filter").value = EVIL[cut:]  # type: ignore[attr-defined]
            await pilot.pause()
            assert commands_in(str(app.screen.table.border_title).encode()) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["ceilings", "history", "fuzz", "trust", "run", "roofline", "checks"])
async def test_why_the_store_cannot_be_read_is_drawn_and_copied_as_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_ask: object) -> None:
        raise OSError(EVIL)

    arguments = {"run": {"run_id": "NOSUCH"}, "ceilings": {}, "checks": {}}.get(name, {"target_id": "ch07:scan"})
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        monkeypatch.setattr(app, "stored", fails)
        app.open_screen(name, **arguments)
        await until(pilot, lambda: "\u241b" in screen_text(app))
        await pilot.press("y")
        assert_clean(screen_text(app), app.clipboard)


async def test_why_the_registry_cannot_be_read_is_drawn_and_copied_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Any:
        raise OSError(EVIL)

    monkeypatch.setattr(findings, "read_book", fails)
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        app.open_screen("checks")
        await until(pilot, lambda: "\u241b" in screen_text(app))
        assert_clean(screen_text(app), app.screen.problem)  # type: ignore[attr-defined]


async def test_what_a_machine_says_of_itself_is_drawn_and_copied_as_text(tmp_path: Path) -> None:
    fill_roofs(GEMM, (1.0, 0.5))
    keep(paths.state_dir(), GEMM, environment={"gpu": EVIL, "gpu_uuid": EVIL})
    async with opened(tmp_path, size=(200, 50), catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.open_screen("roofline", target_id=GEMM)
        await until(pilot, lambda: "\u241b" in screen_text(app))
        await pilot.press("y")
        assert_clean(app.clipboard, screen_text(app))


async def test_a_prediction_of_another_machine_names_it_as_text(tmp_path: Path) -> None:
    keep(paths.state_dir(), TRANSPOSE, environment=H100 | {"gpu": EVIL})
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        app.screen.table.move_to(f"target {TRANSPOSE}")  # type: ignore[attr-defined]
        await until(pilot, lambda: "not measured there" in screen_text(app))
        assert_clean(screen_text(app), app.screen.copy_text())  # type: ignore[attr-defined]


async def test_a_stored_source_is_compared_and_copied_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_store(TRANSPOSE)
    with Store.open(paths.database_file()) as store:
        snapshot = store.put_snapshot({"optimized.py": EVIL.encode() + b"\xff\x9b6n", f"{EVIL_NAME}.py": b""})
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        for name in ("optimized", "gone"):
            app.open_screen("diff", target_id=TRANSPOSE, left=Source(name, snapshot), right=Source("optimized"))
            await until(pilot, lambda: screen_name(app) == "DiffScreen" and "\u241b" in screen_text(app))
            await pilot.pause(0.1)
            await pilot.press("n", "y")
            await pilot.pause()
            assert_clean(app.clipboard, screen_text(app))
            await pilot.press("escape")
            await pilot.pause()

        async def fails(_ask: object) -> None:
            raise OSError(EVIL)

        monkeypatch.setattr(app, "stored", fails)
        app.open_screen("diff", target_id=TRANSPOSE, left=Source("optimized", "f" * 64), right=Source("optimized"))
        await until(pilot, lambda: "cannot be read" in screen_text(app))
        await pilot.press("n", "y")
        await until(pilot, lambda: "cannot be read" in app.clipboard)
        assert_clean(app.clipboard, screen_text(app))


def test_a_shell_command_that_is_shown_is_one_line_of_text(tmp_path: Path) -> None:
    from aisp.store.results.repeating import command

    (target,) = (target for target in make_catalog(tmp_path / EVIL_NAME).targets if target.id == TRANSPOSE)
    assert os.fspath(target.root).endswith(EVIL_NAME)
    text = command("run", target.id, target.folder)
    assert text.isprintable() and "\\x1b" in text
