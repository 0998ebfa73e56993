"""The roofline and the ceilings, driven by keys over a store with a GPU's run, and over a scripted measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aisp.engine.protocol import events, requests
from aisp.kernels.catalog.model import Link, LinkKind
from aisp.tui.widgets.roofplot import RoofPlot
from aisp.tui.widgets.table import LiveTable
from tests.replacing import replace
from tests.tui.app_support import make_link, opened, screen_name, screen_text, told, until
from tests.tui.fakes import FakeLink, peak_events, quick_run_events, status_event
from tests.tui.live_support import check_snapshot, isolate
from tests.tui.roof_support import GEMM, TRANSPOSE, counted_catalog, fill_roofs


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def gpu_link(**arguments: Any) -> FakeLink:
    return make_link(told=False, **arguments)


def cells(app: object, key: str, table: str) -> dict[str, str]:
    """A row's cells by the keys of their columns."""
    found = app.screen.query_one(f"#{table}", LiveTable)  # type: ignore[attr-defined]
    return {column.key: str(cell) for column, cell in zip(found.columns, found.row(key) or [], strict=True)}


# -- roofline --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
async def test_f_shows_the_rungs_of_the_last_run_under_both_roofs(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fill_roofs(GEMM, (0.52, 0.228))
    async with opened(tmp_path, size=size, link=gpu_link(), catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.screen.table.move_to(f"target {GEMM}")  # type: ignore[attr-defined]
        await pilot.press("f")
        await until(pilot, lambda: "ridge" in screen_text(app) and "┊" in screen_text(app))
        drawn = screen_text(app)
        baseline, optimized = cells(app, "baseline", "rungs"), cells(app, "optimized", "rungs")
    assert "measured   3.00 TB/s  700 TFLOP/s bf16  ridge 233 FLOP/byte  at 1410 MHz" in drawn
    assert "datasheet  3.35 TB/s  989 TFLOP/s bf16  ridge 295 FLOP/byte" in drawn
    # 2 * 4096^3 flop in 0.228 ms are 603 TFLOP/s, 86 % of 700.
    assert (optimized["flops"], optimized["measured"], optimized["datasheet"]) == ("603 TFLOP/s", "86 %", "61 %")
    assert (baseline["letter"], optimized["letter"], optimized["limiter"]) == ("A", "B", "flops")
    check_snapshot(request, f"roofline_{size[0]}x{size[1]}", drawn)


async def test_a_lesson_without_arithmetic_is_drawn_as_bars(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fill_roofs(TRANSPOSE, (0.412, 0.187))
    async with opened(tmp_path, link=gpu_link(), catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.open_screen("roofline", target_id=TRANSPOSE)
        await until(pilot, lambda: "bandwidth is its only roof" in screen_text(app))
        drawn = screen_text(app)
        assert not app.screen.query_one(RoofPlot).display
        # 2 * 4 * 8192^2 bytes in 0.187 ms are 2.87 TB/s, 96 % of 3.00.
        row = cells(app, "optimized", "rungs")
    assert (row["bytes"], row["measured"], row["datasheet"], row["limiter"]) == ("2.87 TB/s", "96 %", "86 %", "bytes")
    check_snapshot(request, "roofline_bars_80x24", drawn)


async def test_a_lesson_over_a_link_is_drawn_against_the_link(tmp_path: Path) -> None:
    fill_roofs(TRANSPOSE, (5.0, 4.5))
    counted = counted_catalog(tmp_path)
    over = Link(LinkKind.PCIE, into="4*M*M")
    linked = [replace(target, link=over) if target.id == TRANSPOSE else target for target in counted.targets]
    async with opened(tmp_path, link=gpu_link(), catalog=replace(counted, targets=tuple(linked))) as (app, pilot):
        app.open_screen("roofline", target_id=TRANSPOSE)
        await until(pilot, lambda: "over pcie" in screen_text(app))
        drawn = screen_text(app)
        row = cells(app, "optimized", "rungs")
    assert "one call   268 MB over pcie" in drawn and "datasheet  64.0 GB/s" in drawn
    # 4 * 8192^2 bytes in 4.5 ms are 59.7 GB/s of 64; that PCIe was not measured is a dash.
    assert (row["bytes"], row["measured"], row["datasheet"]) == ("59.7 GB/s", "-", "93 %")


async def test_without_measured_ceilings_the_datasheet_stands_alone_and_a_key_is_named(tmp_path: Path) -> None:
    fill_roofs(GEMM, (0.52, 0.228), peak=False)
    async with opened(tmp_path, link=gpu_link(), catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.open_screen("roofline", target_id=GEMM)
        await until(pilot, lambda: "datasheet  3.35 TB/s" in screen_text(app))
        drawn = screen_text(app)
        row = cells(app, "optimized", "rungs")
    assert "measured   -  (c measures this GPU's ceilings)" in drawn and "━━ measured" not in drawn
    assert (row["measured"], row["datasheet"]) == ("-", "61 %")


async def test_a_lesson_without_a_run_shows_its_roofs_and_how_to_run_it(tmp_path: Path) -> None:
    fill_roofs(TRANSPOSE, (0.412, 0.187))
    async with opened(tmp_path, link=gpu_link(), catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.open_screen("roofline", target_id=GEMM)
        await until(pilot, lambda: "no timed run on a GPU yet: r runs it" in screen_text(app))
        assert "ridge 233 FLOP/byte" in screen_text(app) and "no rung was timed" in screen_text(app)


async def test_without_a_gpu_no_key_is_offered_that_cannot_help(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 24), link=gpu_link(gpu=False), catalog=counted_catalog(tmp_path)) as (
        app,
        pilot,
    ):
        app.open_screen("roofline", target_id=GEMM)
        await until(pilot, lambda: "no GPU here: NVML 12 library not found, and no run on a GPU" in screen_text(app))
        assert screen_text(app).count("no GPU here") == 1, "a screen with nothing to draw says why once"
        keys = screen_text(app).splitlines()[-1]
        assert "diff" in keys and not [word for word in ("r run", "R full") if word in keys]
        assert "r runs it" not in screen_text(app)
        for key in "rR":
            await pilot.press(key)
        await until(pilot, lambda: told(app).count("adds no point to a roofline: no GPU here: NVML 12") == 2)
        assert not [request for request in app.link.sent if isinstance(request, requests.StartRuns)]  # type: ignore[union-attr]


async def test_a_run_on_the_cpu_says_why_it_has_no_roofline(tmp_path: Path) -> None:
    run_id = fill_roofs(GEMM, (5.2, 2.28), device="cpu")
    async with opened(tmp_path, link=gpu_link(), catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.open_screen("roofline", target_id=GEMM, run_id=run_id)
        await until(pilot, lambda: "this run is on the CPU" in screen_text(app))


async def test_enter_opens_the_run_and_y_copies_the_figures(tmp_path: Path) -> None:
    run_id = fill_roofs(GEMM, (0.52, 0.228))
    async with opened(tmp_path, link=gpu_link(), catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.open_screen("roofline", target_id=GEMM)
        await until(pilot, lambda: "┊" in screen_text(app))
        await pilot.press("y")
        await until(pilot, lambda: "Copied" in told(app))
        assert "603 TFLOP/s" in app.clipboard and "ridge 233" in app.clipboard
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        assert app.screen.run_id == run_id  # type: ignore[attr-defined]


async def test_a_run_under_way_is_drawn_with_what_it_has(tmp_path: Path) -> None:
    fill_roofs(TRANSPOSE, (0.412, 0.187))  # for the ceilings
    story = quick_run_events(target=GEMM, run_id="R9", finished=False, device="cuda", case="default", baseline_ms=0.5)
    link = gpu_link()
    link.script(story)
    async with opened(tmp_path, link=link, catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.open_screen("roofline", target_id=GEMM, run_id="R9")
        await until(pilot, lambda: "┊" in screen_text(app) and "running" in screen_text(app))
        row = cells(app, "baseline", "rungs")
    assert (row["flops"], row["measured"]) == ("275 TFLOP/s", "39 %")


# -- ceilings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
async def test_c_shows_the_last_measured_ceilings_beside_the_datasheet(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fill_roofs(GEMM, (0.52, 0.228))
    async with opened(tmp_path, size=size, link=gpu_link()) as (app, pilot):
        await pilot.press("c")
        await until(pilot, lambda: "700 TFLOP/s" in screen_text(app))
        drawn = screen_text(app)
        row = cells(app, "3 bf16 dense", "table")
    assert (row["value"], row["datasheet"], row["share"], row["clock_mhz"]) == (
        "700 TFLOP/s",
        "989 TFLOP/s",
        "71 %",
        "1410",
    )
    check_snapshot(request, f"ceilings_{size[0]}x{size[1]}", drawn)


async def test_the_note_of_the_highlighted_ceiling_is_shown_in_full(tmp_path: Path) -> None:
    fill_roofs(GEMM, (0.52, 0.228))
    async with opened(tmp_path, link=gpu_link()) as (app, pilot):
        await pilot.press("c")
        await until(pilot, lambda: "700 TFLOP/s" in screen_text(app))
        await pilot.press("G")
        await until(pilot, lambda: "a copy between peers takes two" in screen_text(app))
        assert cells(app, "4 peer copy", "table")["value"] == "-"


async def test_r_measures_and_each_ceiling_appears_as_it_comes(tmp_path: Path) -> None:
    link = gpu_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("c")
        await until(pilot, lambda: "nothing was measured yet: r measures it" in screen_text(app))
        await pilot.press("r")
        await until(pilot, lambda: link.sent_of(requests.MeasurePeak))
        story = peak_events()
        link.push(*story[:2])
        await until(pilot, lambda: "measuring: 2 of 6, last dram read" in screen_text(app))
        assert "3.02 TB/s" in screen_text(app) and "688 TFLOP/s" not in screen_text(app)
        await pilot.press("r")
        await until(pilot, lambda: "A measurement is under way" in told(app))
        link.push(*story[2:])
        await until(pilot, lambda: "688 TFLOP/s" in screen_text(app))
        assert "measuring" not in screen_text(app)
    assert len(link.sent_of(requests.MeasurePeak)) == 1


async def test_a_measurement_that_failed_says_why(tmp_path: Path) -> None:
    link = gpu_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("c")
        link.push(*peak_events(count=1, reason="the GPU fell off the bus"))
        await until(pilot, lambda: "not measured: the GPU fell off the bus" in screen_text(app))


async def test_without_a_gpu_the_drivers_words_stay_on_the_screen(tmp_path: Path) -> None:
    refusal = events.Reply(to=1, error="there is no GPU: NVML 12 library not found")
    link = gpu_link(gpu=False, replies={requests.MeasurePeak: refusal})
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("c")
        await until(pilot, lambda: "no GPU here: NVML 12 library not found" in screen_text(app))
        assert "measure" not in screen_text(app).splitlines()[-1]
        await pilot.press("r")
        await until(pilot, lambda: "The ceilings are not measured: no GPU here: NVML 12" in told(app))
        assert not [request for request in link.sent if isinstance(request, requests.MeasurePeak)]
        app.measure_ceilings()  # as the palette does
        await until(pilot, lambda: "not measured: there is no GPU: NVML 12 library not found" in screen_text(app))


@pytest.mark.slow
async def test_the_palette_measures_the_ceilings_and_opens_a_roofline(tmp_path: Path) -> None:
    link = gpu_link()
    async with opened(tmp_path, link=link, catalog=counted_catalog(tmp_path)) as (app, pilot):
        app.screen.table.move_to(f"target {GEMM}")  # type: ignore[attr-defined]
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"measure the ceil")
        await until(pilot, lambda: "Measure the ceilings" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "CeilingsScreen" and link.sent_of(requests.MeasurePeak))
        await pilot.press("escape")
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"roofline of")
        await until(pilot, lambda: f"Roofline of {GEMM}" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "RooflineScreen")


async def test_hostile_names_of_ceilings_are_drawn_as_text(tmp_path: Path) -> None:
    link = gpu_link()
    link.engine_status = status_event(gpu=True)
    story = peak_events(count=1, finished=False)
    assert isinstance(story[0], events.PeakCeiling)
    story[0].ceiling = replace(story[0].ceiling, name="dram\x1b[2J read", note="[@click=app.quit]x[/]")
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("c")
        link.push(*story)
        await until(pilot, lambda: "measuring: 1 of 6" in screen_text(app))
        drawn = screen_text(app)
    assert "\x1b" not in drawn and "[@click=app.quit]x[/]" in drawn
