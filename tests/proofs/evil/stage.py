"""What a scene plays on: engines, a folder, and what must hold once its fault has happened."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aisp.engine.protocol import events
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Validity
from tests.engine import started
from tests.engine.harness import EngineUnderTest, Result, Stream
from tests.proofs.evil import corpus
from tests.proofs.evil.matrix import Fault

NEXT_RUN_S = 1.0  # for `python -m tests.proofs evil matrix`, which has the machine for itself
BESIDE_OTHERS_S = 60.0  # the same where other tests, or whoever else, have the cores as well
GROWTH_BYTES = 64 << 20
LOOKS, LOOK_S = 4, 0.05
OF_THE_MACHINE = ("environment.virtualisation", "statistical.luck")  # what they say follows from its other work


@dataclass(frozen=True)
class Balance:
    """What an engine holds while nothing runs: all of it must be the same before and after a fault."""

    descriptors: int
    resident_bytes: int
    litter: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What was seen of one fault; all of it goes into the report."""

    seen: str
    took_s: float
    next_run_s: float | None = None  # from the request to the moment the run was under way
    growth_bytes: int | None = None  # of the engine's resident memory


@dataclass
class Stage:
    """Handed to a scene.

    Attributes:
        home: an empty folder of the scene's own.
        engine: the engine that scenes share; running. A scene that is `own` leaves it alone.
        make: makes an engine of the scene's own, not yet started: make(AISP_STATE=..., NAME="" to unset).
        made: what `make` made.
        patience_s: within which the next run after a fault must be under way.
    """

    home: Path
    engine: EngineUnderTest
    make: Callable[..., EngineUnderTest]
    made: list[EngineUnderTest] = field(default_factory=list)
    patience_s: float = NEXT_RUN_S

    def own(self, **settings: str) -> EngineUnderTest:
        """An engine of the scene's own, not yet started."""
        self.made.append(self.make(**settings))
        return self.made[-1]

    async def started(self, **settings: str) -> EngineUnderTest:
        """An engine of the scene's own that runs."""
        engine = self.own(**settings)
        await engine.start()
        return engine

    def target(self, name: str, *rows: corpus.Row, root: str = "mine", **files: str) -> Path:
        """A target folder with these evil rungs beside the two honest ones; the collection that holds it."""
        corpus.write(self.home / root / name, rows, **files)
        return self.home / root

    async def batch(self, name: str) -> Result:
        """One run of all rows of a batch of the corpus, carried out once for all scenes that look at it."""
        if name not in self.engine.results:
            root = self.engine.home / f"{name}_root"
            rows, lesson = corpus.batch(name)
            corpus.write(root / name, rows, lesson=lesson)
            before = await balance(self.engine)
            self.engine.results[name] = await self.engine.run(root, f"{root.name}:{name}")
            _harm[name] = await unharmed(self.engine, before, self.patience_s, gpu=name == "device")
        return self.engine.results[name]


_harm: dict[str, tuple[float, int]] = {}
"""By batch: what `unharmed` found around its run."""


async def play(fault: Fault, stage: Stage) -> Outcome:
    """Make a fault happen, and assert what must hold after every fault.

    Raises:
        AssertionError: something else came of it.
    """
    started = time.monotonic()
    if fault.own:
        seen = await fault.scene(stage)
        alive = [engine for engine in stage.made if engine.process is not None and engine.process.poll() is None]
        assert stage.made, f"{fault.id} says that it has engines of its own and made none"
        next_run_s = [await next_run(engine, stage.patience_s) for engine in alive][-1] if alive else None
        for engine in stage.made:
            engine.close()  # asserts that nothing at all is left
        return Outcome(seen, time.monotonic() - started, next_run_s)
    if fault.batch:
        await stage.batch(fault.batch)
        seen = await fault.scene(stage)
        assert fault.batch in _harm, f"the batch's run did harm: see the first scene that looked at {fault.batch}"
        next_run_s, growth_bytes = _harm[fault.batch]
    else:
        before = await balance(stage.engine)
        seen = await fault.scene(stage)
        next_run_s, growth_bytes = await unharmed(stage.engine, before, stage.patience_s, gpu=fault.gpu)
    return Outcome(seen, time.monotonic() - started, next_run_s, growth_bytes)


@contextmanager
def standing_still(engine: EngineUnderTest) -> Iterator[None]:
    """The engine with all of its threads stopped; it goes on afterwards."""
    process = engine.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def refusing_filters(stage: Stage, then: Path | None = None) -> dict[str, str]:
    """Settings of an engine in a container that refuses seccomp, as some do: none of its processes can be held from
    tracing another. `then`: a folder whose `sitecustomize` runs as well.
    """
    return with_site(
        stage,
        "from aisp.engine import seccomp as s\n\n"
        "steps = [s._word(s._LOAD, 0), s._word(s._EQUAL, s._MACHINES[s._machine()][1], 0, 1), s._REFUSE, s._PASS]\n"
        "assert not s.available() or s._install(s._machine(), b''.join(steps))\n",
        then,
    )


def with_site(stage: Stage, text: str, then: Path | None = None) -> dict[str, str]:
    """Settings of an engine whose processes, and itself, run this text before anything else."""
    folder = stage.home / "site"
    folder.mkdir()
    more = f"\nimport runpy\n\nrunpy.run_path({str(then / 'sitecustomize.py')!r})\n" if then else ""
    (folder / "sitecustomize.py").write_text(text + more)
    return {started.SITE: str(folder)}


_AFTER = """
import importlib.util
import sys


class After:
    def find_spec(self, name, path, target=None):
        if name != {name!r}:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def then(module):
            execute(module)
            exec({text!r}, {{"module": module}})

        spec.loader.exec_module = then
        return spec


sys.meta_path.insert(0, After())
"""


