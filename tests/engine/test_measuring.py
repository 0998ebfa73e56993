"""What an arm's processes are put through after their samples, and in which order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from aisp.engine.arms import ArmEnd
from aisp.engine.measuring import Measuring
from aisp.engine.protocol import jobs, reports
from aisp.store.outcomes import State


class Child:
    """A process that takes a while to record, and notes how many do so at once."""

    at_once = most = 0

    def __init__(self, log: list[str], name: str, *, dies: bool = False) -> None:
        self.log, self.name, self.dies = log, name, dies

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.Report:
        assert isinstance(job, jobs.Trace)
        Child.at_once += 1
        Child.most = max(Child.most, Child.at_once)
        await asyncio.sleep(0.01)
        Child.at_once -= 1
        self.log.append(f"trace {self.name}")
        if self.dies:
            raise ArmEnd(State.CRASHED, "it died")
        return reports.Traced()


def scene(device: str, *names: str, dies: str = "") -> tuple[Measuring, list[Any], list[str]]:
    log: list[str] = []

    @contextlib.asynccontextmanager
    async def step(name: str, arm: object = None) -> AsyncIterator[None]:
        log.append(name)
        yield

    async def guarded(process: Any, work: Callable[[Any], Awaitable[None]]) -> None:
        try:
            await work(process)
        except ArmEnd:
            process.running = False

    async def take(processes: Any) -> None:
        log.append("batches of " + ", ".join(process.name for process in processes))

    async def nothing(process: Any) -> None:
        """A challenge of no interest here."""

    measuring = object.__new__(Measuring)
    measuring._plan = SimpleNamespace(device=device)  # type: ignore[assignment]
    measuring._limits = SimpleNamespace(progress_s=5.0)  # type: ignore[assignment]
    measuring._crew = SimpleNamespace(guarded=guarded)  # type: ignore[assignment]
    measuring._reporter = SimpleNamespace(step=step)  # type: ignore[assignment]
    measuring._verification = SimpleNamespace(verify_last=nothing)  # type: ignore[assignment]
    measuring._outside = SimpleNamespace(take=take)  # type: ignore[assignment]
    measuring._sustain = nothing  # type: ignore[method-assign]
    children = [Child(log, name, dies=name == dies) for name in names]
    processes = [SimpleNamespace(name=child.name, child=child, running=True) for child in children]
    Child.at_once = Child.most = 0
    return measuring, processes, log


async def test_calls_are_recorded_one_process_after_the_other_and_behind_all_times() -> None:
    """Beside another process a GPU takes turns, and a call of 1.5 ms was recorded as one of 6."""
    measuring, processes, log = scene("cuda", "a", "b", "c", dies="a")
    await measuring.challenge(processes, processes[:2], processes[1:])
    assert log == ["challenge", "batches of b, c", "trace", "trace a", "trace b"]
    assert Child.most == 1
    assert [process.running for process in processes] == [False, True, True]


async def test_without_a_gpu_nothing_is_recorded() -> None:
    measuring, processes, log = scene("cpu", "a")
    await measuring.challenge(processes, processes, processes)
    assert log == ["challenge", "batches of a"]
