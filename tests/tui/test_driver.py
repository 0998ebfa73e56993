"""The driver on a real pty: what is behind, what is gone, and how many bytes a live update costs."""

from __future__ import annotations

import errno
import json
import os
import pty
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from tui.driver import _Outlet, has_backlog

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
import json, os, signal, sys, time
from textual.app import App
from tui.driver import BackloggedDriver, has_backlog

def say(**values):
    os.write(REPORT, (json.dumps(values) + "\\n").encode())

def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()
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
        self.read_bytes = 0

    def hear(self, *, reading: bool, seconds: float = 30) -> dict[str, Any]:
        """The next report. `reading` says whether the terminal takes what is drawn meanwhile."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._text:
            sources = [self.report] + ([self.master] if reading else [])
            ready, _, _ = select.select(sources, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError("the script said nothing")
            if self.master in ready:
                self.read_bytes += len(os.read(self.master, 65536))
            if self.report in ready:
                piece = os.read(self.report, 65536)
                assert piece, "the script ended without a report"
                self._text += piece
        line, _, self._text = self._text.partition(b"\n")
        values: dict[str, Any] = json.loads(line)
        return values

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


def test_live_updates_cost_few_bytes() -> None:
    # Counted where they leave for the terminal. Textual's DataTable sends 17 kB for the same cell.
    script = """
    import asyncio, math
    from textual.containers import Vertical
    from tui import themes
    from tui.widgets.glyphs import GraphStyle
    from tui.widgets.logpane import LogPane
    from tui.widgets.plot import LivePlot, Series
    from tui.widgets.table import Column, LiveTable

    class Counting(BackloggedDriver):
        sent = 0
        def write(self, data):
            Counting.sent += len(data.encode())
            super().write(data)

    class Live(App):
        CSS = "LivePlot { height: 20; } LiveTable { height: 12; }"
        def compose(self):
            with Vertical():
                yield LivePlot(graph_style=GraphStyle.BRAILLE)
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
