"""When a driven app has nothing left to do: what `Pilot.press` and `Pilot.pause` wait for in these tests.

Textual naps for 20 ms at least, twice for every key, and asks whether the process has computed meanwhile; an app that
draws a running clock is never idle then, and each key takes a second. Here an app is idle when its event loop has
nothing ready, no timer is due at once, and no thread of the app is at work.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

SOON_S = 0.02  # a timer that is due by then is awaited: Textual's shortest nap
NAP_S = 0.002  # between two looks at threads
STUCK_S = 0.02  # threads that have not computed for so long are blocked, and not awaited


async def settled(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the app has nothing to do, `max_sleep` seconds at most; in place of `textual._wait.wait_for_idle`."""
    loop: Any = asyncio.get_running_loop()
    began = loop.time()
    computed = time.process_time()
    looked = began
    if min_sleep:
        await asyncio.sleep(min_sleep)
    while loop.time() < began + max_sleep:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        due = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=float("inf"))
        if due <= began + SOON_S:
            await asyncio.sleep(max(0.0, due - loop.time()))
        elif not _threads_at_work(loop):
            return
        elif loop.time() - looked < STUCK_S:
            await asyncio.sleep(NAP_S)
        elif time.process_time() - computed < STUCK_S / 20:
            return
        else:
            looked, computed = loop.time(), time.process_time()


def _threads_at_work(loop: Any) -> bool:
    """Whether a thread that the app has started goes on: those of `tui.aside`, and Textual's thread workers."""
    if any(thread.name.startswith("aside ") for thread in threading.enumerate()):
        return True
    pool = loop._default_executor
    return pool is not None and (pool._work_queue.qsize() > 0 or pool._idle_semaphore._value < len(pool._threads))
