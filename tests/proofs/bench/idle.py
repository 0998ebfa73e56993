"""What the engine costs while nothing runs: with nobody attached and without standbys, then with the app attached.

Memory is resident size, as `top` shows it; standbys share torch's pages, so their proportional size (PSS) is told as
well: that is what ending them would give back.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from tests.kernels.generated import write_collection
from tests.proofs.bench.engines import STANDBYS, real_engine, temporary, until_warm
from tests.proofs.bench.table import Row
from tests.proofs.bench.terminal import Terminal

NAME = "idle"


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """CPU time that these processes have used, kernel and user: to the nanosecond where the kernel tells, else to the
    hundredth of a second."""
    total = 0.0
    for process in processes:
        tasks = [task / "schedstat" for task in Path(f"/proc/{process.pid}/task").iterdir()]
        try:
            total += sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
        except OSError:
            total += sum(process.cpu_times()[:2])
    return total


def _wait(seconds: float, terminal: Terminal | None) -> None:
    if terminal is None:
        time.sleep(seconds)
    else:
        terminal.run(seconds)


def _share(processes: Sequence[psutil.Process], seconds: float, terminal: Terminal | None) -> tuple[float, ...]:
    """Percent of a core, once per second."""
    shares: list[float] = []
    for _ in range(int(seconds)):
        before, start = cpu_s(processes), time.monotonic()
        _wait(1.0, terminal)
        shares.append(100 * (cpu_s(processes) - before) / (time.monotonic() - start))
    return tuple(shares)


def measure(*, quick: bool) -> Iterator[Row]:
    """Alone, then with the app."""
    seconds = 5.0 if quick else 10.0
    with temporary() as (home, environ):
        write_collection(home / "lessons", 8)
        with real_engine(environ) as engine:
            time.sleep(1.0)
            alone = _share([engine], seconds, None)
            memory = engine.memory_info().rss / 1e6
            note = f"{len(engine.children(recursive=True))} standbys"
            yield Row(NAME, "engine, nobody attached", "% of a core", alone, note=note)
            yield Row(NAME, "engine, nobody attached", "MB", (memory,), note="resident")
            argv = [sys.executable, "-c", "from aisp.tui.start import main; main()", str(home / "lessons")]
            with Terminal(argv, environ) as terminal:
                terminal.until(lambda: "Not run yet" in terminal.shown(), what="the first screen")
                asyncio.run(until_warm(environ))
                terminal.run(2.0)
                standbys = engine.children(recursive=True)
                app = psutil.Process(terminal.pid)
                bytes_before = terminal.raw_bytes
                engine_share = _share([engine], seconds, terminal)
                drawn = terminal.raw_bytes - bytes_before
                standby_share = _share(standbys, seconds, terminal)
                app_share = _share([app], seconds, terminal)
                yield Row(NAME, "engine, one app attached", "% of a core", engine_share)
                yield Row(NAME, "engine, one app attached", "MB", (engine.memory_info().rss / 1e6,), note="resident")
                yield Row(NAME, f"its {STANDBYS} standbys together", "% of a core", standby_share)
                resident = sum(process.memory_info().rss for process in standbys) / 1e6
                own = sum(process.memory_full_info().pss for process in standbys) / 1e6
                yield Row(
                    NAME,
                    f"its {STANDBYS} standbys together",
                    "MB",
                    (resident,),
                    note=f"resident, summed over {len(standbys)}; {own:.0f} MB with shared pages counted once",
                )
                resident = app.memory_info().rss / 1e6
                note = f"{drawn} bytes to the terminal in {seconds:.0f} s; {resident:.0f} MB resident"
                yield Row(NAME, "the app at rest", "% of a core", app_share, note=note)
                terminal.signal(signal.SIGTERM)
                terminal.end()
