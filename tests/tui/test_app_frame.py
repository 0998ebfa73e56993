"""What all screens share: notifications, the zoom, the footer below a question, and a screen of 7 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.widgets._toast import Toast

from aisp.engine.protocol import events
from aisp.tui.app import Workbench
from aisp.tui.link import ModelChanged
from aisp.tui.screens.confirm import ConfirmScreen
from aisp.tui.settings import Settings
from tests.tui.app_support import fill_store, make_catalog, make_link, opened, screen_name, screen_text, until
from tests.tui.live_support import isolate


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


async def test_what_is_told_takes_two_rows_at_most_and_none_of_the_list(tmp_path: Path) -> None:
    app = Workbench(link=make_link(), catalog=make_catalog(tmp_path), settings=Settings(graph="braille"))  # type: ignore[arg-type]
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.model.status is not None)
        app.notify("Copied 22 lines to the terminal's clipboard and to " + "/a/long/folder" * 6)
        await until(pilot, lambda: list(app.screen.query(Toast)))
        await until(pilot, lambda: "Copied 22 lines" in screen_text(app))
        lines = screen_text(app).splitlines()
        assert all("/folder" not in line and "Copied" not in line for line in lines[2:])
        assert "target" in lines[3] and "speed-up" in lines[3]


async def test_the_header_says_who_else_is_on_the_gpu_its_clock_and_power_where_there_is_room(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        first = screen_text(app).splitlines()[0]
        assert "NVIDIA H100 80GB HBM3 · others - · - MHz · - W" in first, "before the driver was asked"
        use = events.GpuUse(index=0, others=2, others_bytes=3 * 10**9, sm_clock_mhz=1755.0, power_w=312.4)
        app.on_model_changed(ModelChanged(app.model.set_gpus([use])))
        await until(pilot, lambda: "others 2, 3.00 GB · 1755 MHz · 312 W" in screen_text(app).splitlines()[0])
        reading = {"gpu": 0, "memory_clock_mhz": [1.0], "temperature_c": [50.0], "throttle": [0]}
        for at_ns, clock in ((5_000_000_000, 1800.0), (5_500_000_000, 900.0)):  # a second reading within the second
            told = events.TelemetryBatch(at_ns=[at_ns], sm_clock_mhz=[clock], power_w=[float("nan")], **reading)  # type: ignore[arg-type]
            app.on_model_changed(ModelChanged(app.model.apply([told])))
        await until(pilot, lambda: "others 2, 3.00 GB · 1800 MHz · - W" in screen_text(app).splitlines()[0])
        await pilot.resize_terminal(60, 24)
        await until(pilot, lambda: "MHz" not in screen_text(app).splitlines()[0])
        assert "H100" in screen_text(app).splitlines()[0]


async def test_the_header_of_a_machine_without_a_gpu_has_no_figures_of_one(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 40), link=make_link(told=False, gpu=False)) as (_, pilot):
        await until(pilot, lambda: "CPU only" in screen_text(pilot.app).splitlines()[0])
        assert not [word for word in ("others", "MHz") if word in screen_text(pilot.app).splitlines()[0]]


async def test_a_zoomed_table_has_all_rows_and_gets_its_few_ones_back(tmp_path: Path) -> None:
    fill_store(runs=1)
    async with opened(tmp_path) as (app, pilot):
        app.open_screen("trust", target_id="ch07:transpose")
        await until(pilot, lambda: "optimized" in screen_text(app))
        table = app.screen.query_one("#numbers")
        table.focus()
        await pilot.pause()
        before = table.size.height
        await pilot.press("z")
        await until(pilot, lambda: table.size.height > 15)
        app.screen.refresh_from(set())  # type: ignore[attr-defined]
        await pilot.pause()
        assert table.size.height > 15 and "╱" not in screen_text(app)
        await pilot.press("z")
        await until(pilot, lambda: table.size.height == before)


async def test_the_footer_below_a_question_has_the_questions_keys(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        assert "run" in screen_text(app).splitlines()[-1]
        app.push_screen(ConfirmScreen("Really?"))
        await until(pilot, lambda: "yes" in screen_text(app).splitlines()[-1])
        footer = screen_text(app).splitlines()[-1]
        assert "no" in footer and "run" not in footer and "menu" not in footer
        await pilot.press("escape")
        await until(pilot, lambda: "R full" in screen_text(app).splitlines()[-1])


async def test_the_way_out_of_the_app_stands_in_a_wide_footer_of_every_screen(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.pause()
        footer = screen_text(app).splitlines()[-1]
        assert "q quit" in footer and "^q" not in footer
        for word in ("F fuzz", "V checks", "c ceilings", "l log", "/ filter"):
            assert word in footer
        for key in ("enter", "d"):
            await pilot.press(key)
            await until(pilot, lambda: "^q quit" in screen_text(app).splitlines()[-1])
        await pilot.press("escape", "l")
        await until(pilot, lambda: screen_name(app) == "EngineLogScreen")
        assert "l log" not in screen_text(app).splitlines()[-1]
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.slow
async def test_ascii_is_ascii_on_every_screen(size: tuple[int, int], tmp_path: Path) -> None:
    fill_store()
    async with opened(tmp_path, size=size, settings=Settings(graph="ascii")) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        for key in ("", "enter", "d", "t", "v", "f", "c", "V", "F", "w", "l", "question_mark", "ctrl+p"):
            if key:
                await pilot.press(key)
                await until(pilot, lambda: len(app.screen_stack) > 2)
                await pilot.pause(0.1)
            drawn = screen_text(app)
            assert drawn.isascii(), (key, sorted({sign for sign in drawn if not sign.isascii()}))
            while screen_name(app) != "HomeScreen":
                await pilot.press("escape")
                await pilot.pause()


async def test_changing_to_ascii_changes_the_borders_that_stand(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        assert "╭" in screen_text(app)
        app.set_graph("ascii")
        await until(pilot, lambda: screen_text(app).isascii())
        app.set_graph("braille")
        await until(pilot, lambda: "╭" in screen_text(app))


# -- jump mode ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "NO_COLOR"])
async def test_ctrl_o_labels_panes_and_rows_and_a_letter_goes_there(
    colour: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    async with opened(tmp_path) as (app, pilot):
        home: Any = app.screen
        home.table.move_to("target ch07:transpose")
        before = screen_text(app).splitlines()
        await pilot.press("ctrl+o")
        await until(pilot, lambda: screen_name(app) == "JumpScreen")
        await until(pilot, lambda: "─A" in screen_text(app))
        lines = screen_text(app).splitlines()
        assert [line[0] for line in lines[4:7]] == ["a", "b", "c"] and lines[2].endswith("─B")
        rows = range(4, 4 + len(home.table.keys))
        assert [lines[row][1:40] for row in rows] == [before[row][1:40] for row in rows]  # no letter covers a word
        await pilot.press("abcdefghijklmnopqrstuvwxyz"[home.table.keys.index("target ch05:collate")])
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
        assert home.target_id == "ch05:collate"
        await pilot.press("ctrl+o", "B")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
        assert home.focused.id == "details"
        await pilot.press("ctrl+o")
        await until(pilot, lambda: screen_name(app) == "JumpScreen")
        assert "esc leave" in screen_text(app).splitlines()[-1]
        await pilot.press("%")  # nothing has this label
        assert screen_name(app) == "JumpScreen"
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
        assert home.focused.id == "details" and home.target_id == "ch05:collate"


async def test_a_resize_ends_jump_mode(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await pilot.press("ctrl+o")
        await until(pilot, lambda: screen_name(app) == "JumpScreen")
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
