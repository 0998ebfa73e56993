"""Readers beside a busy writer, and a writer that is killed: nothing torn, nothing acknowledged lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.store import History, OpenReport, Store
from aisp.store.outcomes import State
from tests.store.examples import equal_arrays, samples_of

# A process that imports once and then forks a writer per line on its standard input. A writer prints its own
# number, then "planned ID" and "finished ID SEED" after each call that returned.
WRITERS = """
import os, sys
from pathlib import Path
import sqlite_utils
from aisp.store import Store
from aisp.store.outcomes import State
from aisp.store.ulid import new_ulid
from tests.store.examples import finished, planned, samples_of, telemetry_of

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def write(path, runs):
    say("pid", os.getpid())
    store = Store.open(path)
    say("opened", store.opened)
    epoch = new_ulid()
    say("lost", len(store.mark_lost(epoch)))
    for number in range(runs):
        batch = [planned(epoch=epoch, seq=number) for _ in range(2)]
        store.plan(batch)
        for run in batch:
            say("planned", run.id)
        run = batch[0]
        store.advance(run.id, State.RUNNING, start_ns=number)
        arrays = {"baseline": samples_of(300, number), "optimized": samples_of(300, number + 1)}
        snapshot = store.put_snapshot({"optimized.py": b"# %d" % number})
        store.finish(finished(run, samples=300, snapshot=snapshot), arrays, telemetry_of(30))
        say("finished", run.id, number)
    store.close()

for line in sys.stdin:
    runs, path = line.rstrip("\\n").split(" ", 1)
    child = os.fork()
    if child == 0:
        write(path, int(runs))
        os._exit(0)
    os.waitpid(child, 0)
    say("ended")
"""


class Writers:
    """Starts writers and reads what they acknowledge."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITERS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self.planned: set[str] = set()
        self.finished: dict[str, int] = {}

    def start(self, path: Path, runs: int) -> int:
        """Begin a writer; returns its process number once it has begun."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{runs} {path}\n")
        self.process.stdin.flush()
        word, pid = self.next()
        assert word == "pid"
        return int(pid)

    def next(self) -> tuple[str, str]:
        """The next acknowledgement: its word and the rest of the line."""
        assert self.process.stdout is not None
        word, _, rest = self.process.stdout.readline().rstrip("\n").partition(" ")
        assert word, "the writers are gone"
        if word == "planned":
            self.planned.add(rest)
        elif word == "finished":
            run_id, seed = rest.split()
            self.finished[run_id] = int(seed)
        return word, rest

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def writers() -> Iterator[Writers]:
    made = Writers()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_readers_see_whole_runs_during_a_write_storm(tmp_path: Path, writers: Writers) -> None:
    path = tmp_path / "aisp.db"
    writers.start(path, 150)
    looks = 0
    with History(path) as history, History(path) as other:
        while (word := writers.next()[0]) != "ended":
            if word != "finished":
                continue
            looks += 1
            newest = history.newest(4)
            assert all(other.verify(run.id) for run in newest)
            done = [run for run in newest if run.state is State.OK]
            assert done
            assert all(len(run.arms) == 2 and len(run.comparisons) == 1 for run in done)
            assert other.board()["ch07:transpose"].state is State.OK
        assert looks == 150
        assert history.count() == 300


@pytest.mark.slow
def test_a_writer_killed_anywhere_loses_nothing_that_it_acknowledged(tmp_path: Path, writers: Writers) -> None:
    path = tmp_path / "aisp.db"
    chance = random.Random(20)
    kills = 30
    for _ in range(kills):
        pid = writers.start(path, 1_000_000)
        word, rest = writers.next()
        while word == "opened":
            assert rest == str(OpenReport())
            word, rest = writers.next()
        for _ in range(chance.randrange(1, 25)):
            writers.next()
        time.sleep(chance.uniform(0, 0.006))
        os.kill(pid, signal.SIGKILL)
        while writers.next()[0] != "ended":
            continue
    assert len(writers.finished) > kills

    with History(path) as history:
        left = history.newest(10**6)
        assert writers.planned <= {run.id for run in left}
        finished = {run.id for run in left if run.state is State.OK}
        assert set(writers.finished) <= finished
        # One more than acknowledged per kill at most: committed, but killed before it could say so.
        assert len(finished) <= len(writers.finished) + kills
    with Store.open(path) as store, History(path) as history:
        assert store.opened == OpenReport()
        store.mark_lost("the last engine")
        ended = history.newest(10**6)
        assert {run.state for run in ended} == {State.OK, State.ENGINE_LOST}
        assert [run.id for run in ended if not history.verify(run.id)] == []
        for run_id, seed in writers.finished.items():
            read = history.samples(run_id)
            assert equal_arrays(read["baseline"], samples_of(300, seed))
            assert equal_arrays(read["optimized"], samples_of(300, seed + 1))
            assert history.snapshot(history.run(run_id).snapshot) == {"optimized.py": b"# %d" % seed}
        assert history.damaged == {}
        strays = [file.name for file in tmp_path.iterdir() if not file.name.startswith("aisp.db")]
        assert strays == []
