"""Forked workers are to everybody what started ones are, and what a nursery suffers harms nobody."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import os
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import MagicMock

import psutil
import pytest

from aisp.engine import client, nursery, spawner
from aisp.engine.pool import Pool
from aisp.engine.spawner import Child
from aisp.engine.worker.__main__ import import_compiler
from aisp.engine.worker.nursery import know_triton, load_launcher
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest, nurseries
from tests.engine.started import SITE
from tests.proofs.evil import corpus
from tests.proofs.evil.stage import eventually

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pool]:
    """One that forks, in a process that is in the engine's place: what is forked for it falls to it."""
    spawner.become_subreaper()
    monkeypatch.setenv("CXX", "/bin/false")  # nothing is compiled here: torch's compiler need not try out instructions
    made = Pool(interpret=False, open_nursery=spawner.open_nursery)
    yield made
    await made.close()
    await eventually(lambda: not spawner._children, "nothing is left of it")


ROOM = 6  # descriptors: enough for the imports and a request without its files


def ignored_signals(process: psutil.Process) -> str:
    (line,) = [line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "SigIgn" in line]
    return line


def ours() -> list[psutil.Process]:
    """Nurseries of this process, which is in the engine's place."""
    return nurseries(psutil.Process())


@contextlib.asynccontextmanager
async def taken(pool: Pool, *, interpret: bool = False, compiler: bool = False) -> AsyncIterator[Child]:
    """A process of the pool's, ended afterwards."""
    child = await pool.take(interpret=interpret, compiler=compiler)
    try:
        yield child
    finally:
        await child.end(gently=False)


def forked(child: Child) -> bool:
    return psutil.Process(child.pid).name() == "aisp-worker"


