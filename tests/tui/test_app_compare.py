"""Comparing two stored runs in the app: marking, figures, what differs, checks, and the way to the sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aisp.engine import paths
from aisp.engine.protocol import events
from aisp.store import Store
from aisp.store.record import Run
from aisp.tui.cli.tree import cli
from aisp.tui.widgets.table import LiveTable
from tests.replacing import replace
from tests.store.examples import finding, finished, planned, samples_of
from tests.tui.app_support import H100, make_link, opened, screen_name, screen_text, told, until
from tests.tui.live_support import check_snapshot, isolate

TARGET = "ch07:transpose"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def stored(number: int, target: str = TARGET, **changes: Any) -> Run:
    """A run in the store, of sources of its own; its id and time say its number."""
    environment, speedup = changes.pop("environment", H100), changes.pop("speedup", 2.0)
    clock_mhz = changes.pop("clock_mhz", 1980.0)
    with Store.open(paths.database_file()) as store:
        snapshot = store.put_snapshot(
            {
                "baseline.py": b"def run(x):\n    return x.t().contiguous()\n",
                "optimized.py": f"TILE = {16 * number}\n\n\ndef run(x):\n    return x.t()\n".encode(),
            }
        )
        began = planned(
            target,
            id=f"01RUN{number}AAAAAAAAAAAAAAAAAAAA",
            wall=f"2026-05-0{number}T10:20:30+00:00",
            snapshot=snapshot,
            environment=store.put_environment(environment),
            manifest={},
        )
        store.plan([began])
        end = finished(began, speedup=speedup, **{"flags": (), **changes})
        end = replace(
            end,
            arms=tuple(replace(arm, sm_clock_mhz=clock_mhz) for arm in end.arms),
            comparisons=tuple(replace(one, floor=0.01) for one in end.comparisons),
        )
        store.finish(end, {arm.rung: samples_of(100) for arm in end.arms})
    return end


def two_runs() -> tuple[Run, Run]:
    """Before and after an edit; one check has become suspicious."""
    said = [finding("memory.margins", "optimized"), finding("timing.wall_clock", "optimized")]
    doubt = finding("timing.wall_clock", "optimized", "suspect", "0.50 ms by the samples, 0.61 ms by the engine")
    other = {**H100, "torch": "2.14.0"}
    return (
        stored(1, findings=tuple(said), environment={**H100, "torch": "2.13.0"}),
        stored(2, speedup=4.0, findings=(said[0], doubt), environment=other),
    )


async def compare(app: Any, pilot: Any, *keys: str) -> None:
    """Open the target's history, mark two runs, compare them."""
    app.screen.table.move_to(f"target {TARGET}")
    await pilot.press("t")
    await until(pilot, lambda: screen_name(app) == "HistoryScreen" and app.screen.table.cursor_key)
    await pilot.press(*(keys or ("m", "j", "m", "C")))
    await until(pilot, lambda: screen_name(app) == "CompareScreen" and "Reading the store" not in screen_text(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (40, 12)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_figures_stand_first_then_what_differs_then_checks(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    two_runs()
    async with opened(tmp_path, size=size, link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot)
        drawn = screen_text(app)
    check_snapshot(request, f"compare_{size[0]}x{size[1]}", drawn)


async def test_app_and_command_line_say_the_same_of_two_runs(tmp_path: Path) -> None:
    a, b = two_runs()
    async with opened(tmp_path, size=(200, 50), link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot)
        drawn = screen_text(app)
    shown = CliRunner().invoke(cli, ["compare", a.id, b.id])
    assert shown.exit_code == 0
    for words in ("2.00x", "[1.96..2.04]", "faster", "torch", "2.13.0", "2.14.0", "sources", "timing.wall_clock"):
        assert words in drawn and words in shown.stdout
    assert "0.50 ms by the samples, 0.61 ms by the engine" in drawn
    assert "0.50 ms by the samples, 0.61 ms by the engine" in shown.stdout


async def test_what_cannot_be_compared_says_why_and_still_shows_the_ratios(tmp_path: Path) -> None:
    stored(1)
    stored(2, environment={**H100, "gpu": "NVIDIA H200", "host": "far"}, clock_mhz=1500.0, speedup=4.0)
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot)
        drawn = screen_text(app)
        first = "not comparable: GPU: NVIDIA H100 80GB HBM3 and NVIDIA H200, and 2 more differences"
        assert f"=> {first}" in drawn
        assert "? 2.00x [1.96..2.04]" in drawn and "? 2.64x" in drawn  # in cycles: 2 x 1980 / 1500
        assert "faster" not in drawn
        table = app.screen.query_one("#pairs", LiveTable)
        ratios = table.row("optimized")[3:5]
        assert [getattr(cell, "style", "") for cell in ratios] == ["dim", "dim"]
        await pilot.press("tab")
        await until(pilot, lambda: "GPU: NVIDIA H100 80GB HBM3 and NVIDIA H200 ─╯" in screen_text(app))
        copied = app.screen.copy_text().splitlines()
        assert copied[-1] == first
        assert "optimized: B is ? 2.00x as fast as A [1.96..2.04]" in copied[-2]
        await pilot.press("s")
        await until(pilot, lambda: "not comparable: GPU: NVIDIA H200 and NVIDIA H100 80GB HBM3" in screen_text(app))
        assert "? 0.500x [0.490..0.510]" in screen_text(app)


async def test_runs_of_two_drivers_say_so_and_show_no_ratio_as_a_verdict(tmp_path: Path) -> None:
    stored(1, environment={**H100, "driver": "580.1"})
    stored(2, environment={**H100, "driver": "590.2"}, speedup=4.0)
    async with opened(tmp_path, size=(80, 24), link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot)
        drawn = screen_text(app)
        assert "=> not comparable: driver: 580.1 and 590.2" in drawn
        assert "? 2.00x [1.96..2.04]" in drawn
        assert "faster" not in drawn


async def test_what_came_of_it_stands_first_in_a_sentence(tmp_path: Path) -> None:
    two_runs()
    async with opened(tmp_path, size=(80, 24), link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot)
        await until(pilot, lambda: "optimized: B is 2.00x as fast as A" in screen_text(app).splitlines()[1])
        await pilot.press("s")
        await until(pilot, lambda: "optimized: B is 0.500x as fast as A" in screen_text(app).splitlines()[1])


async def test_the_conclusion_is_whole_where_the_screen_scrolls(tmp_path: Path) -> None:
    stored(1, quick=True)
    stored(2, quick=True)
    async with opened(tmp_path, size=(40, 12), link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot)
        await until(pilot, lambda: app.screen.query_one("#about").size.width < 40)  # a bar stands beside it
        lines = screen_text(app).splitlines()
        about = [line[:38] for line in lines[4 : next(at for at, line in enumerate(lines) if line.startswith("╭"))]]
        assert " ".join(" ".join(about).split()) == (
            "=> both runs were quick: few processes each show little of how processes differ; compare two full runs "
            "before you rely on it"
        )


async def test_d_compares_the_highlighted_rungs_sources_as_they_ran(tmp_path: Path) -> None:
    two_runs()
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot)
        await pilot.press("j", "d")
        await until(pilot, lambda: "TILE = 16" in screen_text(app) and "TILE = 32" in screen_text(app))
        assert screen_name(app) == "DiffScreen"
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "CompareScreen")


