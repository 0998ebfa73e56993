"""Batches of calls that the judge times from its own process: which arm is next, and what becomes of what it saw.

In each round every arm makes one pair of batches, in random order, so that drift falls on all alike. What both
processes say to each other goes past the engine (engine.protocol.batches). On a CPU it reads outputs in the worker's
memory for the judge, who is confined and may not.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import mmap
import os
import random
import time
from collections.abc import AsyncIterator, Sequence

from aisp.checks.oracle.schema import Case as PosedCase
from aisp.engine.arms import GONE_PATIENCE_S, ArmEnd, ArmProcess, ask, explain, wrong
from aisp.engine.crew import RunCrew
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.engine.protocol.batches import Cannot, Fetch, Fetched, Line, LineError
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.engine.spawner import ChildTimeoutError
from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import State
from aisp.store.text import clean_line

ROUNDS = 2  # of a replica; the second is for those of whom one pair says too little
AGREE = 1.3  # times what its samples say may be a pair's time that is enough
CLEAR = 1.4  # is a ratio to a baseline of which one pair of each is enough: beyond what these say (LONE_ERROR)
BUDGET_S = 12.0  # of a replica, beyond which no pair begins
PAIR_CALLS = 4  # of the shortest pair: a batch of one call, and one of three
MOST_FETCHED = 1 << 30  # bytes of one output
MOST_ADDRESS = 1 << 56
FRESH_VALUES = "output.fresh_values"  # the check in whose name an answer on inputs of a batch is refused


class Outside:
    """Batches of one run that the judge times."""

    def __init__(self, plan: Plan, services: Services, crew: RunCrew, reporter: Reporter) -> None:
        self._plan, self._limits, self._crew, self._reporter = plan, services.limits, crew, reporter
        self._round = 0
        self._case = PosedCase.of_set(plan.case).plain()

    async def take(self, processes: Sequence[ArmProcess]) -> None:
        """All rounds of a replica. A failure ends its arm."""
        async with self._reporter.step("outside"):
            until = time.monotonic() + BUDGET_S * (1 + self._plan.side_by_side)  # of both replicas
            for number in range(ROUNDS):
                self._round += 1
                left = open_still(processes) if number else list(processes)
                random.shuffle(left)
                for process in sorted(left, key=lambda process: len(process.arm.outside_ms)):  # none is left out twice
                    if process.running and not process.arm.inside and time.monotonic() < until:
                        await self._crew.guarded(process, self._pair)

    async def _pair(self, process: ArmProcess) -> None:
        arm = process.arm
        if self._plan.target.ranks > 1:
            arm.inside = "its rungs are several processes each"
            arm.excused = True
            return
        patience_s = float(self._limits.progress_s)
        most_s = min(BUDGET_S, patience_s)
        if PAIR_CALLS * process.per_call_ms / 1e3 > most_s:
            arm.inside = f"a pair of its batches takes longer than {most_s:.0f} s"
            return
        theirs, ours = self._crew.arena.line()
        serving = jobs.ServeBatches(case=self._plan.case.name, line=theirs)
        try:
            async with self._reader(process.child.pid) as reader:
                timing = jobs.TimeBatches(
                    case=self._case,
                    line=ours,
                    reader=reader,
                    pid=process.child.pid,
                    pairs=1,
                    per_call_ms=process.per_call_ms,
                    calls=arm.batch_calls,
                    round=self._round,
                    both=not _slopes_ms(process),
                    held=arm.batch_held,
                    clones=arm.batch_clones,
                    patience_s=patience_s,
                )
                timed = await self._timed(process, serving, timing)
        finally:
            self._crew.arena.free(theirs)
            self._crew.arena.free(ours)
        if timed.judged is not None and not timed.judged.right:
            if FRESH_VALUES in self._plan.without:
                arm.inside = f"{FRESH_VALUES} was left out"
                arm.excused = True
                return
            place = " in a batch whose inputs the judge had made for it"
            raise wrong(timed.judged, [], FRESH_VALUES, self._plan.case.name, place)
        if timed.gone:
            reason = f"{arm.name} did not serve the judge: {clean_line(timed.gone)}"
            raise ArmEnd(State.INFRA_ERROR, reason, check="evaluation.result_channel")
        if timed.inside:
            arm.inside, arm.excused = clean_line(timed.inside), timed.task
            return
        arm.outside_read += timed.read
        arm.outside_copies_ms = max(arm.outside_copies_ms, timed.copies_ms)
        arm.outside_sets = min(filter(None, (arm.outside_sets, timed.sets)), default=0)
        arm.batch_calls, arm.batch_held, arm.batch_clones = timed.calls, timed.held, timed.clones
        arm.outside_ms += [(process.replica, slope) for slope in timed.slopes_ms]

    @contextlib.asynccontextmanager
    async def _reader(self, pid: int) -> AsyncIterator[jobs.Blob]:
        """The judge's end of a line on which it has a worker's memory read."""
        arena = self._crew.arena
        ours, theirs = arena.line()
        line = Line(arena.duplicate(ours), self._limits.verifier_s)
        serving = asyncio.create_task(asyncio.to_thread(_fetch, line, pid))
        try:
            yield theirs
        finally:
            arena.hang_up(ours)
            await asyncio.wait([serving])
            arena.free(ours)
            arena.free(theirs)

    async def _timed(
        self, process: ArmProcess, serving: jobs.ServeBatches, timing: jobs.TimeBatches
    ) -> reports.BatchesTimed:
        """What the judge saw. Where both fail, it is for what the worker came to. Raises ArmEnd.

        A worker that hangs is ended soon after the judge has given it up: its own limit is that of a verifier.
        """
        worker = asyncio.create_task(
            ask(process.child, serving, reports.BatchesServed, self._limits.verifier_s, process.name)
        )
        judge = asyncio.create_task(self._crew.ask_verifier(timing, reports.BatchesTimed))
        await asyncio.wait([worker, judge], return_when=asyncio.FIRST_COMPLETED)
        for task in (worker, judge):
            if task.done() and task.exception() is not None:
                self._crew.arena.hang_up(serving.line)  # the other one would wait for it
        if judge.done():
            given_up = judge.exception() is None and judge.result().gone
            await asyncio.wait([worker], timeout=GONE_PATIENCE_S if given_up else timing.patience_s)
            if not worker.done():
                worker.cancel()
                await asyncio.wait([worker])
                silent = ChildTimeoutError(f"no sign of progress for {timing.patience_s:.0f} s")
                raise await explain(process.child, silent, process.name)
        await asyncio.wait([worker, judge])
        worker.result()
        timed: reports.BatchesTimed = judge.result()
        return timed


def open_still(processes: Sequence[ArmProcess]) -> list[ArmProcess]:
    """Processes of which one pair of batches says too little, with the baselines that they are compared with.

    It is enough where it agrees with the samples, and where whoever claims to be faster than a baseline is clearly so:
    a neighbour that met the pair can have made neither.
    """
    times = [(one, judged[-1], one.claimed_ms()[0]) for one in processes if one.running and (judged := _slopes_ms(one))]
    baselines = [entry for entry in times if entry[0].arm.rung.role is Role.BASELINE]

    def enough(one: ArmProcess, ms: float, claimed_ms: float) -> bool:
        clear = all(
            base is one or base_claimed_ms <= claimed_ms or base_ms > CLEAR * ms
            for base, base_ms, base_claimed_ms in baselines
        )
        return clear and claimed_ms < AGREE * ms and ms < AGREE * claimed_ms

    left = [one for one, *both in times if not enough(one, *both)]
    return left + [one for one, *_ in baselines if left and one not in left]


def _slopes_ms(process: ArmProcess) -> list[float]:
    """Times per call by the judge's clock, in the order of its pairs."""
    return [slope for replica, slope in process.arm.outside_ms if replica == process.replica]


