"""A driver of a fleet that follows a script, in the place of the process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aisp.engine.doors.fleet import running
from aisp.engine.doors.fleet.messages import Agent, Ended, Give, Here
from aisp.store.outcomes import State
from aisp.store.results import candidate as results
from aisp.store.results.outcome import Stage

Script = Callable[[asyncio.Queue[Give], Callable[[Any], None]], Any]
"""Takes the rows that are given, and what tells the command."""

HERE = Here(agents=[Agent(name="one", node="1", devices=["CPU"])], whole=True)


def put(monkeypatch: pytest.MonkeyPatch, *scripts: Script) -> None:
    """Let scripts be the drivers, one after the other; the last one is all that follow."""
    left = list(scripts)

    @contextlib.asynccontextmanager
    async def stand_in(address: str) -> AsyncIterator[tuple[Any, AsyncIterator[Any]]]:
        rows: asyncio.Queue[Give] = asyncio.Queue()
        told: asyncio.Queue[Any] = asyncio.Queue()
        script = left.pop(0) if len(left) > 1 else left[0]

        async def play() -> None:
            await script(rows, told.put_nowait)
            told.put_nowait(None)

        async def telling() -> AsyncIterator[Any]:
            while (message := await told.get()) is not None:
                yield message

        task = asyncio.create_task(play())
        try:
            yield rows.put, telling()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    monkeypatch.setattr(running, "driver", stand_in)
    monkeypatch.setattr(running, "BETWEEN_S", 0.01)


def ended(row: Give) -> Ended:
    """The row was run, and its candidate is right."""
    outcome = results.Outcome(State.OK, Stage.QUICK, run_id="R1").document()
    return Ended(number=row.number, run_id="R1", outcome=outcome, where={"agent": "one", "host": "h"})


async def serve(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
    """A driver to whom nothing happens."""
    tell(HERE)
    while True:
        tell(ended(await rows.get()))
