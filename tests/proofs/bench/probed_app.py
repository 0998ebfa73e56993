"""`aisp-tui` with a probe in its event loop: `python -m tests.proofs.bench.probed_app REPORT PATH [profile]`.

Beside the app runs a task that sleeps for 10 ms again and again and notes by how much it woke too late: the loop's
lag, and how long a key press would have waited. It also notes the driver's backlog. At the end REPORT gets one JSON
object: {at_ns: [...], lag_ms: [...], backlog: [...], skipped_ticks: n}. With "profile" the app runs under cProfile and
REPORT.prof gets the profile.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import sys
import time
from pathlib import Path

from aisp.tui import app
from aisp.tui.screens import Place

PERIOD_S = 0.01

at_ns: list[int] = []
lag_ms: list[float] = []
backlog: list[int] = []
skipped_ticks = 0


class ProbedWorkbench(app.Workbench):
    """The app and its probe."""

    _probe: asyncio.Task[None]

    def on_mount(self) -> None:
        """Begin to look."""
        self._probe = asyncio.create_task(self._look())

    async def _look(self) -> None:
        global skipped_ticks
        while True:
            due = time.monotonic_ns() + int(PERIOD_S * 1e9)
            await asyncio.sleep(PERIOD_S)
            now = time.monotonic_ns()
            at_ns.append(now)
            lag_ms.append(max(0.0, (now - due) / 1e6))
            backlog.append(int(getattr(self._driver, "backlog", 0)))
            if self.link is not None:
                skipped_ticks = self.link.skipped_ticks


def main() -> int:
    """Run the app; write what the probe saw."""
    report, path = Path(sys.argv[1]), Path(sys.argv[2])
    app.Workbench = ProbedWorkbench  # type: ignore[misc]
    profile = cProfile.Profile() if "profile" in sys.argv[3:] else None
    try:
        if profile is not None:
            return profile.runcall(app.run, Place(path))
        return app.run(Place(path))
    finally:
        found = {"at_ns": at_ns, "lag_ms": lag_ms, "backlog": backlog, "skipped_ticks": skipped_ticks}
        report.write_text(json.dumps(found))
        if profile is not None:
            profile.dump_stats(f"{report}.prof")


if __name__ == "__main__":
    sys.exit(main())
