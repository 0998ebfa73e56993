"""The engine's log and its state; and what the app offers when the engine is lost or another version."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine.protocol import events
from tests.tui.app_support import opened, screen_text, told, until
from tests.tui.fakes import FakeLink, gpu_run_events, planned_event, status_event
from tests.tui.live_support import SIZES, check_snapshot, isolate


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def busy_link() -> FakeLink:
    """One run under way, two waiting, on a GPU."""
    waiting = [
        planned_event(f"P{number}", "ch07:gather", rungs=["baseline"], device="cuda", quick=False) for number in (1, 2)
    ]
    watch = events.WatchChanged(target="ch05:collate", folder="/f", active=True)
    link = FakeLink([*gpu_run_events(finished=False), *waiting, watch])
    link.engine_status = status_event(gpu=True)
    return link


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screen_looks_the_same_at_every_size(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with opened(tmp_path, size=size, link=busy_link()) as (app, pilot):
        app.open_screen("enginelog")
        await until(pilot, lambda: "worker 4712 warm" in screen_text(app))
        await pilot.pause()
        drawn = screen_text(app)
    check_snapshot(request, f"enginelog_{size[0]}x{size[1]}", drawn)


async def test_state_and_log_stand_on_one_screen(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), link=busy_link()) as (app, pilot):
        await pilot.press("l")
        await until(pilot, lambda: "worker 4712 warm" in screen_text(app))
        drawn = screen_text(app)
    assert "pid     4711  up 2 h 03 min  memory 61.0 MiB" in drawn
    assert "NVIDIA H100 80GB HBM3, 80.0 GiB, sm_90, driver 580.65.06" in drawn
    assert "17 runs done, 3 in the queue, 1 watched (J shows them), 2 warm, 1 viewing" in drawn


async def test_new_lines_of_the_log_appear_as_they_are_written(tmp_path: Path) -> None:
    link = busy_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("enginelog")
        await until(pilot, lambda: "worker 4712 warm" in screen_text(app))
        link.push(events.LogLine(level="warning", text="GPU 0 is contended by pid 99"))
        await until(pilot, lambda: "warning GPU 0 is contended by pid 99" in screen_text(app))
        assert screen_text(app).count("worker 4712 warm") == 1


async def test_a_lost_engine_says_what_to_do_and_S_starts_one(tmp_path: Path) -> None:
    link = FakeLink()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("enginelog")
        await pilot.pause()
        link.lose()
        await until(pilot, lambda: "S starts one or looks for it now" in screen_text(app))
        assert "engine lost: the engine went away" in screen_text(app)
        await pilot.press("S")
        await until(pilot, lambda: link.reconnects)
    assert link.reconnects == [True]


async def test_an_engine_of_another_version_is_restarted_when_idle(tmp_path: Path) -> None:
    link = FakeLink()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("enginelog")
        await pilot.pause()
        await pilot.press("U")
        await until(pilot, lambda: "no need to restart" in told(app))
        assert link.restarts == 0
        link.mismatch()
        await until(pilot, lambda: "U lets it end after its queue" in screen_text(app))
        await pilot.press("U")
        await until(pilot, lambda: "ends when its queue is empty" in told(app))
    assert link.restarts == 1
    assert link.sent == []


async def test_f5_fetches_the_log_again(tmp_path: Path) -> None:
    link = FakeLink()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("enginelog")
        await until(pilot, lambda: "worker 4712 warm" in screen_text(app))
        link.engine_log = ["engine 4711 has something new"]
        await pilot.press("f5")
        await until(pilot, lambda: "has something new" in screen_text(app))
        assert "worker 4712 warm" not in screen_text(app)
