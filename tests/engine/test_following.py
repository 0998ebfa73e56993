"""The engine's calls of the writer when the store is not at its path any more: followed, waited for, or the end."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aisp.engine import paths
from aisp.engine.server import Engine
from aisp.store import History, Store, StoreGoneError, snapshot_hash
from aisp.store.outcomes import State
from tests.store.examples import finished, planned

FILES = {"optimized.py": b"def run(x): ...\n"}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    return paths.database_file()


def engine_of(store: Store, told: list[tuple[str, str]], *on_the_way: Any) -> Any:
    """As much of an engine as a call of its writer needs."""
    engine: Any = object.__new__(Engine)
    engine.epoch = "EPOCH"
    engine._store, engine._lock = store, SimpleNamespace(look=lambda: None, lost=False)
    engine._store_lock, engine._stopping = asyncio.Lock(), asyncio.Event()
    engine._store_waits, engine._followed, engine._ready = "", False, asyncio.Event()
    engine._environment = ()
    engine._queue = [SimpleNamespace(plan=SimpleNamespace(record=run, files=FILES), state=s) for run, s in on_the_way]
    engine._fuzzes = []
    engine._banner = lambda key, text, severity="warning": told.append((key, text))
    return engine


async def test_what_is_on_its_way_goes_into_the_store_at_the_path(path: Path) -> None:
    told: list[tuple[str, str]] = []
    running, waiting = planned(), planned()
    engine = engine_of(Store.open(path), told, (running, State.RUNNING), (waiting, State.PLANNED))
    await engine._call_store("plan", [running, waiting])
    digest = await engine._call_store("put_environment", {"gpu": "none"})
    path.rename(path.with_name("old.db"))
    await engine._call_store("finish", finished(running), {}, None)
    assert [key for key, _ in told] == ["moved"]
    assert "a new store was begun there; 2 run(s) that were on their way go into it" in told[0][1]
    engine._store.close()
    with History(path) as history:
        assert {run.id: run.state for run in history.newest()} == {running.id: State.OK, waiting.id: State.PLANNED}
        assert history.environment(digest) == {"gpu": "none"}
        assert history.snapshot(snapshot_hash(FILES)) == FILES


async def test_results_wait_while_another_programs_database_is_at_the_path(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []
    engine = engine_of(Store.open(path), told)
    path.rename(path.with_name("old.db"))
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")

    async def waited(seconds: float) -> None:
        path.unlink()

    monkeypatch.setattr(asyncio, "sleep", waited)
    await engine._call_store("plan", [planned()])
    assert [key for key, _ in told] == ["store", "moved", "store"]
    assert "is a database of another program" in told[0][1]
    assert told[0][1].endswith("results wait in memory and runs are paused")
    assert told[2][1] == ""


async def test_an_engine_ends_where_it_would_not_be_safe_to_make_its_folder_anew(path: Path, tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    engine = engine_of(Store.open(path), told)
    path.parent.rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    path.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreGoneError, match="is a symbolic link"):
        await engine._call_store("plan", [planned()])
    assert engine._stopping.is_set()
    assert told[0][0] == "lock" and told[0][1].endswith("; the engine ends")
    assert list((tmp_path / "elsewhere").iterdir()) == []
