"""Rows 66 to 68 and 78: what a rung does to what judges it, and what it can make the engine say."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine import client, confinement, paths
from aisp.store.outcomes import FindingStatus, State
from tests.engine.harness import EngineUnderTest, Result
from tests.proofs.evil import corpus
from tests.proofs.evil.corpus import Row
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.scenes.workers import ended
from tests.proofs.evil.stage import Stage, assert_timed

SOURCES = str(Path(client.__file__).parents[2])


def caught(result: Result, row: Row) -> str:
    """What evaluation.reach says of a rung that it caught."""
    return next(
        f.evidence
        for f in result.record.findings
        if (f.check, f.arm, f.status) == ("evaluation.reach", row.rung, FindingStatus.CAUGHT)
    )


# -- row 66: the store -------------------------------------------------------------------------------------------------


async def rewritten(stage: Stage, engine: EngineUnderTest) -> str:
    """A rung makes every stored median a millionth of a millisecond; what came of it, and of one with its own."""
    root = stage.target("earlier")
    earlier = (await engine.run(root, "mine:earlier", rungs=["baseline"])).record
    store = Path(engine.environment["AISP_STATE"]) / "aisp.db"
    rewrites = (
        "try:\n"
        f"    with sqlite3.connect({str(store)!r}, timeout=1) as d:\n"
        "        d.execute('update arms set median_ms=1e-6, low_ms=1e-6, high_ms=1e-6 where median_ms is not null')\n"
        "        print('REWRITTEN')\n"
        "except sqlite3.Error as error:\n    print('REFUSED', error)"
    )
    keeps = (
        "with sqlite3.connect(tempfile.mkdtemp() + '/own.db') as d, sqlite3.connect(':memory:') as m:\n"
        "    d.execute('create table kept (block)'), m.execute('create table kept (block)')"
    )
    cheat = Row("rewrites", corpus.on_call(corpus.VERIFIED, rewrites, imports="import sqlite3"), State.OK)
    twin = Row("keeps", corpus.on_call(corpus.VERIFIED, keeps, imports="import sqlite3, tempfile"), State.OK)
    stage.target("rewriting", cheat, twin)
    result = await engine.run(root, "mine:rewriting")
    assert f"{store} opened as a database" in caught(result, cheat)
    assert [f.check for f in result.record.findings if f.arm == twin.rung and f.status is FindingStatus.CAUGHT] == []
    assert_timed(result, twin.rung)
    (told,) = set(result.printed(cheat.rung))
    if told.startswith("REFUSED"):
        assert engine.record(earlier.id) == earlier
    else:
        with engine.history() as history:
            assert not history.verify(earlier.id), "the digest must tell"
    return told


@fault(
    66, "a rung rewrites stored results through sqlite3", "caught by evaluation.reach; nothing of it stays", own=True
)
async def rewrites_the_store(stage: Stage) -> str:
    if not confinement.abi():
        pytest.skip("this kernel has no Landlock")
    told = await rewritten(stage, await stage.started())
    assert told.startswith("REFUSED"), told
    return f"caught, and the kernel refused the write: {told}"


@fault(66, "the same where the kernel refuses nothing", "caught by evaluation.reach, and its digest tells", own=True)
async def rewrites_an_open_store(stage: Stage) -> str:
    told = await rewritten(stage, await stage.started(AISP_LANDLOCK="0"))
    assert told == "REWRITTEN", told
    return "caught, and the rewritten run is no longer what its digest was made of"


# -- row 67: what an exception says ------------------------------------------------------------------------------------


@fault(67, "an exception whose text cannot be sent", "user_error, in its own words where it has any", batch="texts")
async def unsayable(stage: Stage) -> str:
    told = [(await ended(stage, "texts", row.name, State.USER_ERROR))[1].reason for row in corpus.TEXTS]
    return "; ".join(reason[:100] for reason in told)


# -- row 68: who is stopped --------------------------------------------------------------------------------------------

PROGRESS_LIMIT_S = 4.0


@fault(68, "a rung stops the verifier", "the run ends within the progress limit, and says what it was", own=True)
async def stops_the_verifier(stage: Stage) -> str:
    engine = await stage.started(AISP_LANDLOCK="0", AISP_PROGRESS_LIMIT_S=str(PROGRESS_LIMIT_S))
    row = Row(
        "stops",
        corpus.on_call(
            corpus.VERIFIED,
            "for pid in map(int, open(f'/proc/{os.getppid()}/task/{os.getppid()}/children').read().split()):\n"
            "    if pid != os.getpid():\n        os.kill(pid, signal.SIGSTOP)",
            imports="import os, signal",
        ),
        State.TIMEOUT_PROGRESS,
    )
    result = await engine.run(stage.target("stopping", row), "mine:stopping", rungs=["baseline", row.rung])
    took_s = (result.finished.duration_ms or 0.0) / 1e3
    assert result.record.state is State.TIMEOUT_PROGRESS, result.record.reason
    assert "was stopped by a signal that the engine did not send" in result.record.reason
    assert took_s < 3 * PROGRESS_LIMIT_S + 5.0, took_s
    return result.record.reason


# -- row 78: the engine's socket ---------------------------------------------------------------------------------------

SHUTS_DOWN = """
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({socket!r})
sys.path.insert(0, {sources!r})
from aisp.engine.protocol import PROTOCOL, requests
from aisp.engine.protocol.framing import Encoder
encoder = Encoder()
hello = requests.Hello(protocol=PROTOCOL, build='', client='rung')
try:
    line.sendall(encoder.frame(hello) + encoder.frame(requests.Shutdown(seq=1)))
    print('ANSWERED', len(line.recv(1000)))
except ConnectionError:
    print('ANSWERED 0')
"""


@fault(78, "a rung asks the engine to end", "refused: who was started by the engine is not served", own=True)
async def shuts_the_engine_down(stage: Stage) -> str:
    engine = await stage.started()
    with engine.use():
        socket = paths.find_socket()
    program = SHUTS_DOWN.format(sources=SOURCES, socket=str(socket))
    asks = Row("asks", corpus.on_call(corpus.VERIFIED, program, imports="import os"), State.OK)
    starts = Row(
        "starts",
        corpus.on_call(
            corpus.VERIFIED,
            f"print(subprocess.run([sys.executable, '-c', {program!r}], capture_output=True, text=True).stdout)",
            imports="import subprocess, sys",
        ),
        State.OK,
    )
    result = await engine.run(stage.target("asking", asks, starts), "mine:asking")
    for row in (asks, starts):
        assert "ANSWERED 0" in result.printed(row.rung), result.printed(row.rung)
        assert result.arm(row.rung).state is State.OK, result.arm(row.rung).reason
    evidence = caught(result, asks)
    assert "connected to the engine" in evidence
    async with engine.stream() as stream:
        told = [line for line in await stream.connection.log() if "was refused" in line]
    assert told
    return f"{told[-1]}; the rung is caught where it is Python: {evidence}"
