"""What `aisp doctor` says of the import path, and how what appeared there during a run is accepted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from aisp.store.text import clean_line
from aisp.tui.cli import common
from aisp.tui.facts import Check, Facts, check

FIX = "look at it: remove it, or accept it if you put it there: aisp doctor --accept"


def import_path(facts: Facts) -> Iterator[Check]:
    """What every trusted process imports: whether something shadows a module, and what is held against a run."""
    from aisp.engine import installed  # msgspec, for this check alone

    path = installed.import_path()
    start = time.perf_counter()
    there = installed.top_level(path)
    took_ms = (time.perf_counter() - start) * 1e3
    startup = [name for name in there if name.endswith((".pth", *installed.CUSTOMIZE))]
    shadows = installed.shadows(path)
    value = f"{len(there)} entries in {len(path)} folders, {len(startup)} run at every start ({took_ms:.0f} ms)"
    fix = ""
    if shadows:
        file, module = next(iter(shadows.items()))
        more = f", and {len(shadows) - 1} more" if len(shadows) > 1 else ""
        value, fix = f"{file} is imported in the place of {module}{more}", f"remove or rename {clean_line(file)}"
    yield check("imports", "import path", value, fix, problem=bool(shadows))
    remembered = installed.recall(installed.state_file())
    value = "nothing appeared there while a run went on"
    if held := remembered is not None and bool(remembered.blocked):
        assert remembered is not None
        value = f"{installed.listed(remembered.blocked)} while {remembered.whose} went on; no process is started"
    yield check("installed", "what was installed", value, FIX, problem=held)


def accept() -> str:
    """Accept it, through the engine if one runs, else for the next one. What was accepted.

    Raises: as `common.running`, and EngineUnavailableError where it went away before it answered.
    """
    from aisp.engine import installed
    from aisp.engine.protocol import requests

    async def ask() -> str | None:
        connection = await common.running()
        if connection is None:
            return None
        async with connection:
            reply = await connection.request(requests.AcceptInstalled(seq=connection.next_seq()))
            return reply.error or reply.detail

    told = asyncio.run(ask())
    if told is not None:
        return told
    accepted = installed.accept_without_engine(installed.state_file())
    return f"accepted: {installed.listed(accepted)}" if accepted else "nothing was held against a run"