async def test_a_forked_worker_is_the_engines_child_with_a_session_and_a_line_of_its_own(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    corpus.write(tmp_path / "mine" / "doubling")
    result = await shared.run(tmp_path / "mine", "mine:doubling")
    assert result.record.state is State.OK, result.record.reason
    await shared.steady()
    assert shared.workers()
    for worker in shared.workers():
        assert worker.name() == "aisp-worker"
        assert worker.ppid() == shared.ps.pid
        assert os.getpgid(worker.pid) == os.getsid(worker.pid) == worker.pid
        assert shared.owns(worker)
        place = Path(worker.cwd())
        assert place.parent.parent == shared.home / "state" / "work" and list(place.iterdir()) == []
        held = {int(file.name): str(file.readlink()) for file in Path(f"/proc/{worker.pid}/fd").iterdir()}
        assert held.pop(0) == "/dev/null"
        assert held.pop(1).startswith("pipe:") and held.pop(2).startswith("pipe:")
        assert [line.startswith("socket:") for line in held.values()] == [True], "only the line to the engine"
        assert Path(f"/proc/{worker.pid}/oom_score_adj").read_text().strip() == "800"
        assert ignored_signals(worker) == ignored_signals(shared.ps)


async def test_a_nursery_has_one_thread_and_nothing_of_the_engines_and_cannot_be_read(
    shared: EngineUnderTest,
) -> None:
    await shared.steady()
    (nursery,) = nurseries(shared.ps)
    assert nursery.num_threads() == 1
    assert nursery.cwd() == "/"
    assert [(file.fd, Path(file.path).name) for file in nursery.open_files()] == [(2, "engine.log")]
    lines = [file for file in Path(f"/proc/{nursery.pid}/fd").iterdir() if str(file.readlink()).startswith("socket:")]
    assert len(lines) == 1, "its line, and none of a worker's"
    assert Path(f"/proc/{nursery.pid}/environ").stat().st_uid == 0, "not dumpable: /proc gives its files to root"
    assert not list(nursery.children()), "who stands between engine and fork is gone"


FACTS = """print("FACTS", torch.get_num_threads(), [one["num_threads"] for one in threadpool_info()])
print("FACTS", sorted(name for name in os.environ if "BLAS" in name or "TORCH" in name), sys.flags.isolated)
print("FACTS", torch.cuda.is_available.__module__, signal.getsignal(signal.SIGCHLD), sys.path[1:])
print("DRAWN", numpy.random.randint(1 << 62), random.getrandbits(62))"""
IMPORTS = "import numpy, os, random, signal, sys, torch\nfrom threadpoolctl import threadpool_info"


@pytest.mark.evil
async def test_a_rung_cannot_tell_a_fork_from_a_started_process_but_by_its_seeds(
    shared: EngineUnderTest, own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    row = corpus.Row("tells", corpus.on_call(corpus.VERIFIED, FACTS, imports=IMPORTS), State.OK)
    corpus.write(tmp_path / "mine" / "doubling", [row])
    starting = own(**{nursery.SWITCH: "0"})
    await starting.start()
    said = []
    for engine in (shared, shared, starting):
        result = await engine.run(tmp_path / "mine", "mine:doubling")
        assert result.record.state is State.OK, result.record.reason
        said.append(result.printed(row.rung))
    facts = [[line for line in lines if line.startswith("FACTS")] for lines in said]
    folders = [str(engine.home / "state") for engine in (shared, shared, starting)]
    told = [[line.replace(folder, "STATE") for line in lines] for lines, folder in zip(facts, folders, strict=True)]
    assert len(told[0]) == 3 and told[0] == told[1] == told[2]
    drawn = [word for lines in said for line in lines if line.startswith("DRAWN") for word in line.split()[1:]]
    assert len(set(drawn)) == len(drawn) == 6
    with starting.use():
        assert not nurseries(starting.ps)


@pytest.mark.evil
async def test_a_fork_that_has_no_session_of_its_own_yet_is_ended_at_once(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_yet(group: int, number: int) -> None:
        raise ProcessLookupError(group)

    child = await pool.take(interpret=False)
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", none_yet)
        patched.setattr(spawner, "KILL_PATIENCE_S", 0.0)
        assert await child.end(gently=False) == -signal.SIGKILL
    assert not child.alive


@pytest.mark.evil
async def test_a_nursery_that_was_killed_is_replaced_and_what_it_forked_lives_on(pool: Pool) -> None:
    async with taken(pool) as first:
        assert forked(first)
        ours()[0].kill()
        async with taken(pool) as second:
            assert forked(second) and first.alive
    assert pool.not_forked == ""


@pytest.mark.evil
async def test_a_nursery_that_gives_no_answer_is_replaced(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with taken(pool) as first:
        assert forked(first)
    monkeypatch.setattr(nursery, "FORK_LIMIT_S", 0.2)
    (stopped,) = ours()
    stopped.suspend()
    async with taken(pool) as second:
        assert forked(second) and not stopped.is_running()
    assert pool.not_forked == ""


@pytest.mark.evil
async def test_where_two_nurseries_in_a_row_can_open_no_file_workers_are_started_until_something_has_changed() -> None:
    spawner.become_subreaper()
    cramped = 2

    def open_nursery(*, interpret: bool) -> nursery.Nursery:
        nonlocal cramped
        made = spawner.open_nursery(interpret=interpret)
        if cramped:
            cramped -= 1
            psutil.Process(made.pid).rlimit(psutil.RLIMIT_NOFILE, (ROOM, ROOM))
        return made

    pool = Pool(interpret=False, open_nursery=open_nursery)
    async with taken(pool) as first:
        assert not forked(first)
    assert pool.not_forked == "it can open no more files"
    assert ours() == []
    async with taken(pool) as second:
        assert not forked(second)
    pool.renew()
    async with taken(pool) as third:
        assert forked(third), "what lies on disk has changed: another try"
    await pool.close()


@pytest.mark.slow
async def test_the_compiler_is_imported_once_and_each_kind_has_a_nursery_of_its_own(pool: Pool) -> None:
    async with taken(pool) as plain, taken(pool, compiler=True) as first, taken(pool, compiler=True) as second:
        assert [plain.compiler, first.compiler, second.compiler] == [False, True, True]
        async with taken(pool, interpret=True) as interpreting:
            kinds = {
                child.pid: b"TRITON_INTERPRET=1" in Path(f"/proc/{child.pid}/environ").read_bytes()
                for child in (plain, second, interpreting)
            }
            assert list(kinds.values()) == [False, False, True]
            assert all(forked(child) for child in (plain, first, second, interpreting))
            assert len(ours()) == 2
    pool.keep(0)
    assert ours() == [], "nobody is there who would wait"


@pytest.mark.slow
async def test_a_fork_waits_for_the_compiler_that_somebody_else_has_imported(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with taken(pool):
        pass
    (nursing,) = ours()
    monkeypatch.setattr(nursery, "FORK_LIMIT_S", 1.0)  # the import takes longer
    compiling = asyncio.create_task(pool.take(interpret=False, compiler=True))
    await asyncio.sleep(0.1)
    async with taken(pool) as other:
        assert forked(other)
    await (await compiling).end(gently=False)
    assert ours() == [nursing]


@pytest.mark.slow
async def test_who_stops_waiting_for_a_fork_leaves_no_process(pool: Pool) -> None:
    async with taken(pool):
        pass
    (nursing,) = ours()
    for _ in range(20):
        pool.expect(3)
        pool._drop_coming()
    pool.expect(0)
    await pool.settled()
    async with taken(pool) as child:
        assert forked(child)
    await eventually(lambda: not nursing.children() and not spawner.living(), "none is left")


SECOND_THREAD = """
import sys, threading, time
if any("worker.nursery" in word for word in sys.orig_argv):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""


@pytest.mark.evil
async def test_a_nursery_with_a_second_thread_forks_nothing_and_everybody_hears_why(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SECOND_THREAD)
    engine = own(**{SITE: str(tmp_path / "site")})
    await engine.start()
    corpus.write(tmp_path / "mine" / "doubling")
    result = await engine.run(tmp_path / "mine", "mine:doubling")
    assert result.record.state is State.OK, result.record.reason
    with engine.use():
        async with await client.connect(start=False) as connection:
            status = await connection.status()
    assert status.not_forked.startswith("it has 2 threads: aisp-nursery")


@pytest.mark.parametrize("before", [None, "/elsewhere"])
def test_tritons_launcher_is_built_in_a_folder_of_nobody_else_and_is_there_for_all(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime import driver

    seen: list[Path] = []

    class Driver:
        def __init__(self) -> None:
            seen.append(Path(os.environ["TRITON_CACHE_DIR"]))
            (seen[-1] / "cuda_utils.so").touch()
            assert stat.S_IMODE(seen[-1].stat().st_mode) == stat.S_IRWXU

    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    if before is not None:
        monkeypatch.setenv("TRITON_CACHE_DIR", before)
    monkeypatch.setattr(driver, "_active", None)
    monkeypatch.setattr("triton.backends.nvidia.driver.CudaDriver", Driver)

    load_launcher()

    assert isinstance(driver.active, Driver)
    assert os.environ.get("TRITON_CACHE_DIR") == before
    assert [folder for folder in seen if folder.exists()] == [] and len(seen) == 1


def test_what_tritons_cache_is_looked_up_by_is_found_out_before_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime.cache import triton_key

    know_triton()

    def refuse(*args: Any, **named: Any) -> NoReturn:
        raise AssertionError(f"a fork reads or starts {args[0]}")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(subprocess, "check_output", refuse)
    assert triton_key() and all("release" in CUDABackend(GPUTarget("cuda", sm, 32)).hash() for sm in (80, 90, 100))


@pytest.mark.slow
def test_what_inductors_caches_are_looked_up_by_comes_with_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    import_compiler()
    from torch._inductor.codecache import torch_key

    monkeypatch.setattr(builtins, "open", MagicMock(side_effect=AssertionError("a fork reads a file")))
    assert torch_key()
