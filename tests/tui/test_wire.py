"""What the app sends to its terminal: little while a run goes on, nothing while nothing changes, and never more than a
slow terminal can take. Bytes are counted where they leave, on a real pty of 120x40."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from textual.widget import Widget

from aisp.tui.link import ModelChanged
from tests.kernels.generated import write_collection
from tests.proofs.bench import flood
from tests.proofs.bench.terminal import Terminal, environment
from tests.tui.app_support import opened, until
from tests.tui.fakes import FakeLink, gpu_run_events, status_event, watch_events
from tests.tui.live_support import isolate

# The app with a link that replays a story, and a pipe on which the test asks for the next part of it.
CHILD = """
import asyncio, os, sys
from pathlib import Path
import aisp.tui.app
from aisp.engine.protocol import events
from tests import heard
from tests.tui.fakes import (
    GPU, START_NS, FakeLink, batch_event, gpu_run_events, numbered, status_event, telemetry_event,
)

RUN, ARMS = "G1", ("baseline", "optimized", "optimized_swizzled", "baseline (A/A)")
MEDIAN_MS = dict(zip(ARMS, (0.412, 0.187, 0.171, 0.4122)))
MEASURE_NS = START_NS + 1_000_000_000
link = FakeLink(connected=True)
pushed = []

def push(*happened):
    for event in happened:
        pushed.append(event)
        event.seq = len(pushed)
    link.push(*happened)

def story():
    return gpu_run_events(target="ch01:transpose", run_id=RUN, finished=False, rounds=4)

def update(number):
    # A tenth of a second of a run: a batch of every arm, two readings, and every fifth time the figures.
    start_ns = MEASURE_NS + (number + 40) * 100_000_000
    for index, arm in enumerate(ARMS):
        at_ns = start_ns + index * 25_000_000
        push(batch_event(RUN, arm, at_ns, MEDIAN_MS[arm], round=4 + number, count=50, timing="cold", period_ns=500_000))
    push(telemetry_event(MEASURE_NS, 2, first=80 + 2 * number))
    if number % 5 == 0:
        push(*figures(number))

def figures(number):
    return [
        heard.arm(
            run_id=RUN, arm=arm, state="running", correctness="correct", timing="cold", median_ms=MEDIAN_MS[arm],
            low_ms=MEDIAN_MS[arm] * 0.995, high_ms=MEDIAN_MS[arm] * 1.005, samples=200 + 50 * number, sol=0.5,
        )
        for arm in ARMS
    ]

def finish():
    end = heard.finished(run_id=RUN, state="ok", validity="valid", verdict="faster", duration_ms=9000.0)
    push(heard.whole([*pushed, end])[-1])

class Scripted(aisp.tui.app.Workbench):
    def on_mount(self):
        self.asked = asyncio.create_task(self.answer())

    async def drawn(self):
        # Until a refresh that was asked for is written: several of the screen's update periods.
        for _ in range(4):
            await asyncio.sleep(0.05)

    async def answer(self):
        loop = asyncio.get_running_loop()
        asked, said = int(sys.argv[2]), int(sys.argv[3])
        while word := (await loop.run_in_executor(None, os.read, asked, 100)).decode().split():
            name, count = word[0], int(word[1])
            if name == "run":
                push(*story())
                self.open_screen("run", run_id=RUN)
                await asyncio.sleep(0.5)
            elif name == "watch":
                push(events.WatchChanged(target="ch01:transpose", folder="/f", active=True))
                for number in range(30):
                    push(events.WatchEdit(
                        target="ch01:transpose", number=number, snapshot="", files=["optimized.py"],
                        run_id=RUN if number == 29 else "", error="" if number == 29 else "line 1: invalid syntax",
                    ))
                push(*story())
                self.open_screen("watch", target_id="ch01:transpose")
                await asyncio.sleep(0.5)
            elif name == "update":
                for _ in range(count):
                    update(self.updates)
                    self.updates += 1
                    await self.drawn()
            elif name == "finish":
                finish()
            elif name == "same":
                for _ in range(count):
                    push(*figures(0))
                    await self.drawn()
            await self.drawn()
            os.write(said, b"done\\n")

    updates = 0

