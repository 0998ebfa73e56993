"""The link over a real socket: it connects, drains at its pace, loses the engine and finds it again."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import client
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.tui import link as link_module
from aisp.tui.link import EngineLink, ModelChanged
from tests.tui.fake_engine import FakeEngine
from tests.tui.fakes import batch_event, planned_event


class SlowDriver:
    """A driver whose terminal is `behind` when the test says so; counts the live frames announced to it."""

    def __init__(self) -> None:
        self.behind = False
        self.frames = 0

    def expect_frame(self) -> None:
        self.frames += 1


class ListeningApp:
    """What the link needs of an app: it counts the messages; its driver plays a slow terminal."""

    is_running = True

    def __init__(self) -> None:
        self.messages: list[ModelChanged] = []
        self._driver = SlowDriver()

    def post_message(self, message: ModelChanged) -> None:
        self.messages.append(message)

    @property
    def names(self) -> set[str]:
        return set().union(*(message.names for message in self.messages))


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(link_module, "PAUSES_S", (0.02, 0.05))
    monkeypatch.setattr(link_module, "DRAIN_PERIOD_S", 0.02)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes every engine that would be started, and starts none."""
    calls: list[str] = []

    def refuse() -> Any:
        calls.append("start")
        raise client.EngineUnavailableError("the engine ended at once with status 1; engine.log says why")

    monkeypatch.setattr(client, "start_engine", refuse)
    return calls


async def until(condition: Callable[[], object], patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "waited for something that did not come"
        await asyncio.sleep(0.01)


async def test_it_connects_in_the_background_and_fills_the_model() -> None:
    with FakeEngine() as engine:
        link, app = EngineLink(), ListeningApp()
        assert link.state == "connecting"
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
        assert link.state == "connected"
        reply = await link.request(requests.StartRuns, targets=["mine:one"], quick=True)
        await until(lambda: "runs" in app.names and link.model.runs[reply.run_ids[0]].record.state.final)
        assert link.model.runs[reply.run_ids[0]].arm("optimized").median_ms == 0.4
        status = await link.fetch_status()
        assert status is not None and link.model.status is status
        assert engine.asked(requests.StartRuns)[0].targets == ["mine:one"]
        await link.stop()
    assert not link.connected


async def test_many_events_become_few_messages() -> None:
    with FakeEngine() as engine:
        link, app = EngineLink(), ListeningApp()
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
        before = len(app.messages)
        engine.publish(
            planned_event("R1", "t", rungs=["a"]),
            *(batch_event("R1", "a", 10**12 + i * 10**7, 0.1, count=10) for i in range(2000)),
        )
        await until(lambda: link.model.samples_applied == 20_000)
        await asyncio.sleep(0.1)
        assert link.model.runs["R1"].samples("a").points.count == 20_000
        assert len(app.messages) - before < 200
        await link.stop()


async def test_a_slow_terminal_skips_ticks_and_loses_nothing() -> None:
    with FakeEngine() as engine:
        link, app = EngineLink(), ListeningApp()
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
        app._driver.behind = True
        app.messages.clear()
        announced = app._driver.frames
        engine.publish(planned_event("R1", "t", rungs=["a"]), batch_event("R1", "a", 10**12, 0.1))
        await until(lambda: link.skipped_ticks > 3)
        assert app.messages == [] and link.model.samples_applied == 0
        app._driver.behind = False
        assert app._driver.frames == announced
        await until(lambda: link.model.samples_applied == 40)
        await until(lambda: {"runs", "samples:R1"} <= app.names)
        # The driver is told of the frame, so that it can ask the terminal for the next.
        assert app._driver.frames == announced + 1
        await link.stop()


async def test_a_terminal_that_stays_behind_fills_the_model_without_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MAX_HELD_TICKS", 3)
    with FakeEngine() as engine:
        link, app = EngineLink(), ListeningApp()
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
        app._driver.behind = True
        app.messages.clear()
        engine.publish(planned_event("R1", "t", rungs=["a"]), batch_event("R1", "a", 10**12, 0.1))
        await until(lambda: link.model.samples_applied == 40)
        assert app.messages == []
        app._driver.behind = False
        await until(lambda: "samples:R1" in app.names)
        await link.stop()


async def test_a_dropped_connection_is_taken_up_where_it_was() -> None:
    with FakeEngine() as engine:
        link, app = EngineLink(), ListeningApp()
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
        engine.drop_after = 3
        engine.publish(
            planned_event("R1", "t", rungs=["a"]),
            batch_event("R1", "a", 10**12, 0.1),
            batch_event("R1", "a", 2 * 10**12, 0.1),
        )
        engine.drop_after = None
        await until(lambda: any("connection" in message.names for message in app.messages[2:]))
        await until(lambda: link.connected)
        engine.publish(batch_event("R1", "a", 3 * 10**12, 0.1))
        await until(lambda: link.model.samples_applied == 120)
        assert link.model.runs["R1"].samples("a").points.count == 120  # each batch once
        reply = await link.request(requests.Cancel, run_id="R1")
        assert reply.error == ""
        await link.stop()


@pytest.mark.slow
async def test_an_engine_that_does_not_answer_is_told_and_its_runs_do_not_count_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "SILENCE_S", 0.5)
    monkeypatch.setattr(client, "LOOK_S", 0.05)
    with FakeEngine() as engine:
        engine.pulse_s = 0.05
        link, app = EngineLink(), ListeningApp()
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
        engine.publish(planned_event("R1", "t", rungs=["a"]))
        await asyncio.sleep(1.0)
        assert link.model.banners == {}
        engine.pulse_s = 3.0
        await until(lambda: link.model.connection.silent_since)
        banner = link.model.banners["engine"]
        since = link.model.connection.silent_since
        assert banner.text == (f"the engine (pid {os.getpid()}) has not answered since {since}; nothing ends by itself")
        assert link.state == f"connected: not answering since {since}"
        stands_still = link.model.now_ns()
        await asyncio.sleep(0.1)
        assert link.model.now_ns() == stands_still < time.monotonic_ns()
        engine.pulse_s = 0.05
        await until(lambda: not link.model.connection.silent_since)
        assert link.model.banners == {} and link.model.now_ns() > stands_still
        assert link.connected, "it was never given up"
        await link.stop()


