"""Rows 80 to 82: what can become of the process that forks workers. tests/engine/test_nursery.py has more of it."""

from __future__ import annotations

import asyncio

from aisp.engine import confinement
from aisp.store.outcomes import State
from tests.engine.harness import NURSERY, nurseries
from tests.proofs.evil import corpus
from tests.proofs.evil.corpus import Row
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import Stage, assert_timed, eventually

SLOW = Row("slow", corpus.on_call(corpus.VERIFIED, "time.sleep(2)", imports="import time"), State.OK)
KILLS = Row(
    "kills",
    # Whoever has a name of ours: nurseries, and workers but itself.
    corpus.on_call(
        corpus.VERIFIED,
        "for folder in os.listdir('/proc'):\n"
        "    if folder.isdigit() and int(folder) != os.getpid():\n"
        "        with contextlib.suppress(OSError):\n"
        f"            if open(f'/proc/{{folder}}/comm').read().strip() == '{NURSERY}':\n"
        "                os.kill(int(folder), signal.SIGKILL)\n"
        "                print('KILLED')",
        imports="import contextlib\nimport os\nimport signal",
    ),
    State.OK,
)


@fault(
    80,
    "a nursery is killed while a run is under way",
    "the run ends as it would; what is forked next comes from another nursery",
    own=True,
)
async def killed_nursery(stage: Stage) -> str:
    engine = await stage.started()
    root = stage.target("killed", SLOW)
    running = asyncio.create_task(engine.run(root, "mine:killed"))
    await eventually(lambda: bool(nurseries(engine.ps)), "there is a nursery")
    (first,) = nurseries(engine.ps)
    first.kill()
    result = await running
    assert_timed(result, "baseline")
    assert_timed(result, SLOW.rung)
    await engine.steady()
    (second,) = nurseries(engine.ps)
    assert second.pid != first.pid
    assert all(worker.name() == "aisp-worker" for worker in engine.workers())
    return f"the run ended {result.record.state}; another nursery forked {len(engine.workers())} standbys"


@fault(
    81,
    "a nursery is stopped (SIGSTOP)",
    "whoever asks it for a process gets one from another within the limit of a fork; the stopped one is ended",
    own=True,
)
async def stopped_nursery(stage: Stage) -> str:
    engine = await stage.started(AISP_FORK_LIMIT_S="1")
    root = stage.target("stopped")
    await engine.run(root, "mine:stopped")
    await engine.steady()
    (first,) = nurseries(engine.ps)
    first.suspend()
    result = await engine.run(root, "mine:stopped", rungs=["baseline", "optimized"])
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
    await engine.steady()
    (second,) = nurseries(engine.ps)
    assert second.pid != first.pid and not first.is_running()
    return f"the run ended {result.record.state}; the stopped nursery was ended, and another forked the standbys"


@fault(
    82,
    "a rung looks for the nursery and kills it",
    "where Landlock holds signals (version 6 and newer) it cannot; elsewhere another one takes its place",
    own=True,
)
async def murdered_nursery(stage: Stage) -> str:
    engine = await stage.started()
    await engine.run(stage.target("peaceful"), "mine:peaceful")
    (first,) = nurseries(engine.ps)
    result = await engine.run(stage.target("murder", KILLS), "mine:murder")
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
    await engine.steady()
    (second,) = nurseries(engine.ps)
    killed = "KILLED" in result.printed(KILLS.rung)
    assert killed is (confinement.abi() < confinement.ABI_SCOPES) is (second.pid != first.pid)
    return "its signal reached the nursery, and another took its place" if killed else "it was refused: EPERM"
