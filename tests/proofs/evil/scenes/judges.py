"""Rows 83 to 89: what can become of the judge, of a rung before it, and of what keeps the two apart.

A judge dies where its own code says so at that moment: nothing that a rung may do reaches it.
"""

from __future__ import annotations

from pathlib import Path

from aisp.store.outcomes import Held, State
from aisp.store.results import hardware
from aisp.store.results.outside import by_the_judge, judged
from tests.engine.harness import EngineUnderTest, Result
from tests.proofs.evil.corpus import Row
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import Stage, after_import, assert_honest, assert_timed, refusing_filters, with_site

CLOCK = "aisp.engine.worker.clock"
CONFINEMENT = "aisp.engine.confinement"
DOOMED = "doomed"
BETWEEN = f"""
import os
import signal

timed = module.Outside.timed

def dies(self, *given, **named):
    if self._target.name == {DOOMED!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    return timed(self, *given, **named)

module.Outside.timed = dies
"""
WITHIN = f"""
import os
import signal

batch = module._HostSide.batch

def dies(self, calls, **how):
    if self._outside._target.name == {DOOMED!r}:
        self._outside.line.send(module.Run(calls=calls), [self._filled(calls)[0]])
        os.kill(os.getpid(), signal.SIGKILL)
    return batch(self, calls, **how)

module._HostSide.batch = dies
"""
REFUSES = (
    "def meet(self, calls):\n"
    "    raise module.CannotError('its inputs lie in memory that cannot be shared (cuIpcGetMemHandle: CUDA error 1)')\n"
    "module._HostSide.meet = meet\n"
)
SHARED = "its inputs lie in memory that cannot be shared (cuIpcGetMemHandle: CUDA error 1)"
SET_BYTES = 2 << 10  # of every target here: 256 float32 in, as many out
IN_A_BATCH = """import os
import signal
import sys
import time


def run(x):
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith("batches.py"):
            {body}
        frame = frame.f_back
    return x * 2
"""
DIES = Row("dies", IN_A_BATCH.format(body="os.kill(os.getpid(), signal.SIGKILL)"), State.CRASHED)
HANGS = Row("hangs", IN_A_BATCH.format(body="time.sleep(600)"), State.TIMEOUT_PROGRESS)
SLOW = Row("slow", "import time\n\n\ndef run(x):\n    time.sleep(0.001)\n    return x * 2\n", State.OK)
PROGRESS_LIMIT_S = 4.0


# -- rows 83 and 84: who dies ------------------------------------------------------------------------------------------


async def _without_its_judge(stage: Stage, text: str) -> str:
    engine = await stage.started(**after_import(stage, CLOCK, text))
    result = await engine.run(stage.target(DOOMED), f"mine:{DOOMED}")
    assert result.record.state is State.CRASHED, result.record.reason
    assert all("the verifier died of SIGKILL" in result.arm(rung).reason for rung in ("baseline", "optimized"))
    assert result.record.verdict.value == "none"
    assert not [arm for arm in result.record.arms if by_the_judge(arm)]
    return result.record.reason


@fault(83, "the judge dies before its first batch", "each rung ends with the judge's death, and no verdict", own=True)
async def judge_dies_between_batches(stage: Stage) -> str:
    return await _without_its_judge(stage, BETWEEN)


@fault(83, "the judge dies in a batch", "each rung ends with the judge's death, and no verdict", own=True)
async def judge_dies_in_a_batch(stage: Stage) -> str:
    return await _without_its_judge(stage, WITHIN)


@fault(84, "a worker dies in a batch", "crashed(SIGKILL); the judge goes on to its siblings", own=True)
async def worker_dies_in_a_batch(stage: Stage) -> str:
    return await _in_a_batch(await stage.started(), stage, DIES)


@fault(84, "a worker hangs in a batch", "timeout_progress soon after the progress limit, siblings untouched", own=True)
async def worker_hangs_in_a_batch(stage: Stage) -> str:
    return await _in_a_batch(await stage.started(AISP_PROGRESS_LIMIT_S=str(PROGRESS_LIMIT_S)), stage, HANGS)


async def _in_a_batch(engine: EngineUnderTest, stage: Stage, row: Row) -> str:
    result = await engine.run(stage.target("harmed", row), "mine:harmed")
    arm = result.arm(row.rung)
    assert arm.state is row.state, (arm.state, arm.reason)
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
    assert judged(result.arm("optimized")), "the judge went on to the others"  # of short calls it may say that they are
    assert (result.finished.duration_ms or 0.0) < 60e3
    return arm.reason