def _fetch(line: Line, pid: int) -> None:
    """Bring what lies in a process's memory, as often as the other side asks, until it hangs up."""
    with contextlib.suppress(LineError):
        while isinstance((request := line.receive()[0]), Fetch):
            file = memory_of(pid, request.address, request.nbytes)
            if file < 0:
                line.send(Cannot())
                continue
            try:
                line.send(Fetched(), [file])
            finally:
                os.close(file)
    line.close()


class _Span(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


def memory_of(pid: int, address: int, nbytes: int) -> int:
    """A file in memory with what lies there in another process of ours; -1 where that cannot be read, as where Linux
    lets nobody (`kernel.yama.ptrace_scope` 2 or 3), or the process has forbidden it."""
    if not (0 < address < MOST_ADDRESS and 0 < nbytes <= MOST_FETCHED):
        return -1
    file, got = -1, -1
    with contextlib.suppress(OSError):  # of the engine: no descriptor or no memory is left
        file = os.memfd_create("aisp", os.MFD_CLOEXEC)
        os.ftruncate(file, nbytes)
        with mmap.mmap(file, nbytes) as memory:
            here = ctypes.c_char.from_buffer(memory)
            to, source = _Span(ctypes.addressof(here), nbytes), _Span(address, nbytes)
            got = ctypes.CDLL(None).process_vm_readv(pid, ctypes.byref(to), 1, ctypes.byref(source), 1, 0)
            del here
    if got == nbytes:
        return file
    if file >= 0:
        os.close(file)
    return -1
