"""Rows 69 and 70: what the store holds is removed, invented or rewritten by other means than the store's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from aisp.engine import client, paths
from aisp.store import Store, chain
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import Stage
from tests.store.examples import caught, finished, planned
from tests.store.forged import invent, rewrite


async def asked(engine: EngineUnderTest, *words: str) -> tuple[int, Any]:
    """Exit status and JSON of a command beside this engine."""
    with engine.use():
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", *words, "--json"],
            cwd=Path(client.__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


async def filled(stage: Stage) -> tuple[EngineUnderTest, Path, list[str]]:
    """An engine whose store has three runs and one that was caught; the store, and the ids of all."""
    engine = stage.own()
    with engine.use():
        place = paths.database_file()
        runs = [finished(planned()) for _ in range(3)]
        runs.append(caught(planned("mine:softmax")))
        with Store.open(place) as store:
            for run in runs:
                store.finish(run, {})
    await engine.start()
    return engine, place, [run.id for run in runs]


@fault(
    69,
    "a run is removed from the store, one with a fitting digest is invented, quarantines are deleted",
    "`store --verify` ends with 1 and tells each by its number; the engine goes on",
    own=True,
)
async def removed_and_invented(stage: Stage) -> str:
    engine, place, runs = await filled(stage)
    status, told = await asked(engine, "store", "--verify")
    assert (status, told["damage"]) == (0, [])
    rewrite(place, "DELETE FROM runs WHERE number = 2", "DELETE FROM quarantines")
    invent(place, finished(planned(id="FORGED"), speedup=98.3), 900)
    status, told = await asked(engine, "store", "--verify")
    found = {each["id"]: f"{each['kind']} {each['reason']}" for each in told["damage"]}
    assert status == 1
    assert found == {
        runs[1]: "run removed: it was number 2, entry 3 of the chain",
        "FORGED": "run added: no entry of the chain speaks of number 900",
        "mine:softmax optimized": "quarantine removed: it was quarantine number 1",
    }
    return "; ".join(found.values())


@fault(
    69,
    "runs are removed and the whole chain is written anew over the rest",
    "by itself the file is whole, and `store --verify --head` with a head of before says that it is not that store",
    own=True,
)
async def chain_written_anew(stage: Stage) -> str:
    engine, place, _ = await filled(stage)
    _, info = await asked(engine, "store")
    head = info["chain"]["head"][: chain.SHORT]
    root = stage.target("honest")
    await engine.run(root, "mine:honest", rungs=["baseline"])
    status, told = await asked(engine, "store", "--verify", "--head", head)
    assert (status, told["whole"]) == (0, True) and told["head_entry"] == info["chain"]["entries"]
    with contextlib.closing(sqlite3.connect(place, timeout=30)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM runs WHERE number <= 3")
        connection.execute("DELETE FROM chain")
        chain.begin(connection)
    status, told = await asked(engine, "store", "--verify", "--head", head)
    assert (status, told["whole"], told["head_entry"]) == (1, True, None)
    return f"head {head} was entry {info['chain']['entries']}, and is no entry of the chain that was written anew"


@fault(
    70,
    "the times of a stored run are rewritten with sqlite3 behind the engine",
    "every command shows that it was changed since it was written, in place of its figures; verify names it",
    own=True,
)
async def rewritten_record(stage: Stage) -> str:
    engine = await stage.started()
    root = stage.target("honest")
    run = (await engine.run(root, "mine:honest")).record
    with engine.use():
        place = paths.database_file()
    rewrite(place, "UPDATE arms SET median_ms = 1e-6, low_ms = 1e-6, high_ms = 1e-6 WHERE median_ms IS NOT NULL")
    with engine.history() as history:
        shown = history.run(run.id)
        assert history.board()["mine:honest"] == history.newest(1)[0]
        assert (shown.state, shown.arms, shown.comparisons, history.samples(run.id)) == (State.CHANGED, (), (), {})
    for words in (("history", run.id), ("history", "mine:honest")):
        _, told = await asked(engine, *words)
        (one,) = told.get("runs", [told])
        assert (one["status"], one["arms"], one["verdict"]) == (State.CHANGED.value, [], "none")
    _, told = await asked(engine, "list", "--root", str(root))
    last = next(target["last"] for target in told["targets"] if target["id"] == "mine:honest")
    assert (last["status"], last["median_ms"]) == (State.CHANGED.value, None)
    status, told = await asked(engine, "store", "--verify")
    assert (status, [each["id"] for each in told["damage"]]) == (1, [run.id])
    return f"{shown.state.value}: {shown.reason}; verify: {told['damage'][0]['reason']}"
