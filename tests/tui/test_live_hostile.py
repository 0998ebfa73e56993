"""What a kernel prints, names or raises is drawn as text: never as an escape sequence, never as markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine.protocol import events
from tests import heard
from tests.tui.app_support import opened, screen_name, screen_text, told, until
from tests.tui.fakes import (
    FakeLink,
    batch_event,
    planned_event,
    queue_item,
    quick_run_events,
    status_event,
)
from tests.tui.live_support import isolate

MARKUP = "[@click=app.quit]x[/] [/] [bold"
EVIL = f"\x1b]52;c;aGk=\x07\x1b[6n\x9b31m\u202eabc\x00{MARKUP}"
FORBIDDEN = ("\x1b", "\x07", "\x9b", "\u202e", "\x00", "\r")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def hostile_story() -> list[events.Event]:
    """A run, a watch and a banner whose every text is hostile."""
    return heard.whole([
        planned_event(
            "R1", "t:" + MARKUP, rungs=["baseline", EVIL], title=EVIL, folder=EVIL, device=EVIL, case=EVIL, wall=EVIL,
            snapshot=EVIL,
        ),
        heard.state(run_id="R1", state="running", at_ns=10**12),
        heard.step(run_id="R1", name=EVIL, arm=EVIL, start_ns=10**12, duration_ms=1.0, detail=EVIL),
        heard.step(run_id="R1", name="warm " + EVIL, arm=EVIL, start_ns=10**12 + 5),
        batch_event("R1", EVIL, 10**12, 1.0),
        events.Output(run_id="R1", arm=EVIL, stream="stdout", lines=[EVIL, "a\rb", "tail"]),
        heard.arm(run_id="R1", arm=EVIL, state="user_error", correctness="unknown", reason=EVIL, detail=EVIL),
        heard.comparison(run_id="R1", rung=EVIL, baseline=EVIL, verdict="none", note=EVIL),
        events.WatchChanged(target="ch05:collate", folder=EVIL, active=True),
        events.WatchEdit(
            target="ch05:collate", number=0, snapshot=EVIL, files=[EVIL], run_id="", error=EVIL, wall=EVIL
        ),
        events.WatchEdit(target="ch05:collate", number=1, snapshot=EVIL, files=[EVIL], run_id="R1", wall=EVIL),
        events.LogLine(level="warning", text=EVIL),
        events.Banner(key="k", text=EVIL, severity="error"),
        heard.finished(
            run_id="R1", target="t:" + MARKUP, state="user_error", correctness="unknown", validity="unknown",
            verdict="none", duration_ms=1.0, reason=EVIL, flags=[EVIL],
        ),
    ])  # fmt: skip


def hostile_link() -> FakeLink:
    link = FakeLink(hostile_story())
    link.engine_log = [EVIL]
    link.engine_status = status_event(
        gpu_note=EVIL,
        devices=[events.Device(index=0, name=EVIL, driver=EVIL, note=EVIL)],
        queue=[queue_item("Q", EVIL)],
        watches=[events.WatchItem(target=EVIL, folder=EVIL, edits=1)],
    )
    return link


SCREENS = {
    "run": ({"run_id": "R1"}, ("o", "s", "y")),
    "watch": ({"target_id": "ch05:collate"}, ("j", "k", "y", "m")),
    "enginelog": ({}, ("j", "y")),
}


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCREENS)
async def test_hostile_text_is_drawn_as_text(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    arguments, keys = SCREENS[name]
    drawn: list[str] = []
    async with opened(tmp_path, size=size, link=hostile_link()) as (app, pilot):
        app.open_screen(name, **arguments)
        await pilot.pause(0.2)
        expected = screen_name(app)
        drawn.append(screen_text(app))
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.1)
            drawn.append(screen_text(app))
        assert app.is_running and screen_name(app) == expected
        drawn += [told(app), app.clipboard]
    text = "\n".join(drawn)
    assert not [sign for sign in FORBIDDEN if sign in text]
    assert "[@click=app.quit]x[/]" in text
    assert "\u241b]52" in text  # the picture of the escape character stands where it was


async def test_a_hostile_reply_is_told_as_text(tmp_path: Path) -> None:
    from aisp.engine.protocol import requests

    link = FakeLink(quick_run_events(), replies={requests.StartRuns: events.Reply(to=1, error=EVIL)})
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.1)
        await pilot.press("r")
        await until(pilot, lambda: "The run was not started" in told(app))
        text = told(app) + screen_text(app)
    assert not [sign for sign in FORBIDDEN if sign in text]
    assert "[@click=app.quit]x[/]" in text


async def test_no_color_draws_every_live_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(tmp_path, link=hostile_link()) as (app, pilot):
        for name, (arguments, _) in SCREENS.items():
            app.open_screen(name, **arguments)
            await pilot.pause(0.1)
            assert screen_text(app).strip()
            await pilot.press("escape")
            await pilot.pause(0.05)
        assert app.is_running
