"""The one writer of the store, which follows a store that was moved: what it writes there names nothing that is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from aisp.engine import planning
from aisp.engine.broadcast import Broadcast
from aisp.engine.life import Life
from aisp.engine.lock import Lock
from aisp.engine.queue import Queue
from aisp.engine.store_writer import StoreWriter
from aisp.store import upkeep
from aisp.store.outcomes import Trigger
from aisp.store.reader import History
from aisp.store.writer import Store
from tests.engine.targets import write_target
from tests.replacing import replace
from tests.store.examples import finished, fuzz_of, planned


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a state folder of its own."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("AISP_STATE", str(state))
    return state / "aisp.db"


@pytest.fixture
async def writer(path: Path) -> StoreWriter:
    """The writer of that store, opened."""
    broadcast = SimpleNamespace(banner=lambda key, text, severity="warning": None)
    held = SimpleNamespace(look=lambda: None, lost=False)
    kept = StoreWriter(cast("Lock", held), Life(), cast("Broadcast", broadcast))
    await kept.open()
    return kept


def damage(path: Path) -> list[str]:
    """What `aisp store --verify` says of the file at this moment."""
    return [f"{one.kind}: {one.reason}" for one in upkeep.verify(path).damage]


async def test_a_run_is_in_no_store_without_its_sources_whenever_the_engine_is_killed(
    writer: StoreWriter, path: Path, tmp_path: Path
) -> None:
    """Its sources were put into the store that was moved since; whoever looks after any call finds both."""
    target = write_target(tmp_path / "mine", {}, inputs='x = "float32 [N] normal cpu"')
    files = {name.name: name.read_bytes() for name in target.folder.iterdir()}
    snapshot = await writer.ask(lambda store: store.put_snapshot(files))
    here = planning.Hardware((), 0, None, "none", 0)
    plan = planning.plan(target, files, snapshot, here, epoch="E", seq=1, quick=True, trigger=Trigger.CLI)
    slots = MagicMock(pools=[], gpus=[], usual=MagicMock())
    queue = Queue(Life(), MagicMock(), writer, MagicMock(), slots, here, MagicMock())
    seen: list[list[str]] = []

    async def store(work: Callable[[Store], Any]) -> Any:
        answer = await writer.ask(work)
        seen.append(damage(path))
        return answer

    path.rename(path.with_name("moved.db"))
    await queue.enqueue([plan], store)
    assert seen == [[]]
    with History(path) as history:
        assert history.snapshot(snapshot) == files
        assert history.run(plan.id).snapshot == snapshot
    await writer.close()


async def test_a_run_that_ends_after_its_store_was_moved_has_its_environment_though_another_was_put_later(
    writer: StoreWriter, path: Path
) -> None:
    """Two slots describe what they run on; the store is moved before the first one's run ends."""
    first = await writer.call(lambda store: store.put_environment({"gpu": "one"}))
    await writer.call(lambda store: store.put_environment({"gpu": "two"}))
    run = planned()
    await writer.call(lambda store: store.plan([run]))
    writer.under_way = lambda: ([(cast("Any", SimpleNamespace(record=run)), run.state)], [])
    path.rename(path.with_name("moved.db"))
    end = replace(finished(run), arms=(), comparisons=(), environment=first)
    await writer.call(lambda store: store.finish(end, {}))
    assert damage(path) == []
    with History(path) as history:
        assert history.environment(first) == {"gpu": "one"}
    await writer.close()


async def test_a_fuzz_that_ends_after_its_store_was_moved_has_the_sources_that_its_cases_are_played_with(
    writer: StoreWriter, path: Path
) -> None:
    sources = {"optimized.py": b"def run(x):\n    return x\n"}
    snapshot = await writer.call(lambda store: store.put_snapshot(sources))
    path.rename(path.with_name("moved.db"))
    record = replace(fuzz_of()[0], snapshot=snapshot, rungs=())
    await writer.call(lambda store: store.put_fuzz(record, (), {snapshot: sources}))
    with History(path) as history:
        assert history.snapshot(history.fuzz(record.id).snapshot) == sources
    await writer.close()
