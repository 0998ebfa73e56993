"""The driver on a real pty: what is behind, what is gone, and how many bytes a live update costs."""

from __future__ import annotations

import errno
import json
import math
import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pyte
import pytest
from textual.app import App

from aisp.tui.driver import (
    LONGEST_REST_S,
    LONGEST_TYPED_S,
    LOST_S,
    ORDINARY_S,
    PATIENCE_S,
    RESTS,
    RESTS_TYPED,
    TRIES,
    TRIPS,
    TYPED_S,
    Pace,
    _Outlet,
    has_backlog,
)

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
import json, os, signal, sys, time
from textual.app import App
from aisp.tui.driver import BackloggedDriver, has_backlog

def say(**values):
    os.write(REPORT, (json.dumps(values) + "\\n").encode())

def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()

class Counting(BackloggedDriver):
    sent = 0
    def write(self, data):
        Counting.sent += len(data.encode())
        super().write(data)
"""


class Terminal:
    """A script with a pty for its terminal and a pipe on which it reports lines of JSON."""

    def __init__(self, script: str) -> None:
        self.master, slave = pty.openpty()
        self.report, report = os.pipe()
        source = f"REPORT = {report}\n{PREAMBLE}\n{textwrap.dedent(script)}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", source],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            pass_fds=(report,),
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        os.close(slave)
        os.close(report)
        self._text = b""
        self.text = b""  # all that was drawn

    def hear(self, *, reading: bool, seconds: float = 60) -> dict[str, Any]:
        """The next report. `reading` says whether the terminal takes what is drawn meanwhile."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._text:
            sources = [self.report] + ([self.master] if reading else [])
            ready, _, _ = select.select(sources, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError("the script said nothing")
            if self.master in ready:
                self.text += os.read(self.master, 65536)
            if self.report in ready:
                piece = os.read(self.report, 65536)
                assert piece, "the script ended without a report"
                self._text += piece
        line, _, self._text = self._text.partition(b"\n")
        values: dict[str, Any] = json.loads(line)
        return values

    def drain(self) -> None:
        """Take what is drawn until the script has ended."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            ready, _, _ = select.select([self.master], [], [], 0.05)
            try:
                self.text += os.read(self.master, 65536) if ready else b""
            except OSError:  # EIO: nobody has the other side open any more
                return
            if ended and not ready:
                return

    def hang_up(self) -> None:
        os.close(self.master)
        self.master = -1

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self.report)
        if self.master >= 0:
            os.close(self.master)


def test_a_terminal_that_reads_slowly_is_told_by_the_backlog() -> None:
    script = """
    class Slow(App):
        def on_ready(self):
            wait_for(lambda: not has_backlog(self))
            say(before=has_backlog(self))
            for _ in range(10):
                self._driver.write("x" * 20000)
            say(behind=has_backlog(self), backlog=self._driver.backlog)
            say(after=wait_for(lambda: not has_backlog(self)), backlog=self._driver.backlog)
            self.exit()

    Slow(driver_class=BackloggedDriver).run()
    """
    with Terminal(script) as terminal:
        assert terminal.hear(reading=True) == {"before": False}
        # A pty holds some 4 kB; nobody reads the 200 kB that are written now.
        behind = terminal.hear(reading=False)
        assert behind["behind"] and 8 <= behind["backlog"] <= 10
        assert terminal.hear(reading=True) == {"after": True, "backlog": 0}


def test_a_terminal_that_is_gone_blocks_nobody() -> None:
    script = """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    class Lost(App):
        def on_ready(self):
            say(ready=True)
            time.sleep(0.3)
            # Five times what the queue holds.
            for number in range(150):
                self._driver.write("x" * 10000)
            drained = wait_for(lambda: not has_backlog(self))
            say(drained=drained, errno=self._driver.lost.errno)
            os._exit(0)

    Lost(driver_class=BackloggedDriver).run()
    """
    with Terminal(script) as terminal:
        assert terminal.hear(reading=True) == {"ready": True}
        terminal.hang_up()
        assert terminal.hear(reading=False) == {"drained": True, "errno": errno.EIO}


def test_a_driver_without_a_queue_is_never_behind() -> None:
    class Odd(App[None]):
        """An app whose driver is Textual's own, or none."""

    app = Odd()
    assert has_backlog(app) is False
    app._driver = object()  # type: ignore[assignment]
    assert has_backlog(app) is False


@pytest.mark.parametrize("error", [OSError(errno.EIO, "gone"), BrokenPipeError()])
def test_after_a_failed_write_nothing_more_is_tried(error: OSError) -> None:
    class Broken:
        tries = 0

        def write(self, text: str) -> int:
            self.tries += 1
            raise error

        def flush(self) -> None:
            self.tries += 1

    file = Broken()
    outlet = _Outlet(file)  # type: ignore[arg-type]
    assert outlet.write("a") == 0
    outlet.flush()
    outlet.write("b")
    assert file.tries == 1
    assert outlet.lost is error
    assert not outlet.writing


class Clock:
    """A clock that goes on when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_on_a_good_line_the_next_live_frame_waits_for_the_answer_and_no_longer() -> None:
    clock = Clock()
    pace = Pace(clock)
    states = [pace.waiting]
    assert pace.ask() == "\x1b[6n"
    states.append(pace.waiting)
    clock.now_s += 0.02
    states.append(pace.waiting)
    pace.answered()
    states.append(pace.waiting)
    assert states == [False, True, True, False]


def test_on_a_slow_line_a_rest_follows_the_answer_so_that_keys_find_the_line_empty() -> None:
    clock = Clock()
    pace = Pace(clock)

    def rest_after(round_trip_s: float, *, frames: int = TRIPS, typing_s: float = 0.0) -> float:
        for _ in range(frames):
            pace.ask()
            clock.now_s += round_trip_s
            pace.answered()
        start_s = clock.now_s
        while True:
            if clock.now_s - start_s < typing_s:
                pace.typed()
            if not pace.waiting:
                return clock.now_s - start_s
            clock.now_s += 0.01

    assert rest_after(ORDINARY_S) == 0
    assert rest_after(ORDINARY_S + 0.2, frames=1) == 0, "the machine was busy for once; the line is as it was"
    assert rest_after(ORDINARY_S + 0.2) == pytest.approx(0.2 * RESTS, abs=0.02)
    # However slow it is, something is drawn now and then.
    assert rest_after(60) == pytest.approx(LONGEST_REST_S, abs=0.02)

    assert rest_after(ORDINARY_S + 0.05, typing_s=60) == pytest.approx(0.05 * RESTS_TYPED, abs=0.02)
    assert rest_after(60, typing_s=60) == pytest.approx(LONGEST_TYPED_S, abs=0.02)
    # Who has left off typing waits no longer for what is live.
    clock.now_s += TYPED_S
    assert rest_after(ORDINARY_S + 0.2, typing_s=1.0) == pytest.approx(1.0 + TYPED_S, abs=0.02)
    assert rest_after(ORDINARY_S + 0.05) == pytest.approx(0.05 * RESTS, abs=0.02)


def test_a_terminal_that_never_answers_is_not_asked_a_fourth_time() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(TRIES):
        assert pace.ask() == "\x1b[6n"
        clock.now_s += PATIENCE_S - 0.01
        assert pace.waiting
        clock.now_s += 0.02
        assert not pace.waiting
    assert pace.ask() == ""
    assert not pace.waiting


def test_a_terminal_that_answered_once_is_asked_on_although_it_was_late() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(TRIES):
        pace.ask()
        clock.now_s += PATIENCE_S + 0.1
    pace.answered()  # the first question's, after more than six seconds
    assert pace.ask() == "\x1b[6n"
    # Answers are to questions in their order: the two before are answered first.
    pace.answered()
    pace.answered()
    clock.now_s += 100
    assert pace.ask() == "\x1b[6n"


def test_an_answer_that_was_lost_does_not_make_every_later_one_look_late() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.ask()
    pace.answered()
    pace.ask()  # its answer never comes
    clock.now_s += LOST_S + 1
    pace.ask()
    pace.answered()
    assert not pace.waiting


def test_an_answer_that_nobody_asked_for_changes_nothing() -> None:
    pace = Pace(Clock())
    pace.answered()
    assert not pace.waiting
    pace.ask()
    pace.forget()
    assert not pace.waiting
    pace.answered()
    assert not pace.waiting


LIVE = """
    from textual.events import CursorPosition, Key
    from textual.widgets import Static
    from aisp.tui.driver import expect_frame

    class Live(App):
        heard = []
        def compose(self):
            yield Static("0", id="figure")

        async def on_event(self, event):
            if isinstance(event, (CursorPosition, Key)):
                self.heard.append(repr(event))
            await super().on_event(event)

        def on_ready(self):
            self.run_worker(self.measure())

        async def frame(self, text):
            expect_frame(self)
            self.query_one(Static).update(text)
            await asyncio.sleep(0.1)
"""


def test_a_live_frame_asks_the_terminal_and_the_answer_is_no_key() -> None:
    script = f"""
    import asyncio
    {LIVE}
        async def measure(self):
            await asyncio.sleep(0.3)
            self.query_one(Static).update("a key's doing")
            await asyncio.sleep(0.1)
            quiet = has_backlog(self)
            await self.frame("1")
            say(quiet=quiet, waiting=has_backlog(self))
            while has_backlog(self):
                await asyncio.sleep(0.01)
            expect_frame(self)  # nothing is drawn for it, so nothing is asked
            await asyncio.sleep(0.2)
            say(waiting=has_backlog(self), heard=self.heard)
            self.exit()

    Live(driver_class=BackloggedDriver).run()
    """
    with Terminal(script) as terminal:
        assert terminal.hear(reading=True) == {"quiet": False, "waiting": True}
        assert terminal.text.count(b"\x1b[6n") == 1
        os.write(terminal.master, b"\x1b[1;1R")
        assert terminal.hear(reading=True) == {"waiting": False, "heard": []}
        assert terminal.process.wait(20) == 0
    assert terminal.text.count(b"\x1b[6n") == 1


def test_a_key_is_noted_and_what_else_the_terminal_sends_is_not() -> None:
    script = f"""
    import asyncio
    {LIVE}
        async def measure(self):
            await asyncio.sleep(0.3)
            await self.frame("1")
            say(ready=True)
            while has_backlog(self):
                await asyncio.sleep(0.01)
            say(typed=self._driver._pace._typed_s)
            while not self.heard:
                await asyncio.sleep(0.01)
            say(typed=time.monotonic() - self._driver._pace._typed_s < 60)
            self.exit()

    Live(driver_class=BackloggedDriver).run()
    """
    with Terminal(script) as terminal:
        assert terminal.hear(reading=True) == {"ready": True}
        os.write(terminal.master, b"\x1b[I\x1b[1;1R")  # it has the focus, and its cursor is there
        assert terminal.hear(reading=True) == {"typed": -math.inf}
        os.write(terminal.master, b"k")
        assert terminal.hear(reading=True) == {"typed": True}
        assert terminal.process.wait(20) == 0


def test_a_terminal_that_answers_nothing_is_drawn_on_all_the_same() -> None:
    script = f"""
    import asyncio
    from aisp.tui import driver
    driver.PATIENCE_S = 0.2
    {LIVE}
        async def measure(self):
            await asyncio.sleep(0.3)
            for number in range(6):
                await self.frame(str(number))
                while has_backlog(self):
                    await asyncio.sleep(0.01)
            say(heard=self.heard)
            self.exit()

    Live(driver_class=BackloggedDriver).run()
    """
    with Terminal(script) as terminal:
        assert terminal.hear(reading=True) == {"heard": []}
        assert terminal.text.count(b"\x1b[6n") == TRIES
        terminal.drain()
        assert terminal.process.wait(20) == 0


def test_the_end_waits_for_an_answer_under_way_so_that_it_is_not_typed_into_the_shell() -> None:
    script = f"""
    import asyncio
    {LIVE}
        async def measure(self):
            await asyncio.sleep(0.3)
            await self.frame("1")
            say(asked=1)
            while has_backlog(self):
                await asyncio.sleep(0.01)
            await self.frame("2")
            say(asked=2)
            self.exit()

    Live(driver_class=BackloggedDriver).run()
    say(ended=True)
    """
    with Terminal(script) as terminal:
        assert terminal.hear(reading=True) == {"asked": 1}
        os.write(terminal.master, b"\x1b[1;1R")
        assert terminal.hear(reading=True) == {"asked": 2}
        time.sleep(0.1)
        os.write(terminal.master, b"\x1b[1;1R")
        assert terminal.hear(reading=True) == {"ended": True}
        terminal.drain()
        assert terminal.process.wait(20) == 0
        # The terminal is as it was: main screen, cursor and mouse, and no colour left on.
        shown = pyte.Screen(120, 40)
        stream: Any = pyte.ByteStream(shown)
        stream.feed(re.sub(rb"\x1b\[(?:[<>=][0-9;]*[a-z]|\?[0-9;]*\$p)", b"", terminal.text))
        assert shown.cursor.attrs == shown.default_char
        assert terminal.text.rindex(b"\x1b[?1049l") > terminal.text.rindex(b"\x1b[?1049h")
        assert terminal.text.rindex(b"\x1b[?25h") > terminal.text.rindex(b"\x1b[?25l")


@pytest.mark.slow
def test_live_updates_cost_few_bytes() -> None:
    # Counted where they leave for the terminal. Textual's DataTable sends 17 kB for the same cell.
    script = """
    import asyncio, math
    from textual.containers import Vertical
    from aisp.tui import themes
    from aisp.tui.widgets.glyphs import GraphStyle
    from aisp.tui.widgets.logpane import LogPane
    from aisp.tui.widgets.plot import LivePlot, Series
    from aisp.tui.widgets.table import Column, LiveTable

    class Live(App):
        CSS = "LivePlot { height: 20; } LiveTable { height: 12; }"
        graph_style = GraphStyle.BRAILLE
        def compose(self):
            with Vertical():
                yield LivePlot()
                yield LiveTable([Column("a", "a", 20), Column("b", "b", 10), Column("c", "c", ratio=1)])
                yield LogPane()

        def on_ready(self):
            self.run_worker(self.measure())

        async def cost(self, update, times=10):
            await asyncio.sleep(0.3)
            before = Counting.sent
            for number in range(times):
                update(number)
                await asyncio.sleep(0.1)
            return (Counting.sent - before) / times

        async def measure(self):
            themes.register(self)
            self.theme = "aisp-dark"
            table, plot, log = (self.query_one(kind) for kind in (LiveTable, LivePlot, LogPane))
            def rows(value):
                return [(str(n), [f"row {n}", value if n == 3 else "1.0", "x"]) for n in range(200)]
            table.show(rows("0"))
            x = [n / 100 for n in range(1000)]
            y = [2 + 0.1 * math.sin(n * 12.9898) for n in range(1000)]
            plot.show([Series("t", x, y)])
            log.extend(["first"])
            def point(number):
                x.append(10 + number / 100)
                y.append(2 + 0.1 * math.sin(number))
                plot.show([Series("t", x, y)])
            cell = await self.cost(lambda n: table.show(rows(f"{n}.25")))
            same = await self.cost(lambda n: table.show(rows("9.25")))
            dots = await self.cost(point)
            line = await self.cost(lambda n: log.extend(["short"]), 3)
            say(cell=cell, same=same, dots=dots, line=line)
            self.exit()

    Live(driver_class=Counting).run()
    """
    with Terminal(script) as terminal:
        sent = terminal.hear(reading=True, seconds=60)
    print(sent)
    assert 0 < sent["cell"] < 400
    assert sent["same"] < 40
    assert 0 < sent["dots"] < 3000
    assert 0 < sent["line"] < 400


def test_the_windows_own_title_comes_back_and_a_signal_is_sent_once() -> None:
    script = """
    import asyncio
    class Titled(App):
        def on_ready(self):
            self.run_worker(self.work())

        async def work(self):
            for text in ("aisp: one 1/5", "aisp: one 2/5", "aisp: one 2/5"):
                self._driver.set_title(text)
            self._driver.tell_end("bell", "one faster")
            self._driver.tell_end("off", "one faster")
            await asyncio.sleep(0.1)
            say(done=True)
            self.exit()

    Titled(driver_class=BackloggedDriver).run()
    """
    with Terminal(script) as terminal:
        assert terminal.hear(reading=True) == {"done": True}
        terminal.drain()
        assert terminal.process.wait(20) == 0
    sent = terminal.text
    assert [sent.count(f"\x1b]2;aisp: one {at}/5\x1b\\".encode()) for at in (1, 2)] == [1, 1]
    assert sent.count(b"\x1b[22;2t") == sent.count(b"\x1b[23;2t") == 1
    assert sent.index(b"\x1b[22;2t") < sent.index(b"\x1b]2;") < sent.index(b"\x1b[23;2t")
    between = sent[sent.index(b"2/5") : sent.index(b"\x1b[23;2t")]
    assert between.count(b"\x07") == 1


def test_how_far_a_run_is_costs_some_hundred_bytes_a_second() -> None:
    # One drawing of the row a second, as on the run screen: bar, process, time left, step.
    script = """
    import asyncio
    from aisp.tui import steps, themes
    from aisp.tui.model import Model
    from aisp.tui.widgets.textrows import TextRows
    from tests.tui.fakes import START_NS, run_under_way

    class Live(App):
        def compose(self):
            yield TextRows(id="progress")

        def on_ready(self):
            self.run_worker(self.measure())

        async def measure(self):
            themes.register(self)
            self.theme = "aisp-dark"
            model = Model()
            model.apply(run_under_way(expected_s=40.0, begun_s=(0.0, 12.0)))
            row, run = self.query_one(TextRows), model.runs["R1"]
            await asyncio.sleep(0.3)
            costs = []
            for second in range(13, 28):
                before = Counting.sent
                row.show([steps.progress_row(run, START_NS + second * 10**9, 120, False)])
                await asyncio.sleep(0.05)
                costs.append(Counting.sent - before)
            say(costs=costs[1:])
            self.exit()

    Live(driver_class=Counting).run()
    """
    with Terminal(script) as terminal:
        costs = terminal.hear(reading=True, seconds=60)["costs"]
    assert 0 < max(costs) < 400, costs
