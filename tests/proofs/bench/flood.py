"""The run screen while 5,000 samples a second arrive: does a key still answer, and what does drawing cost the line?

The real app on a pty of 120x40, connected over the real socket to `flood_engine`. A key press moves the cursor of the
table of arms; the echo is complete when the emulated screen shows the other row highlighted. `LOST_MS` stands for an
echo that never came. Once with a terminal that reads as fast as it can, once with one that takes 15 kB/s.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.kernels.generated import write_collection
from tests.proofs.bench.flood_engine import ARMS, SAMPLES_PER_S
from tests.proofs.bench.table import Aim, Row
from tests.proofs.bench.terminal import ROOT, Terminal, environment

NAME = "flood"
SLOW_BYTES_PER_S = 15_000.0
LOST_MS = 3000.0
AIM_MS = Aim(50.0)
AIM_KB_PER_S = Aim(25.0, "p50")


@dataclass
class Seen:
    """What one flood showed. Lists are in the order measured."""

    lag_ms: list[float] = field(default_factory=list)
    echo_ms: list[float] = field(default_factory=list)
    bytes_per_s: list[float] = field(default_factory=list)  # one per second
    cpu_percent: float = 0.0
    rss_mb: float = 0.0
    backlog_max: int = 0
    skipped_ticks: int = 0
    calm_echo_ms: list[float] = field(default_factory=list)
    unanswered: int = 0
    exit_status: int | None = None


@contextlib.contextmanager
def flooded(
    home: Path, *, bytes_per_s: float | None = None, profile: bool = False
) -> Iterator[tuple[Terminal, psutil.Process]]:
    """The app on its run screen, a flood coming in; ends all of it."""
    environ = environment(home)
    write_collection(home / "lessons", 3)
    engine = subprocess.Popen(
        [sys.executable, "-m", "tests.proofs.bench.flood_engine"],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert engine.stdout is not None
        if engine.stdout.readline() != "ready\n":
            raise RuntimeError("the fake engine did not start; its stderr says why")
        argv = [sys.executable, "-m", "tests.proofs.bench.probed_app", str(home / "probe.json"), str(home / "lessons")]
        with Terminal([*argv, *(["profile"] if profile else [])], environ) as terminal:
            terminal.until(lambda: "connected" in terminal.shown() or "Not run yet" in terminal.shown(), what="home")
            terminal.run(0.5)
            terminal.press("r")
            terminal.until(lambda: _rows(terminal) is not None and "2.1" in terminal.shown(), what="the run screen")
            terminal.bytes_per_s = bytes_per_s
            yield terminal, psutil.Process(terminal.pid)
    finally:
        engine.send_signal(signal.SIGTERM)
        try:
            engine.wait(10)
        except subprocess.TimeoutExpired:
            engine.kill()
            engine.wait()
        if engine.stdout is not None:
            engine.stdout.close()


def _rows(terminal: Terminal) -> tuple[int, int] | None:
    """Lines of the table of arms: the last lines that begin with the arms' names."""
    found: dict[str, int] = {}
    for index, line in enumerate(terminal.screen.display):
        words = line.split()
        if words and words[0] in ARMS:
            found[words[0]] = index
    return (found[ARMS[0]], found[ARMS[1]]) if len(found) == len(ARMS) else None


def highlight(terminal: Terminal) -> tuple[object, object] | None:
    """How the two rows of the table of arms look; they swap when the cursor moves."""
    rows = _rows(terminal)
    if rows is None:
        return None
    return terminal.look(rows[0], 2), terminal.look(rows[1], 2)


def echo_ms(terminal: Terminal, key: str) -> float | None:
    """Press a key that moves the cursor; until the other row is seen highlighted. None: within LOST_MS it was not."""
    before = highlight(terminal)
    pressed_ns = terminal.press(key)
    try:
        shown_ns = terminal.until(lambda: highlight(terminal) not in (before, None), LOST_MS / 1e3)
    except TimeoutError:
        return None
    return (shown_ns - pressed_ns) / 1e6