def after_import(stage: Stage, name: str, text: str) -> dict[str, str]:
    """The same where the text runs right after the module `name` was imported, which it calls `module`."""
    return with_site(stage, _AFTER.format(name=name, text=text))


@asynccontextmanager
async def during_a_run(
    engine: EngineUnderTest,
    stream: Stream,
    root: Path,
    hold: Callable[[], AbstractContextManager[None]],
    stored: Callable[[str], Awaitable[str]] | None = None,
) -> AsyncIterator[tuple[str, str]]:
    """Hold the engine while a run of it goes on and one waits, both of `honest`; it is let go afterwards.

    A run lasts a fraction of a second: on a busy machine it may have ended before anybody could do harm to it. Then
    there are two others.

    Args:
        engine: it runs.
        stream: of that engine.
        root: the collection that has `honest`.
        hold: within it, no end of a run can be stored.
        stored: tells a run's state, where the store cannot be read from here.
    """

    async def read(run_id: str) -> str:
        with engine.history() as history:
            return history.run(run_id).state.value

    while True:
        ending, waiting = await stream.plan(root, "mine:honest", "mine:honest", rungs=["baseline"])
        await stream.until(events.SampleBatch, lambda batch, run_id=ending: batch.run_id == run_id)
        with hold():
            if not State(await (stored or read)(ending)).final:
                yield ending, waiting
                return
        for run_id in (ending, waiting):
            await stream.finish(run_id)


async def balance(engine: EngineUnderTest) -> Balance:
    """What an engine holds, once nothing runs and its standbys are warm; of several looks the fewest descriptors."""
    seen = [await engine.steady()]
    while len(seen) < LOOKS:
        await asyncio.sleep(LOOK_S)
        seen.append(await engine.steady())
    return Balance(min(descriptors for descriptors, _ in seen), seen[-1][1], tuple(engine.litter()))


async def given_back(engine: EngineUnderTest, before: Balance) -> Balance:
    """What an engine holds as soon as it has no more descriptors open than before, or in the end.

    For a moment it has an installed module open at which it looks, or a connection that its client has just left.
    """
    deadline = time.monotonic() + BESIDE_OTHERS_S
    after = await balance(engine)
    while after.descriptors > before.descriptors and time.monotonic() < deadline:
        after = await balance(engine)
    return after


async def unharmed(
    engine: EngineUnderTest, before: Balance, patience_s: float, *, gpu: bool = False
) -> tuple[float, int]:
    """The next run starts at once and ends well, and nothing is left; (its start in s, growth in bytes)."""
    await engine.steady()
    standbys = {process.pid for process in engine.workers()}
    next_run_s = await next_run(engine, patience_s, gpu=gpu)
    after = await given_back(engine, before)
    assert standbys.isdisjoint(process.pid for process in engine.workers()), "a process served twice"
    assert after.descriptors <= before.descriptors, f"{after.descriptors - before.descriptors} descriptors leaked"
    growth_bytes = after.resident_bytes - before.resident_bytes
    assert growth_bytes < GROWTH_BYTES, f"the engine grew by {growth_bytes >> 20} MiB"
    assert after.litter == before.litter, f"left behind: {sorted(set(after.litter) - set(before.litter))}"
    ours = {process.pid for process in engine.workers()}
    strays = [process.pid for process in engine.strays() if process.pid not in ours]
    assert strays == [], f"processes left behind: {strays}"
    return next_run_s, growth_bytes


async def next_run(engine: EngineUnderTest, patience_s: float, *, gpu: bool = False) -> float:
    """An honest run after a fault, with warm workers: it must be under way at once, and end well; how soon it was."""
    root = engine.home / ("honest_gpu_root" if gpu else "honest_root")
    if not root.exists():
        corpus.write(root / "honest", lesson=corpus.DEVICE_LESSON if gpu else corpus.LESSON)
    await engine.steady()
    async with engine.stream() as stream:
        asked = time.monotonic()
        (run_id,) = await stream.plan(root, f"{root.name}:honest")
        await stream.until(events.RunState, lambda event: event.run_id == run_id and event.state == State.RUNNING.value)
        took_s = time.monotonic() - asked
        result = await engine.result(stream, run_id)
    assert_honest(result)
    assert took_s < patience_s, f"the next run was under way after {took_s:.2f} s"
    return took_s


async def eventually(holds: Callable[[], bool], what: str, *, patience_s: float = BESIDE_OTHERS_S) -> float:
    """Wait until something holds; how long that took."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < patience_s, f"not within {patience_s:.0f} s: {what}"
        await asyncio.sleep(0.02)
    return time.monotonic() - started


def assert_timed(result: Result, rung: str) -> None:
    """The arm ended well, with an honest number."""
    arm = result.arm(rung)
    held = arm.timing.held or arm.timing is Timing.HOST
    assert (arm.state, arm.correctness, held) == (State.OK, Correctness.CORRECT, True), arm
    assert arm.median_ms is not None and 0 < arm.median_ms < 1000
    assert arm.sample_count > 0


def assert_honest(result: Result) -> None:
    """A run of two honest rungs as it must always be.

    Time that other guests took from this machine is told, and so is a speed-up that their work made unlike those of the
    runs of the same rungs before. Neither is of the fault's doing.
    """
    assert result.record.state is State.OK, result.record.reason
    doubts = [f for f in result.record.findings if f.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)]
    bad = [f for f in doubts if f.check not in OF_THE_MACHINE or f.status is not FindingStatus.SUSPECT]
    assert bad == [], bad
    assert result.record.validity is (Validity.SUSPECT if doubts else Validity.VALID)
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