# -- rows 85 and 86: no memory between the two -------------------------------------------------------------------------


@fault(
    85,
    "CUDA's handles cannot be opened",
    "the run ends well; each rung is judged inside, with the reason beside its verdict",
    own=True,
    stubbed="the driver's refusal: there is no CUDA on the CPU that the batches are made on",
)
async def memory_cannot_be_shared(stage: Stage) -> str:
    engine = await stage.started(**after_import(stage, CLOCK, REFUSES))
    result = await engine.run(stage.target("honest"), "mine:honest")
    assert_honest(result)
    told = judged(result.arm("baseline"), result.arm("optimized"))
    assert told == f"judged inside ({SHARED})"
    return told


@fault(
    86,
    "memory has room for few sets of inputs",
    "small batches, and the record says how small",
    own=True,
    stubbed="how much memory there is: the judge allows itself less",
)
async def room_for_few_sets(stage: Stage) -> str:
    engine = await stage.started(**after_import(stage, CLOCK, f"module.HOST_BYTES = {6 * SET_BYTES}\n"))
    result = await engine.run(stage.target("small", SLOW), "mine:small")
    assert_timed(result, SLOW.rung)
    told = judged(result.arm(SLOW.rung))
    assert told.startswith("judged outside (in batches of 6 calls at most"), told
    return told


@fault(
    86,
    "memory has room for fewer than three sets",
    "the run ends well, judged inside, and says why",
    own=True,
    stubbed="how much memory there is: the judge allows itself less",
)
async def room_for_no_sets(stage: Stage) -> str:
    engine = await stage.started(**after_import(stage, CLOCK, "module.HOST_BYTES = 1 << 10\n"))
    result = await engine.run(stage.target("honest"), "mine:honest")
    assert_honest(result)
    told = judged(result.arm("baseline"), result.arm("optimized"))
    assert told.startswith("judged inside (three sets of its inputs and outputs take"), told
    return told


# -- rows 87 to 89: what keeps them apart ------------------------------------------------------------------------------


def held(engine: EngineUnderTest, result: Result) -> str:
    """What the record says that its processes were held from."""
    with engine.history() as history:
        return hardware.confined(history.environment(result.record.environment))


async def _held(stage: Stage, settings: dict[str, str], *lacks: Held) -> str:
    """An honest run of an engine with these settings; what its record says, which lacks just these."""
    engine = await stage.started(**settings)
    result = await engine.run(stage.target("honest"), "mine:honest")
    assert_honest(result)
    said = held(engine, result)
    assert said.startswith("not confined" if len(lacks) == len(Held) else "confined: "), said
    for one in lacks:
        assert len(lacks) == len(Held) or one.value in said.partition("; not ")[2], said
    return said


@fault(87, "a kernel without Landlock", "the run ends well; its record says what nothing held it from", own=True)
async def no_landlock(stage: Stage) -> str:
    settings = after_import(stage, CONFINEMENT, "module.abi = lambda: 0\n")
    return await _held(stage, settings, Held.FILES, Held.READING, Held.SIGNALS)


@fault(87, "a kernel with an older Landlock", "the run ends well; its record says what is missing", own=True)
async def older_landlock(stage: Stage) -> str:
    text = "given = module.abi\nmodule.abi = lambda: min(given(), 3)\n"
    return await _held(stage, after_import(stage, CONFINEMENT, text), Held.SIGNALS)


@fault(
    88,
    "the engine has none of the superuser's rights",
    "the run ends well, confined as with them",
    own=True,
)
async def no_rights(stage: Stage) -> str:
    text = (
        "import ctypes\n\nlibc = ctypes.CDLL(None)\n"
        "for number in range(64):\n    libc.prctl(24, number, 0, 0, 0)\n"
        "assert libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) == 0\n"
    )
    engine = await stage.started(**with_site(stage, text))
    assert engine.process is not None
    assert "CapEff:\t0000000000000000" in Path(f"/proc/{engine.process.pid}/status").read_text()
    result = await engine.run(stage.target("honest"), "mine:honest")
    assert_honest(result)
    return held(engine, result)


@fault(89, "a container that refuses seccomp", "the run ends well; its record says what is missing", own=True)
async def no_seccomp(stage: Stage) -> str:
    return await _held(stage, refusing_filters(stage), Held.SCHEDULING)
