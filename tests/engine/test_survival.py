"""The engine that an app started outlives it: killed or cut off, the run goes on and is found again."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from engine import client
from engine.client import EngineUnavailableError
from engine.protocol import events
from store.outcomes import State
from tests.engine.harness import EngineUnderTest
from tests.evil import corpus

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(120)]

APP = [sys.executable, "-c", "from tui.cli import main_tui; main_tui()", "--no-mouse"]


def start_app(engine: EngineUnderTest, root: Path) -> tuple[int, int]:
    """The app on a terminal of its own: (its pid, the terminal's other end)."""
    pid, master = pty.fork()
    if pid == 0:  # pragma: no cover  this is the app
        environment = {**os.environ, **engine.environment, "TERM": "xterm-256color"}
        os.execve(APP[0], [*APP, str(root)], environment)
    termios.tcsetwinsize(master, (24, 80))
    os.set_blocking(master, False)
    asyncio.get_running_loop().add_reader(master, lambda: os.read(master, 1 << 16))
    return pid, master


async def engine_of_the_app() -> int:
    """Wait until the engine that the app started answers; its pid."""
    deadline = time.monotonic() + 30
    while True:
        try:
            async with await client.connect(start=False) as connection:
                return connection.welcome.pid
        except EngineUnavailableError:
            assert time.monotonic() < deadline, "the app started no engine"
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("end", ["killed", "line dropped"])
async def test_a_run_goes_on_when_its_app_is_gone_and_a_later_one_finds_all_of_it(
    end: str, own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    engine = own()
    root = corpus.write(tmp_path / "mine" / "slow", [corpus.Row("naps", NAPS, State.OK)]).parent
    with engine.use():
        app, master = start_app(engine, root)
        pid = await engine_of_the_app()
        async with engine.stream(start_at=1) as stream:
            (run_id,) = await stream.plan(root, "mine:slow", rungs=["optimized_naps"])
            await stream.until(events.RunState, lambda event: event.state == "running")
        asyncio.get_running_loop().remove_reader(master)
        if end == "killed":
            os.kill(app, signal.SIGKILL)
        else:
            os.close(master)
        await asyncio.to_thread(os.waitpid, app, 0)
        assert psutil.pid_exists(pid)
        # Whoever comes later sees the whole story, from the first event on.
        async with engine.stream(start_at=1) as stream:
            finished = await stream.finish(run_id)
            told = [event for event in stream.of_run(run_id) if isinstance(event, events.RunPlanned)]
        assert finished.state == State.OK.value
        assert len(told) == 1
        assert engine.record(run_id).state is State.OK
        os.kill(pid, signal.SIGTERM)
        await asyncio.to_thread(psutil.wait_procs, [psutil.Process(pid)], 30)
        # Its parent is gone: where nobody collects orphans, its entry stays.
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    if end == "killed":
        os.close(master)


NAPS = "import time\n\n\ndef prepare(x):\n    time.sleep(2)\n    return run\n\n\ndef run(x):\n    return x * 2\n"
