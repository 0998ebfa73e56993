"""One row on the host that it was given to: its target's folder written, one run of the local engine, its outcome.

Nothing here knows Ray. The engine is asked as by any client; what it runs, guards and stores is an ordinary run. A row
that comes a second time, because somebody died before its outcome was told, waits for its run where the engine still
has it, and finds it in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Mapping

from aisp.engine import client, paths, start
from aisp.engine.client import EngineUnavailableError
from aisp.engine.doors import api, asking
from aisp.engine.doors.asking import Answer, NotHereError, RefusedError
from aisp.engine.doors.fleet.messages import Ended, Give, Lost, Result
from aisp.store.errors import StoreError
from aisp.store.outcomes import State
from aisp.store.results import candidate as results
from aisp.store.results import telling
from aisp.store.text import clean_line

OPENING_S = 120.0
"""Patience with an engine that is started: it may examine a large store first."""
QUEUE_S = 0.2
"""Between two looks at the engine's queue, while the run of a row that came a second time is in it."""
REASON_CHARS = 1000


def judge(row: Give, environment: Mapping[str, str]) -> Result:
    """Have a row run here, and wait for its end.

    Args:
        row: what to run.
        environment: of an engine that has to be started for it.
    """
    try:
        target = api.written_target(row.stem, row.name, row.files)
    except RefusedError as error:
        return Ended(number=row.number, run_id="", outcome=results.refused(_cut(error)).document())
    try:
        open_engine(environment)
        asyncio.run(_let_go(target.id))
        with asking.opened() as store:
            earlier = asking.known(
                store, target.id, [row.rung], quick=row.quick, device=row.device, since_s=row.since_s, ended=True
            )
        if earlier is None:
            options = {name: getattr(row, name) for name in ("device", "case", "quick", "patience_s")}
            answer = asking.ask(api.request_of(target, [row.rung], **options))
        else:
            answer = asking.read(earlier.id, earlier.record)
    except (EngineUnavailableError, NotHereError, RefusedError, StoreError) as error:
        return Lost(number=row.number, reason=_cut(error))
    record = answer.reading.record
    found = None if record.state.silent else results.of_run(answer.reading, row.rung, alone=True)
    if found is None or found.state is State.UNAVAILABLE:  # another host may have what this one lacks
        said = telling.end_words(record) if record.state.final else "its engine never wrote down how it ended"
        return Lost(number=row.number, reason=_cut(f"run {record.id}: {said}"))
    return Ended(number=row.number, run_id=record.id, outcome=found.document(), where=where(answer))


def _cut(told: object) -> str:
    return clean_line(str(told), limit=REASON_CHARS)


def where(answer: Answer) -> dict[str, str]:
    """On which host and which GPU a run was made; texts are empty where that is not known."""
    facts = {name: clean_line(str(answer.facts.get(name) or "")) for name in ("host", "gpu", "gpu_uuid")}
    return {**facts, "device": answer.reading.record.device}


def open_engine(environment: Mapping[str, str]) -> list[str]:
    """Have an engine run here; what it can run on, in words. Raises EngineUnavailableError.

    One that is started is no child of this process, which Ray may end with all its children: a process between the two
    starts it and leaves.
    """
    with contextlib.suppress(EngineUnavailableError):
        return asyncio.run(_devices())
    command = start.command("aisp.engine.doors.fleet.opening")
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            timeout=OPENING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineUnavailableError(f"the engine was not up within {OPENING_S:.0f} s; {paths.log_file()}") from None
    if done.returncode:
        said = clean_line(done.stderr.decode(errors="backslashreplace").strip(), limit=REASON_CHARS)
        raise EngineUnavailableError(said or f"no engine could be started (status {done.returncode})")
    return asyncio.run(_devices())


async def _let_go(target_id: str) -> None:
    """Wait until no job of a target is in the engine's queue: a run leaves it when it is in the store, so whoever then
    looks there finds it. The files of a row make a target of its own, which nobody else asks for."""
    async with await client.connect(start=False) as engine:
        while any(item.target == target_id for item in (await engine.status()).queue):  # noqa: ASYNC110  told when asked
            await asyncio.sleep(QUEUE_S)


async def _devices() -> list[str]:
    async with await client.connect(start=False) as engine:
        status = await engine.status()
        return [clean_line(one.name) for one in status.devices if not one.note] or ["CPU"]