async def test_s_swaps_the_sides_and_1_and_2_open_the_runs(tmp_path: Path) -> None:
    a, b = two_runs()
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot)
        await pilot.press("s")
        await until(pilot, lambda: "slower" in screen_text(app))
        assert screen_text(app).index(b.id) < screen_text(app).index(a.id)
        for key, run in (("1", b), ("2", a)):
            await pilot.press(key)
            await until(pilot, lambda: screen_name(app) == "RunScreen")
            assert app.screen.run_id == run.id  # type: ignore[attr-defined]
            await pilot.press("escape")
            await until(pilot, lambda: screen_name(app) == "CompareScreen")


async def test_one_marked_run_is_compared_with_the_highlighted_one(tmp_path: Path) -> None:
    two_runs()
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await compare(app, pilot, "m", "j", "C")
        assert "B as fast as A" in screen_text(app)


async def test_without_two_marks_C_says_what_is_missing(tmp_path: Path) -> None:
    two_runs()
    async with opened(tmp_path, link=make_link(told=False)) as (app, pilot):
        app.screen.table.move_to(f"target {TARGET}")  # type: ignore[attr-defined]
        await pilot.press("t")
        await until(pilot, lambda: screen_name(app) == "HistoryScreen" and app.screen.table.cursor_key)  # type: ignore[attr-defined]
        await pilot.press("C", "m", "C")
        await until(pilot, lambda: told(app).count("Mark two runs with m") == 2)
        assert screen_name(app) == "HistoryScreen"