async def test_what_is_waited_for_is_shown_while_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "QUIET_S", 0.0)
    with FakeEngine() as engine:
        engine.starting = "examining the store, 3.3 GiB"
        link, app = EngineLink(), ListeningApp()
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: "engine" in link.model.banners)
        said = f"the engine (pid {os.getpid()}) is starting: examining the store, 3.3 GiB"
        assert (link.model.banners["engine"].text, link.connected) == (said, False)
        engine.starting, engine.pulse_s = "", 0.05
        await until(lambda: link.connected)
        assert link.model.banners == {}
        await link.stop()


async def test_numbers_of_requests_go_on_over_a_reconnect() -> None:
    with FakeEngine() as engine:
        link, app = EngineLink(), ListeningApp()
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
        await link.request(requests.Cancel, run_id="A")
        await link.request(requests.Cancel, run_id="B")
        engine.drop_after = 0
        engine.publish(events.LogLine(level="info", text="x"))
        engine.drop_after = None
        await until(lambda: not link.connected)
        await until(lambda: link.connected)
        await link.request(requests.Cancel, run_id="C")
        numbers = [request.seq for request in engine.asked(requests.Cancel)]
        assert numbers == sorted(set(numbers))
        await link.stop()


async def test_a_lost_engine_is_not_started_behind_the_users_back(started: list[str]) -> None:
    link, app = EngineLink(), ListeningApp()
    with FakeEngine():
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
    await until(lambda: link.state.startswith("lost: "))
    await asyncio.sleep(0.2)
    assert started == []
    assert "engine" in link.model.banners
    with FakeEngine():
        await until(lambda: link.connected)
        assert "engine" not in link.model.banners
        await link.stop()


async def test_a_request_starts_an_engine_and_says_why_it_could_not(started: list[str]) -> None:
    link, app = EngineLink(), ListeningApp()
    with FakeEngine():
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)
    await until(lambda: link.state.startswith("lost: "))
    reply = await link.request(requests.StartRuns, targets=["mine:one"])
    assert started == ["start"]
    assert reply.error == "not sent: lost: the engine ended at once with status 1; engine.log says why"
    await link.stop()


async def test_another_protocol_sends_no_commands_and_is_restarted_when_idle(started: list[str]) -> None:
    link, app = EngineLink(), ListeningApp()
    old = FakeEngine().__enter__()  # ended by the request
    old.protocol = PROTOCOL + 1
    link.start(app)  # type: ignore[arg-type]
    await until(lambda: link.state.startswith("mismatch: "))
    reply = await link.request(requests.StartRuns, targets=["mine:one"])
    assert reply.error.startswith("not sent: mismatch: the running engine")
    assert old.requests == []
    said = await link.restart_when_idle()
    assert "ends when its queue is empty" in said
    assert [(type(message), message.when_idle) for message in old.requests] == [(requests.Shutdown, True)]
    await until(lambda: started)  # ours, once the other is gone
    await link.stop()


async def test_a_defect_of_ours_does_not_look_like_a_quiet_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeEngine() as engine:
        link, app = EngineLink(), ListeningApp()
        link.start(app)  # type: ignore[arg-type]
        await until(lambda: link.connected)

        def broken(arrived: Any) -> set[str]:
            raise ZeroDivisionError("oops")

        monkeypatch.setattr(link.model, "apply", broken)
        engine.publish(events.LogLine(level="info", text="x"))
        await until(lambda: "ZeroDivisionError" in link.state)
        assert "start aisp-tui again" in link.state
        await link.stop()