aisp.tui.app.Workbench = Scripted
aisp.tui.app.load_settings = lambda: (aisp.tui.app.Settings(graph="braille"), [])
import aisp.tui.link
aisp.tui.link.EngineLink = lambda model: setattr(link, "model", model) or link
from aisp.tui.screens import Place
sys.exit(aisp.tui.app.run(Place(Path(sys.argv[1]))))
"""
# A tenth of a second of a run: the plot's changed columns, the arms' counts, the title's clock.
BYTES_PER_UPDATE = 10_000
BACKLOG_LIMIT = 30  # texts that Textual's writer holds before a write blocks the app


class Scripted:
    """The app on a pty, and how many bytes each part of the story cost."""

    def __init__(self, home: Path) -> None:
        write_collection(home / "lessons", 3)
        asked, self._ask = os.pipe()
        self._told, said = os.pipe()
        for descriptor in (asked, said):
            os.set_inheritable(descriptor, True)
        argv = [sys.executable, "-c", CHILD, str(home / "lessons"), str(asked), str(said)]
        self.terminal = Terminal(argv, environment(home))
        os.close(asked)
        os.close(said)
        os.set_blocking(self._told, False)
        self.terminal.until(lambda: "Not run yet" in self.terminal.shown(), what="the first screen")
        self.settle()

    def settle(self) -> None:
        """Read until nothing has come for half a second."""
        silent = 0
        for _ in range(600):
            silent = 0 if self.terminal.read(0.05) else silent + 1
            if silent >= 10:
                return
        raise AssertionError("the screen never came to rest")

    def play(self, name: str, count: int = 1) -> int:
        """Let a part of the story happen `count` times; the bytes that it drew."""
        before = self.terminal.raw_bytes
        os.write(self._ask, f"{name} {count}".encode())
        for _ in range(2000):
            self.terminal.read(0.02)
            try:
                assert os.read(self._told, 100) == b"done\n"
            except BlockingIOError:
                continue
            return self.terminal.raw_bytes - before
        raise AssertionError(f"{name} was never done:\n{self.terminal.shown()}")

    def close(self) -> None:
        self.terminal.close()
        os.close(self._ask)
        os.close(self._told)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Scripted]:
    opened = Scripted(tmp_path)
    yield opened
    opened.close()


@pytest.mark.slow
def test_a_run_going_on_costs_a_bounded_number_of_bytes_per_update(app: Scripted) -> None:
    app.play("run")
    updates = 30
    sent = app.play("update", updates)
    print(f"{sent / updates:.0f} bytes per update")
    assert 500 < sent / updates < BYTES_PER_UPDATE
    # They were drawn: 200 samples of each arm at first, 3 of them discarded, and 50 with every update.
    assert "1,697" in app.terminal.shown()


@pytest.mark.slow
def test_an_edit_going_on_costs_no_more_bytes_than_its_run(app: Scripted) -> None:
    app.play("watch")
    updates = 30
    sent = app.play("update", updates)
    print(f"{sent / updates:.0f} bytes per update")
    assert 100 < sent / updates < BYTES_PER_UPDATE
    assert "samples of edit 29, under way" in app.terminal.shown()
    app.play("finish")
    app.settle()
    before = app.terminal.raw_bytes
    app.terminal.run(1.5)
    assert app.terminal.raw_bytes == before, "a watch at rest was drawn again"


@pytest.mark.slow
def test_nothing_is_sent_while_nothing_changes(app: Scripted) -> None:
    before = app.terminal.raw_bytes
    app.terminal.run(1.0)
    assert app.terminal.raw_bytes == before, "the catalogue was drawn again"

    app.play("run")
    app.play("update", 5)
    app.play("finish")
    app.settle()
    before = app.terminal.raw_bytes
    app.terminal.run(1.0)
    assert app.terminal.raw_bytes == before, "a run that has ended was drawn again"


@pytest.mark.slow
def test_figures_that_say_the_same_again_draw_nothing(app: Scripted) -> None:
    app.play("run")
    app.play("same")
    app.play("finish")
    app.settle()
    app.play("same")  # what is told of a run that has ended changes nothing
    app.settle()
    assert app.play("same", 5) == 0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("home", {}),
        ("enginelog", {}),
        ("run", {"run_id": "G1"}),
        ("watch", {"target_id": "ch05:collate"}),
    ],
)
@pytest.mark.slow
async def test_news_that_say_nothing_new_repaint_no_pane(
    name: str, arguments: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(tmp_path, monkeypatch)
    link = FakeLink([*gpu_run_events(finished=False), *watch_events()])
    link.engine_status = status_event(gpu=True)
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        if name != "home":
            app.open_screen(name, **arguments)
        await until(pilot, lambda: app.catalog is not None and app.screen.focused is not None)
        await pilot.pause(0.5)
        repainted: list[str] = []
        refresh = Widget.refresh

        def noted(widget: Widget, *regions: Any, **how: Any) -> Widget:
            repainted.append(f"{type(widget).__name__} {widget.id}")
            return refresh(widget, *regions, **how)

        monkeypatch.setattr(Widget, "refresh", noted)
        runs = [f"run:{run_id}" for run_id in app.model.runs]
        everything = {"runs", "status", "telemetry", "board", "watches", "watch:ch05:collate", *runs}
        app.post_message(ModelChanged(everything))
        await pilot.pause(0.2)
        # The title of a run tells how long it has been going on.
        assert [pane for pane in repainted if pane != "TextRows title"] == []


@pytest.mark.slow
def test_a_slow_terminal_never_makes_the_app_pile_up_what_it_draws_nor_wait_when_it_must_end(tmp_path: Path) -> None:
    with flood.flooded(tmp_path, bytes_per_s=flood.SLOW_BYTES_PER_S) as (terminal, process):
        terminal.run(1.0)
        before = process.memory_info().rss
        terminal.run(4.0)
        grown = process.memory_info().rss - before
        start = terminal.raw_bytes
        terminal.signal(signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM
        last = terminal.tail[-(terminal.raw_bytes - start) :]
    assert b"\x1b[?1049l" in last and b"\x1b[?1000l" in last and b"\x1b[?25h" in last
    probe = json.loads((tmp_path / "probe.json").read_text())
    # The terminal was behind, draws were left out for that, and what waited stayed below what blocks the app.
    assert max(probe["backlog"]) > 0 and probe["skipped_ticks"] > 0
    assert max(probe["backlog"]) < BACKLOG_LIMIT
    assert grown < 20e6
    assert not psutil.pid_exists(process.pid)