async def test_runs_of_two_targets_are_marked_in_their_histories_and_compared(tmp_path: Path) -> None:
    stored(1)
    stored(2, target="ch07:gather", speedup=4.0)
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        for target in (TARGET, "ch07:gather"):
            app.open_screen("history", target_id=target)
            await until(pilot, lambda: app.screen.query_one("#runs", LiveTable).cursor_key)
            await pilot.press("m")
        await until(pilot, lambda: "C compares the two marked (one elsewhere)" in screen_text(app))
        await pilot.press("C")
        await until(pilot, lambda: "not comparable: target: ch07:transpose and ch07:gather" in screen_text(app))
        assert "2.00x" in screen_text(app)


async def test_the_plot_shows_the_figures_of_the_marked_runs_and_the_palette_offers_to_compare(tmp_path: Path) -> None:
    two_runs()
    async with opened(tmp_path, size=(160, 40), link=make_link(told=False)) as (app, pilot):
        app.open_screen("history", target_id=TARGET)
        await until(pilot, lambda: app.screen.query_one("#runs", LiveTable).cursor_key)
        await pilot.press("m", "j", "m")
        await until(pilot, lambda: "marked: 0.5000 and 0.2500 ms, C compares" in screen_text(app))
        await pilot.press("tab", "C")  # in the plot
        await until(pilot, lambda: screen_name(app) == "CompareScreen")
        await pilot.press("escape", "ctrl+p")
        await pilot.press(*"compare the")
        await until(pilot, lambda: "Compare the two marked runs" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "CompareScreen")


async def test_a_run_that_goes_on_is_read_again_at_its_end_and_no_check_is_said_to_be_the_same(tmp_path: Path) -> None:
    a, _ = two_runs()
    with Store.open(paths.database_file()) as store:
        began = planned(TARGET, id="01RUN9AAAAAAAAAAAAAAAAAAAA", manifest={})
        store.plan([began])
    link = make_link(told=False)
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        app.open_screen("compare", a=a.id, b=began.id)
        await until(pilot, lambda: "No check has been asked in B" in screen_text(app))
        assert "outcome" in screen_text(app)
        end = finished(began, findings=a.findings)
        with Store.open(paths.database_file()) as store:
            store.finish(end, {arm.rung: samples_of(100) for arm in end.arms})
        link.push(events.RunFinished(run=end))
        await until(pilot, lambda: "Every check came to the same in both" in screen_text(app))


async def test_a_run_that_is_gone_is_told(tmp_path: Path) -> None:
    a, _ = two_runs()
    async with opened(tmp_path, link=make_link(told=False)) as (app, pilot):
        app.open_screen("compare", a=a.id, b="01GONE")
        await until(pilot, lambda: "The two runs cannot be read: no run '01GONE'" in screen_text(app))
        await pilot.press("d", "s", "y")
        await until(pilot, lambda: "nothing to copy" in told(app))
