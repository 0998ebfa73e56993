"""Processes whose memory the engine cannot read: their rungs are judged inside, and nobody else is held for it.

Linux asks who wants to read another process's memory for CAP_SYS_PTRACE where that process has forbidden it, and the
superuser has it. So these tests take it away from the threads that read, as any other account is without it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from aisp.engine import outside
from aisp.store.outcomes import State, Validity, Verdict
from aisp.store.record import Run
from aisp.store.results.outside import by_the_judge, judged
from tests.engine.test_runs import NURSERIES, carried_out

pytestmark = pytest.mark.timeout(180)

WHY = "its outputs lie in memory that the engine cannot read"
CAPABILITY_VERSION_3, CAP_SYS_PTRACE = 0x20080522, 19  # include/uapi/linux/capability.h
SLOW = "import time\n\ndef run(x):\n    time.sleep(0.003)\n    return x * 2\n"
FORBIDS = """
import ctypes

PR_SET_DUMPABLE = 4
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def run(x):
    return x * 2
"""


@pytest.fixture(autouse=True, scope="module")
def _closed_nurseries() -> Iterator[None]:
    yield
    NURSERIES.close()


@pytest.fixture
def no_superuser() -> Iterator[None]:
    """This thread, and those that it starts, may read the memory of a process that allows it, and no other."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, held = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, held) == 0
    less = (ctypes.c_uint32 * 6)(held[0] & ~(1 << CAP_SYS_PTRACE), *held[1:])
    assert libc.capset(header, less) == 0
    yield
    assert libc.capset(header, held) == 0


def verdicts(run: Run) -> dict[str, Verdict]:
    """What was decided, by rung."""
    return {each.rung: each.verdict for each in run.comparisons}


def undecided_for_want_of_a_clock(run: Run, rung: str, whose: str) -> bool:
    """Whether a rung that is faster by its own clock is not FASTER, and says so."""
    (found,) = (each for each in run.comparisons if each.rung == rung)
    said = f"faster by its own clock; the judge's has no time of the {whose}"
    return found.verdict is Verdict.UNDECIDED and found.note.endswith(said)


@pytest.mark.slow
@pytest.mark.usefixtures("no_superuser")
async def test_a_rung_that_lets_nobody_read_its_memory_is_judged_inside_and_nobody_else_is(tmp_path: Path) -> None:
    rungs = {"baseline.py": SLOW, "optimized.py": FORBIDS, "optimized_open.py": "def run(x):\n    return x * 2\n"}
    run, _ = await carried_out(tmp_path, replicas=3, rungs=rungs)
    assert run.state is State.OK and run.validity is Validity.VALID, (run.reason, run.findings)
    arms = {arm.rung: arm for arm in run.arms}
    assert judged(arms["optimized"]) == f"judged inside ({WHY})"
    assert all(by_the_judge(arm) for name, arm in arms.items() if name != "optimized")
    assert undecided_for_want_of_a_clock(run, "optimized", "rung"), run.comparisons
    assert verdicts(run)["optimized_open"] is Verdict.FASTER, run.comparisons


@pytest.mark.slow
async def test_whoever_is_read_descends_from_who_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `kernel.yama.ptrace_scope` 1 demands, the default of some distributions."""
    ordinary, apart, read = outside.memory_of, set[int](), set[int]()

    def memory_of(pid: int, address: int, nbytes: int) -> int:
        read.add(pid)
        if os.getpid() not in {parent.pid for parent in psutil.Process(pid).parents()}:
            apart.add(pid)
        return ordinary(pid, address, nbytes)

    monkeypatch.setattr(outside, "memory_of", memory_of)
    run, _ = await carried_out(tmp_path, replicas=1)
    assert run.state is State.OK, run.reason
    assert read and not apart


@pytest.mark.slow
async def test_where_linux_lets_nobody_read_memory_all_are_judged_inside_and_nobody_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `kernel.yama.ptrace_scope` 3, and 2 where the engine's account is not the superuser's."""
    monkeypatch.setattr(outside, "memory_of", lambda *_: -1)
    run, _ = await carried_out(tmp_path, replicas=3, rungs={"baseline.py": SLOW})
    assert run.state is State.OK and run.validity is Validity.VALID, (run.reason, run.findings)
    assert {judged(arm) for arm in run.arms} == {f"judged inside ({WHY})"}
    assert undecided_for_want_of_a_clock(run, "optimized", "rung"), run.comparisons