def watch(seconds: float, *, bytes_per_s: float | None = None, profile: str = "") -> Seen:
    """Flood the app for so long after it has settled, pressing keys all the while; then the same keys in the calm.

    Args:
        seconds: how long to look.
        bytes_per_s: how fast the terminal reads; None for as fast as it can.
        profile: where to put a cProfile of the app, "" for none.
    """
    seen = Seen()
    chance = random.Random(7)  # the same moments in every benchmark
    with tempfile.TemporaryDirectory(prefix="aisp-bench-") as folder:
        home = Path(folder)
        with flooded(home, bytes_per_s=bytes_per_s, profile=bool(profile)) as (terminal, process):
            terminal.run(3.0)
            start_ns, cpu_before = time.monotonic_ns(), sum(process.cpu_times()[:2])
            second_ns, second_bytes = start_ns, terminal.raw_bytes
            keys = itertools.cycle("jk")
            while time.monotonic_ns() - start_ns < seconds * 1e9:
                echo = echo_ms(terminal, next(keys))
                seen.unanswered += echo is None
                seen.echo_ms.append(LOST_MS if echo is None else echo)
                terminal.run(chance.uniform(0.05, 0.25))
                now = time.monotonic_ns()
                if now - second_ns >= 1e9:
                    seen.bytes_per_s.append((terminal.raw_bytes - second_bytes) / ((now - second_ns) / 1e9))
                    second_ns, second_bytes = now, terminal.raw_bytes
            end_ns = time.monotonic_ns()
            seen.cpu_percent = 100 * (sum(process.cpu_times()[:2]) - cpu_before) / ((end_ns - start_ns) / 1e9)
            seen.rss_mb = process.memory_info().rss / 1e6
            if bytes_per_s is None:
                seen.calm_echo_ms = _calm(terminal, keys, chance, 40)
            terminal.signal(signal.SIGTERM)
            seen.exit_status = terminal.end()
        probe = json.loads((home / "probe.json").read_text())
        if profile:
            Path(profile).write_bytes((home / "probe.json.prof").read_bytes())
    inside = [index for index, at in enumerate(probe["at_ns"]) if start_ns <= at <= end_ns]
    seen.lag_ms = [probe["lag_ms"][index] for index in inside]
    seen.backlog_max = max((probe["backlog"][index] for index in inside), default=0)
    seen.skipped_ticks = probe["skipped_ticks"]
    return seen


def _calm(terminal: Terminal, keys: Iterator[str], chance: random.Random, count: int) -> list[float]:
    """The echo once the run was cancelled and nothing is drawn but what a key changes."""
    terminal.press("x")
    terminal.until(lambda: "cancelled by its owner" in terminal.shown(), what="the cancelled run")
    terminal.run(5.0)  # until the toast has gone
    found: list[float] = []
    for _ in range(count):
        echo = echo_ms(terminal, next(keys))
        found.append(LOST_MS if echo is None else echo)
        terminal.run(chance.uniform(0.05, 0.15))
    return found


def rows(seen: Seen, where: str, *, slow: bool) -> list[Row]:
    """A flood's rows."""
    lost = f"{seen.unanswered} not within {LOST_MS / 1e3:.0f} s" if seen.unanswered else ""
    traffic_note = f"as much as the line takes; {seen.skipped_ticks} draws skipped" if slow else ""
    return [
        Row(NAME, f"loop lag, {where}", "ms", tuple(seen.lag_ms), AIM_MS),
        Row(NAME, f"key echo, {where}", "ms", tuple(seen.echo_ms), AIM_MS, lost),
        Row(
            NAME,
            f"to the terminal, {where}",
            "kB/s",
            tuple(rate / 1e3 for rate in seen.bytes_per_s),
            AIM_KB_PER_S,
            traffic_note,
        ),
        Row(
            NAME,
            f"CPU of the app, {where}",
            "% of a core",
            (seen.cpu_percent,),
            note=f"{seen.rss_mb:.0f} MB resident, at most {seen.backlog_max} texts waiting for the terminal",
        ),
    ]


def measure(*, quick: bool) -> Iterator[Row]:
    """Both floods."""
    seconds = 8.0 if quick else 20.0
    what = f"{SAMPLES_PER_S} samples/s"
    fast = watch(seconds)
    yield Row(NAME, "key echo, nothing live", "ms", tuple(fast.calm_echo_ms), AIM_MS)
    yield from rows(fast, what, slow=False)
    yield from rows(watch(seconds, bytes_per_s=SLOW_BYTES_PER_S), f"{what}, read at 15 kB/s", slow=True)
