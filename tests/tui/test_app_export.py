"""`E` and `y` on the screens of a run and of a history, and runs that were imported, driven by keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from aisp.engine import paths
from aisp.store import History, packages
from aisp.tui.app import Workbench
from tests.tui.app_support import H100, fill_store, keep, make_link, opened, screen_name, screen_text, told, until


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("TZ", "UTC")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


async def history_of(pilot: Pilot[None], app: Workbench) -> None:
    app.open_screen("history", target_id="ch07:transpose")
    await until(pilot, lambda: screen_name(app) == "HistoryScreen" and "faster" in screen_text(app))


@pytest.mark.parametrize(
    ("keys", "form"), [(["down"], "md"), (["down"] * 2, "html"), (["down"] * 3, "svg"), (["down"] * 4, "json")]
)
async def test_E_in_the_history_asks_for_the_form_and_writes_into_the_folder_one_stands_in(
    tmp_path: Path, own_state: Path, keys: list[str], form: str
) -> None:
    newest = fill_store()[-1]
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await history_of(pilot, app)
        await pilot.press("E")
        await until(pilot, lambda: screen_name(app) == "PickerScreen")
        assert "Write this run as" in screen_text(app)
        await pilot.press(*keys, "enter")
        await until(pilot, lambda: "Wrote" in told(app))
    (file,) = own_state.iterdir()
    assert file.name == f"ch07-transpose-{newest[-8:].lower()}.{form}"
    assert str(file) in told(app)
    assert newest in file.read_text("utf-8")


async def test_the_first_row_copies_markdown_and_escape_writes_nothing(tmp_path: Path, own_state: Path) -> None:
    newest = fill_store()[-1]
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await history_of(pilot, app)
        await pilot.press("E")
        await until(pilot, lambda: screen_name(app) == "PickerScreen")
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HistoryScreen")
        await pilot.press("E")
        await until(pilot, lambda: screen_name(app) == "PickerScreen")
        await pilot.press("enter")
        await until(pilot, lambda: "Copied" in told(app))
        copied = app.clipboard
    assert copied.startswith("**ch07:transpose optimized: 3.00x")
    assert newest in copied
    assert list(own_state.iterdir()) == []


async def test_a_file_is_never_written_over_and_a_run_s_screen_exports_too(tmp_path: Path, own_state: Path) -> None:
    newest = fill_store()[-1]
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        app.open_screen("run", run_id=newest)
        await until(pilot, lambda: "stored" in screen_text(app))
        for count in (1, 2):
            await pilot.press("E")
            await until(pilot, lambda: screen_name(app) == "PickerScreen")
            await pilot.press("down", "enter")
            await until(pilot, lambda count=count: len(list(own_state.iterdir())) == count)  # type: ignore[misc]
    assert sorted(file.name for file in own_state.iterdir()) == [
        f"ch07-transpose-{newest[-8:].lower()}-2.md",
        f"ch07-transpose-{newest[-8:].lower()}.md",
    ]


async def test_y_copies_the_line_of_the_highlighted_and_of_the_shown_run(tmp_path: Path) -> None:
    newest = fill_store()[-1]
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await history_of(pilot, app)
        await pilot.press("y")
        await until(pilot, lambda: "Copied" in told(app))
        line = app.clipboard
        assert line.startswith("ch07:transpose optimized: 3.00x (2.94 to 3.06) faster than baseline")
        assert line.endswith(f"run {newest}")
        app.open_screen("run", run_id=newest)
        await until(pilot, lambda: "stored" in screen_text(app))
        app.copy_to_clipboard("something else")
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == line)


def import_one(tmp_path: Path) -> str:
    """Import a run of another machine; returns its id."""
    run = keep(tmp_path / "there", device="cuda", case="default", environment={**H100, "host": "gpu-box"})
    with History(tmp_path / "there" / "aisp.db") as history:
        package = packages.read(packages.write(history, run.id, "").encode())
    packages.take_in(paths.database_file(), package)
    return run.id


async def test_an_imported_run_is_in_the_history_under_its_machine_s_name_and_opens(tmp_path: Path) -> None:
    fill_store()
    foreign = import_one(tmp_path)
    async with opened(tmp_path, size=(160, 40), link=make_link(told=False)) as (app, pilot):
        await until(pilot, lambda: "ch07:transpose" in app.board)
        assert app.board["ch07:transpose"].id != foreign
        await history_of(pilot, app)
        (row,) = [row for row in screen_text(app).splitlines() if row.startswith("│»")]
        assert "H100 · gpu-box" in row
        app.screen.table.move_to(foreign)  # type: ignore[attr-defined]
        await pilot.pause()
        assert "imported from H100 · gpu-box" in screen_text(app)
        assert foreign not in [one.id for one in app.screen._alike()]  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen" and "imported from" in screen_text(app))
        assert "2.00" in screen_text(app)


@pytest.mark.parametrize(
    ("keys", "screen"), [("v", "TrustScreen"), ("V", "ChecksScreen"), ("f", "RooflineScreen"), ("d", "DiffScreen")]
)
@pytest.mark.slow
async def test_what_a_run_s_screen_opens_works_for_an_imported_one(tmp_path: Path, keys: str, screen: str) -> None:
    foreign = import_one(tmp_path)
    async with opened(tmp_path, size=(160, 40), link=make_link(told=False)) as (app, pilot):
        app.open_screen("run", run_id=foreign)
        await until(pilot, lambda: "imported from" in screen_text(app))
        await pilot.press(keys)
        await until(pilot, lambda: screen_name(app) == screen)
        await pilot.pause(0.2)
        assert "should not have happened" not in told(app)


async def test_a_machine_without_a_store_of_its_own_shows_what_it_imported(tmp_path: Path) -> None:
    paths.state_dir()
    import_one(tmp_path)
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await history_of(pilot, app)
        assert "gpu-box" in screen_text(app)
        assert app.board == {}
