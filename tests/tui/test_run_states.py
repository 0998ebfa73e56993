"""One run as a person sees it in ten states, from its plan to its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine.protocol import events
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from tests import heard
from tests.replacing import replace
from tests.tui.app_support import opened, screen_name, screen_text, until
from tests.tui.fakes import (
    START_NS,
    FakeLink,
    failing_run_events,
    planned_event,
    quick_run_events,
    run_under_way,
    status_event,
)
from tests.tui.live_support import check_snapshot, isolate

FOUR = (0.0, 12.0, 20.0, 28.0)
S = 10**9


def ended(**changes: object) -> list[events.Event]:
    """A full run that has ended, with these changes of its record."""
    story = quick_run_events(quick=False)
    last = story[-1]
    assert isinstance(last, events.RunFinished)
    last.run = replace(last.run, **changes)
    return story


def planned() -> list[events.Event]:
    return [planned_event("R1", "ch05:collate", rungs=["baseline", "optimized"], quick=False, expected_s=44.0)]


def starting() -> list[events.Event]:
    step = heard.step(run_id="R1", name="warm worker", arm="", start_ns=START_NS + S)
    return [*planned(), heard.state(run_id="R1", state="starting", at_ns=START_NS, process=1), step]


def caught() -> list[events.Event]:
    finding = heard.finding(
        check="timing.wall_clock", arm="optimized", status="caught", evidence="0.4 ms by events, 9.8 ms by the clock"
    )
    return ended(findings=(finding,), validity=Validity.CAUGHT, verdict=Verdict.NONE, comparisons=())


def cancelled() -> list[events.Event]:
    story = run_under_way(expected_s=44.0, begun_s=FOUR)
    reason = "cancelled on request; nothing is lost of earlier runs"
    arms = [event.arm for event in story if isinstance(event, events.ArmUpdate)][-3:]
    gone = tuple(replace(arm, state=State.CANCELLED, reason=reason) for arm in arms)
    plan = story[0]
    assert isinstance(plan, events.RunPlanned)
    whole = replace(plan.run, state=State.CANCELLED, reason=reason, duration_ms=31_000.0, arms=gone)
    return [*story, events.RunFinished(run=replace(whole, start_ns=START_NS))]


STATES: dict[str, tuple[Callable[[], list[events.Event]], float]] = {
    "planned": (planned, 0.0),
    "starting": (starting, 2.0),
    "first": (lambda: run_under_way(expected_s=44.0, expected_processes=5), 7.0),
    "fourth": (lambda: run_under_way(expected_s=44.0, expected_processes=5, begun_s=FOUR), 31.0),
    "longer": (lambda: run_under_way(expected_s=20.0, expected_processes=3, begun_s=FOUR), 31.0),
    "cancelled": (cancelled, 60.0),
    "wrong": (
        lambda: failing_run_events(state="incorrect", reason="y differs", detail="[0, 17]  got 3.25  expected 1.5"),
        60.0,
    ),
    "caught": (caught, 60.0),
    "undecided": (lambda: quick_run_events(quick=False, speedup=1.004, verdict="undecided"), 60.0),
    "ok": (lambda: quick_run_events(quick=False), 60.0),
}


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", STATES)
async def test_a_run_in_each_of_its_states(
    name: str, size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(tmp_path, monkeypatch)
    story, at_s = STATES[name]
    link = FakeLink(heard.whole(story()))
    link.engine_status = status_event(gpu=False)
    link.model.clock_ns = lambda: START_NS + int(at_s * S)
    async with opened(tmp_path, size=size, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: screen_name(app) == "RunScreen" and "steps" in screen_text(app))
        await pilot.pause(0.05)
        drawn = screen_text(app)
    going = name in ("planned", "starting", "first", "fourth", "longer")
    assert ("x cancel" in drawn) is going
    told = {
        "planned": "takes about 44 s",
        "starting": "process 1 · about 42 s left · start processes",
        "first": "process 1 of at most 5 · about 37 s left · measure",
        "fourth": "process 4 of at most 5 · about 13 s left · measure",
        "longer": "process 4 of at most 5 · longer than last time (20 s)",
    }
    assert told.get(name, "") in drawn
    check_snapshot(request, f"run_{name}_{size[0]}x{size[1]}", drawn)


def test_the_ten_states_are_what_they_say() -> None:
    ends = {name: story()[-1] for name, (story, _) in STATES.items()}
    runs = {name: end.run for name, end in ends.items() if isinstance(end, events.RunFinished)}
    assert runs["wrong"].correctness is Correctness.WRONG and runs["cancelled"].state is State.CANCELLED
    assert runs["caught"].validity is Validity.CAUGHT and runs["undecided"].verdict is Verdict.UNDECIDED
    assert runs["ok"].verdict is Verdict.FASTER and len(runs) == 5
