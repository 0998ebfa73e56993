"""How long until there is something to see: `aisp-tui` and `aisp list` on 160 targets, fresh processes.

Cold means a new process with its files in the page cache. The app's first paint is the first text on the screen, its
targets are listed when the first target's row is. Once beside a running engine whose standbys are warm, as in every
start but the day's first, and once where the app starts the engine itself, whose standbys import torch beside it. What
a process had imported when it ended is looked at: torch must not be among it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.kernels.generated import write_collection
from tests.proofs.bench.engines import real_engine, stop_engine, temporary, until_warm
from tests.proofs.bench.table import Row
from tests.proofs.bench.terminal import ROOT, Terminal, environment

NAME = "startup"
TARGETS = 160


def spied(module: str, report: Path, *words: str) -> list[str]:
    """The command line of a module's entry point that writes what it had imported, at its end, to `report`."""
    source = (
        "import atexit, sys\n"
        f"atexit.register(lambda: open({str(report)!r}, 'w').write(' '.join(sys.modules)))\n"
        f"from {module} import main\n"
        "main()\n"
    )
    return [sys.executable, "-c", source, *words]


def heavy(report: Path) -> str:
    """Which of the modules that no frontend may import were imported; "" for none."""
    imported = set(report.read_text(encoding="utf-8").split())
    return ", ".join(sorted({"torch", "triton"} & imported))


def list_targets_ms(lessons: Path, environ: Mapping[str, str], report: Path) -> float:
    """One `aisp list`, from its fork to its end.

    Raises:
        RuntimeError: it failed, or did not list all targets.
    """
    start = time.monotonic()
    done = subprocess.run(
        spied("aisp.tui.cli.tree", report, "list", "--root", str(lessons)),
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    took_ms = (time.monotonic() - start) * 1e3
    listed = sum(":" in line.split(" ")[0] for line in done.stdout.splitlines())
    if done.returncode or listed != TARGETS:
        raise RuntimeError(f"aisp list ended with {done.returncode} and {listed} targets: {done.stderr}")
    return took_ms


def first_frames_ms(lessons: Path, first: str, environ: Mapping[str, str], report: Path) -> tuple[float, float]:
    """One start of the app: until its first paint, and until its targets are listed."""
    with Terminal(spied("aisp.tui.start", report, str(lessons)), environ) as terminal:
        painted = terminal.until(lambda: "Targets" in terminal.shown(), what="the first paint")
        listed = terminal.until(lambda: first in terminal.shown(), what="the list of targets")
        terminal.run(0.3)
        terminal.signal(signal.SIGTERM)
        terminal.end()
        return (painted - terminal.started_ns) / 1e6, (listed - terminal.started_ns) / 1e6


def measure(*, quick: bool) -> Iterator[Row]:
    """Rows of all starts."""
    times = 5 if quick else 10
    with temporary() as (home, environ):
        lessons = home / "lessons"
        first = write_collection(lessons, TARGETS)[0].partition(":")[2]
        report = home / "modules.txt"

        listing = [list_targets_ms(lessons, environ, report) for _ in range(times)]
        found = heavy(report)
        yield Row(
            NAME,
            f"aisp list, {TARGETS} targets",
            "ms",
            tuple(listing),
            note=f"imports {found}" if found else "imports no torch",
        )
        with real_engine(environ):
            asyncio.run(until_warm(environ))
            beside = [first_frames_ms(lessons, first, environ, report) for _ in range(times)]
        found = heavy(report)
        note = f"imports {found}" if found else "imports no torch"
        yield Row(NAME, "aisp-tui, first paint", "ms", tuple(paint for paint, _ in beside), note=note)
        yield Row(NAME, f"aisp-tui, {TARGETS} targets listed", "ms", tuple(listed for _, listed in beside))
        alone: list[tuple[float, float]] = []
        for number in range(2 if quick else 3):
            own = home / f"alone{number}"
            environ = environment(own)
            try:
                alone.append(first_frames_ms(lessons, first, environ, report))
            finally:
                with contextlib.suppress(OSError):
                    stop_engine(environ)
        yield Row(
            NAME,
            "aisp-tui, targets listed, no engine yet",
            "ms",
            tuple(listed for _, listed in alone),
            note="it starts the engine beside",
        )
