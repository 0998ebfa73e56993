"""Standbys that die while they wait: no run pays for it, and the pool is as full as before when it is next wanted."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aisp.engine import confinement, spawner
from aisp.engine.pool import MOST_FAILED_STARTS, Pool
from aisp.engine.protocol import reports
from aisp.engine.protocol.framing import KEY_BYTES, REPORTS, Encoder, sealing
from aisp.engine.spawner import WHOLE, Child, ChildGoneError, Share
from tests.proofs.evil.stage import eventually

KEY = bytes(range(KEY_BYTES))


class Nursery:
    """In place of spawner.spawn: processes that only wait, and get ready, or die at once, or neither, as told."""

    def __init__(self) -> None:
        self.fates: deque[str] = deque()  # of the next ones; "ready" where there is none
        self.made: list[Child] = []
        self.gpu_uuid = ""  # that the next ones have
        self._theirs: list[socket.socket] = []

    async def spawn(self, *, interpret: bool, compiler: bool = False, share: Share = WHOLE) -> Child:
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
        self.made.append(Child(process, reader, writer, KEY, Path(tempfile.mkdtemp()), compiler=compiler))
        fate = self.fates.popleft() if self.fates else "ready"
        if fate == "ready":
            ready = reports.Ready(pid=process.pid, torch="2", cuda="", gpu_uuid=self.gpu_uuid)
            theirs.sendall(Encoder(sealing(KEY, REPORTS)).frame(ready))
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


async def test_who_reads_data_sets_gets_no_standby_that_was_confined_before_they_lay_there(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("AISP_STATE", str(state))
    # Of the way the last step alone: others put files into the temporary folder meanwhile.
    monkeypatch.setattr(confinement, "way_to", lambda hidden: (Path(hidden).parent.stat().st_mtime_ns,))
    pool = Pool(interpret=False)
    pool.keep(2)
    await eventually(lambda: pool.warm == 2, "two are warm")
    for child in nursery.made:
        child.way = confinement.way_to(str(state))
    (state / "of no account").touch()
    assert await pool.take(interpret=False, reads=True) in nursery.made[:2]
    await asyncio.sleep(0.02)  # the clock of a file system goes in steps
    (tmp_path / "data").mkdir()
    assert await pool.take(interpret=False, reads=True) is nursery.made[2]
    assert await pool.take(interpret=False) in nursery.made[:2], "an arm may have it"
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
        await pool.settled()
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
        await pool.settled()
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
    assert [child.compiler for child in taken] == wanted
    assert len(nursery.made) == 5, "the last was not expected: it is made for this rung"


async def test_of_several_standbys_one_that_is_ready_is_taken(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    nursery.fates += ["never ready", "ready"]
    pool.keep(2)
    await eventually(lambda: pool.warm == 1, "one is warm")
    assert await pool.take(interpret=False) is nursery.made[1]
    await pool.close()


async def test_nothing_that_is_expected_starts_while_something_is_measured(nursery: Nursery, roomy: Pool) -> None:
    with roomy.quiet():
        roomy.expect(2)
        await roomy.settled()
        assert nursery.made == []
    await roomy.settled()
    assert roomy.warm == 2


async def test_between_a_runs_plan_and_its_last_sample_nothing_starts_but_what_it_takes(
    nursery: Nursery, roomy: Pool
) -> None:
    roomy.keep(3)
    await roomy.settled()
    roomy.begin_run()
    taken = [await roomy.take(interpret=False) for _ in range(3)]
    roomy.expect(0)
    roomy.keep(3)  # a client connects
    with roomy.quiet():
        await roomy.settled()
    assert len(nursery.made) == 3, "the three that stood by, and none in their place"
    taken.append(await roomy.take(interpret=False))
    assert len(nursery.made) == 4, "a fourth that the run takes is started for it"
    roomy.expect(2)
    await roomy.settled()
    assert (len(nursery.made), roomy.warm) == (6, 2), "a later replica's are what the run takes, too"
    roomy.expect(0)
    assert roomy.warm == 2, "and none is ended before the last sample"
    roomy.end_run()
    await roomy.settled()
    assert (len(nursery.made), roomy.warm) == (7, 3)
    roomy.end_run()
    await roomy.settled()
    assert len(nursery.made) == 7


async def test_who_stands_by_is_replaced_when_what_it_imported_is_not_what_lies_on_disk(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    nursery.fates += ["ready", "never ready"]
    pool.keep(2)
    await eventually(lambda: pool.warm == 1 and len(nursery.made) == 2, "one is warm, one on its way")
    pool.renew()
    await eventually(lambda: pool.warm == 2, "two others are warm")
    assert len(nursery.made) == 4
    await eventually(lambda: not any(child.alive for child in nursery.made[:2]), "the first two have ended")
    await pool.close()


async def test_one_that_was_being_started_meanwhile_is_not_used_either(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool(interpret=False)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*, interpret: bool, compiler: bool = False, share: Share = WHOLE) -> Child:
        begun.set()
        await go_on.wait()
        return await nursery.spawn(interpret=interpret, compiler=compiler)

    monkeypatch.setattr(spawner, "spawn", slow)
    pool.keep(1)
    await begun.wait()
    pool.renew()
    go_on.set()
    await eventually(lambda: pool.warm == 1, "one is warm")
    assert [child.alive for child in nursery.made] == [True], "of the first there is none"
    await pool.close()


async def test_one_that_nobody_wants_any_more_when_it_comes_is_ended(
    nursery: Nursery, roomy: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()

    async def slow(*, interpret: bool, compiler: bool = False, share: Share = WHOLE) -> Child:
        await go_on.wait()
        return await nursery.spawn(interpret=interpret, compiler=compiler)

    roomy.keep(1)
    await roomy.settled()
    monkeypatch.setattr(spawner, "spawn", slow)
    roomy.expect(3)
    await asyncio.sleep(0)
    roomy.expect(0)
    go_on.set()
    await roomy.settled()
    await eventually(lambda: len(nursery.made) == 3 and roomy.warm == 1, "as many as are kept")
    await eventually(lambda: sum(child.alive for child in nursery.made) == 1, "the others have ended")


async def test_none_is_started_or_handed_out_while_it_is_forbidden(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    pool.keep(1)
    await eventually(lambda: pool.warm == 1, "one is warm")
    pool.forbid("evil.pth appeared")
    await eventually(lambda: not nursery.made[0].alive, "whoever stood by is ended")
    pool.keep(3)
    with pytest.raises(ChildGoneError, match=r"evil\.pth appeared"):
        await pool.take(interpret=False)
    assert len(nursery.made) == 1
    pool.forbid("")
    await eventually(lambda: pool.warm == 3, "as many as are wanted stand by again")
    await pool.close()


async def test_whoever_is_taken_is_greeted_before_anybody_else_talks_to_it(nursery: Nursery) -> None:
    pool = Pool(interpret=False)
    greeted: list[Child] = []

    async def greet(child: Child) -> None:
        assert child.ready is not None
        greeted.append(child)
        if len(greeted) == 2:
            raise ChildGoneError("it would not say")

    pool.greet = greet
    assert [await pool.take(interpret=False)] == greeted
    with pytest.raises(ChildGoneError):
        await pool.take(interpret=False)
    assert not nursery.made[1].alive
    await pool.close()


@pytest.mark.parametrize("wait_s", [0.0, 0.01])
async def test_a_pool_that_closes_while_a_process_is_made_for_who_no_longer_waits_leaves_none(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    made, under_way = nursery.spawn, 0

    async def slowly(**options: bool) -> Child:
        nonlocal under_way
        under_way += 1
        try:
            await asyncio.sleep(0.02)
            child = await made(**options)
        finally:
            under_way -= 1
        return child

    monkeypatch.setattr(spawner, "spawn", slowly)
    pool = Pool(interpret=False)
    pool.keep(2)
    taking = asyncio.create_task(pool.take(interpret=False))
    await asyncio.sleep(wait_s)
    taking.cancel()
    await asyncio.wait([taking])
    await pool.close()
    assert (under_way, [child.alive for child in nursery.made]) == (0, [False] * len(nursery.made))


async def test_a_process_that_has_another_gpu_than_its_slot_is_not_used(nursery: Nursery) -> None:
    pool = Pool(interpret=False, share=Share(uuid="GPU-a"))
    nursery.gpu_uuid = "GPU-b"
    with pytest.raises(ChildGoneError, match="it came up on GPU-b and not on GPU-a"):
        await pool.take(interpret=False)
    assert not nursery.made[0].alive
    for right in ("GPU-a", ""):  # who has none says so
        nursery.gpu_uuid = right
        await pool.take(interpret=False)
    await pool.close()


async def test_pools_on_the_same_cores_keep_quiet_together_and_others_do_not(nursery: Nursery) -> None:
    one, near, far = (Pool(interpret=False) for _ in range(3))
    one.beside = near.beside = [one, near]
    with one.quiet():
        for pool in (near, far):
            pool.keep(1)
        await far.settled()
        assert (near.warm, far.warm) == (0, 1)
    await near.settled()
    assert near.warm == 1
    one.begin_run()
    near.keep(2)
    await near.settled()
    assert near.warm == 1, "somebody waits for a sample"
    one.end_run()
    await near.settled()
    assert near.warm == 2
    for pool in (one, near, far):
        await pool.close()
