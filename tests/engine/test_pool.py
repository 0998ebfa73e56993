"""Standbys that die while they wait: no run pays for it, and the pool is as full as before when it is next wanted."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator

import pytest

from engine import spawner
from engine.pool import MOST_FAILED_STARTS, Pool
from engine.protocol import reports
from engine.protocol.framing import KEY_BYTES, REPORTS, Encoder, sealing
from engine.spawner import Child, ChildGoneError
from tests.evil.stage import eventually

KEY = bytes(range(KEY_BYTES))


class Nursery:
    """In place of spawner.spawn: processes that only wait, and get ready, or die at once, or neither, as told."""

    def __init__(self) -> None:
        self.fates: deque[str] = deque()  # of the next ones; "ready" where there is none
        self.made: list[Child] = []
        self._theirs: list[socket.socket] = []

    async def spawn(self, *, interpret: bool, compiler: bool = False) -> Child:
        """See spawner.spawn."""
        ours, theirs = socket.socketpair()
        self._theirs.append(theirs)
        process = subprocess.Popen(  # noqa: ASYNC220  forks in 2 ms, as spawn() does
            [sys.executable, "-S", "-c", "import time; time.sleep(600)"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        reader, writer = await asyncio.open_connection(sock=ours)
        self.made.append(Child(process, reader, writer, KEY, compiler=compiler))
        fate = self.fates.popleft() if self.fates else "ready"
        if fate == "ready":
            theirs.sendall(Encoder(sealing(KEY, REPORTS)).frame(reports.Ready(pid=process.pid, torch="2", cuda="")))
        elif fate == "dies":
            self.kill(-1)
        return self.made[-1]

    def kill(self, number: int) -> None:
        """kill -9 one of them; its line is closed with it."""
        os.kill(self.made[number].pid, signal.SIGKILL)
        self._theirs[number].close()

    async def close(self) -> None:
        """End all."""
        for child, theirs in zip(self.made, self._theirs, strict=True):
            await child.end(gently=False)
            theirs.close()


@pytest.fixture
async def nursery(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Nursery]:
    made = Nursery()
    monkeypatch.setattr(spawner, "spawn", made.spawn)
    yield made
    await made.close()


@pytest.fixture
async def roomy(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pool]:
    """The pool of a machine with eight processors."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    pool = Pool(interpret=False)
    yield pool
    await pool.close()


async def test_a_standby_found_dead_is_replaced_in_the_same_take(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    pool.keep(1)
    await eventually(lambda: pool.warm == 1, "one is warm")
    nursery.kill(0)
    await nursery.made[0].wait(10)
    taken = await pool.take(interpret=False)
    assert taken is nursery.made[1] and taken.alive and taken.ready is not None
    await pool.close()


async def test_a_standby_that_dies_while_a_run_waits_for_it_is_replaced_once(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    nursery.fates += ["never ready", "ready"]
    pool.keep(1)
    await eventually(lambda: len(nursery.made) == 1, "one is started")
    taking = asyncio.create_task(pool.take(interpret=False))
    await asyncio.sleep(0)
    nursery.kill(0)
    taken = await taking
    assert taken is nursery.made[1] and taken.alive
    assert pool.target == 1, "that a taken one died ends no keeping"
    await pool.close()


async def test_a_fresh_process_that_does_not_come_up_is_told_and_not_tried_again(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    nursery.fates += ["dies"]
    with pytest.raises(ChildGoneError):
        await pool.take(interpret=False)
    assert len(nursery.made) == 1
    assert not nursery.made[0].alive


async def test_a_dead_standby_is_made_good_when_the_next_is_wanted_and_holds_nothing(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    pool.keep(2)
    await eventually(lambda: pool.warm == 2, "two are warm")
    nursery.kill(0)
    await nursery.made[0].wait(10)
    assert (pool.warm, pool.target, len(nursery.made)) == (1, 2, 2), "nothing is started while nobody wants it"
    pool.keep(2)
    await eventually(lambda: pool.warm == 2, "two are warm")
    assert len(nursery.made) == 3
    dead = nursery.made[0]._process
    pipes = [pipe for pipe in (dead.stdout, dead.stderr) if pipe is not None]
    await eventually(lambda: [pipe.closed for pipe in pipes] == [True, True], "its pipes are closed")
    await pool.close()


async def test_one_bad_start_is_forgiven_and_several_in_a_row_end_the_keeping(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    for number in range(MOST_FAILED_STARTS):
        assert pool.target == min(number, 1)
        nursery.fates += ["dies"]
        pool.keep(1)
        await eventually(lambda: not pool._starting, "the start failed")
    assert pool.target == 0
    pool.keep(1)  # the next one who wants it asks anew
    await eventually(lambda: pool.warm == 1, "one is warm")
    assert pool.target == 1
    await pool.close()


async def test_keeping_that_was_given_up_goes_on_once_a_run_has_its_process(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    for _ in range(MOST_FAILED_STARTS):
        nursery.fates += ["dies"]
        pool.keep(1)
        await eventually(lambda: not pool._starting, "the start failed")
    assert pool.target == 0
    taken = await pool.take(interpret=False)
    with pool.quiet():
        assert taken.alive and pool.target == 1
    await eventually(lambda: pool.warm == 1, "one is warm again")
    await taken.end(gently=False)
    await pool.close()


async def test_what_is_expected_starts_beside_the_standbys_and_goes_when_it_is_not(
    nursery: Nursery, roomy: Pool
) -> None:
    roomy.keep(1)
    roomy.expect(2)
    await roomy.settled()
    assert roomy.warm == len(nursery.made) == 2
    taken = [await roomy.take(interpret=False) for _ in range(2)]
    assert [child.pid for child in taken] == [child.pid for child in nursery.made]
    roomy.expect(100)
    await roomy.settled()
    assert roomy.warm == 12, "six processors are to spare, and each starts two"
    roomy.expect(0)
    await eventually(lambda: roomy.warm == 1, "the standby alone is left")


async def test_a_rung_that_compiles_gets_one_with_the_compiler_and_any_other_one_without(
    nursery: Nursery, roomy: Pool
) -> None:
    roomy.keep(1)
    await roomy.settled()
    roomy.expect(4, compilers=2)
    await roomy.settled()
    assert [child.compiler for child in nursery.made] == [False, True, True, False]
    wanted = [True, False, True, False, True]
    taken = [await roomy.take(interpret=False, compiler=compiler) for compiler in wanted]
    assert [child.compiler for child in taken] == [True, False, True, False, False]
    assert len(nursery.made) == 5, "the last was not expected: it is started for this rung, and imports with it"


async def test_nothing_that_is_expected_starts_while_something_is_measured(nursery: Nursery, roomy: Pool) -> None:
    with roomy.quiet():
        roomy.expect(2)
        await roomy.settled()
        assert nursery.made == []
    await roomy.settled()
    assert roomy.warm == 2
