"""Who is asked beside whom."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aisp.engine.arms import ArmEnd, Limits
from aisp.engine.crew import Ask, Crew
from aisp.engine.protocol import jobs, reports
from aisp.store.outcomes import State
from tests.engine.targets import write_target


class Asked:
    """Processes that take a moment to say what their sensors noted; how many were asked at once."""

    def __init__(self) -> None:
        self.now = self.most = self.answers = 0

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.Report:
        assert isinstance(job, jobs.Inspect) and patience_s == 5.0
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.001)
        self.now -= 1
        self.answers += 1
        return reports.Inspected(sensed=[], cost_us={})


@pytest.mark.parametrize(("device", "ranks", "most"), [("cuda", 2, 1), ("cuda", 1, 4), ("cpu", 2, 4)])
async def test_calls_of_ranks_are_traced_alone_on_their_gpus(
    device: str, ranks: int, most: int, tmp_path: Path
) -> None:
    """Beside another's hold a rank was busy for 20 times as long as a call takes, waiting for the others."""
    shape = f"float32 [{ranks}, N]"
    target = write_target(
        tmp_path, {}, more=f"ranks = {ranks}\n", inputs=f'x = "{shape} normal"', outputs=f'y = "{shape}"'
    )
    services: Any = SimpleNamespace(caches=None)
    crew = Crew(services, target=target, files={}, snapshot="", device=device, interpret=False)
    asked: Any = Asked()
    try:
        await asyncio.gather(*(crew.inspected(asked, 5.0, f"rung {number}") for number in range(4)))
    finally:
        crew.arena.close()
    assert (asked.most, asked.answers) == (most, 4)


class Judge:
    """A process that plays the verifier. Its context is lost to one case, as by a device assert."""

    alive, pid = True, 1

    def __init__(self, name: str) -> None:
        self.name, self.lost = name, False
        self.asked: list[str] = []

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.Report:
        assert isinstance(job, (jobs.Pose, jobs.Expect))
        self.asked.append(job.case["text"])
        await asyncio.sleep(0.001)
        self.lost = self.lost or job.case["text"] == "deadly"
        if self.lost:
            return reports.Failed(job="Pose", kind="poisoned", summary="device-side assert triggered", traceback="")
        return reports.Expected(nbytes=0)

    async def end(self, *, gently: bool = True) -> int | None:
        self.alive = False
        return 0


async def test_a_verifier_that_is_lost_to_what_a_run_can_do_without_is_replaced_before_anybody_else_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services: Any = SimpleNamespace(caches=None, limits=Limits())
    crew = Crew(services, target=write_target(tmp_path, {}), files={}, snapshot="", device="cpu", interpret=False)
    first, second = Judge("first"), Judge("second")

    async def start(heard: Any) -> None:
        crew.verifier = second  # type: ignore[assignment]

    async def teach(ask: Ask, job: jobs.AnyJob) -> None:
        assert isinstance(job, jobs.Pose)
        await ask(jobs.Expect(case={"text": f"known before {job.case['text']}"}), reports.Expected, "reference.py")

    monkeypatch.setattr(crew, "start_verifier", start)
    crew.verifier = first  # type: ignore[assignment]
    deadly = jobs.Pose(case={"text": "deadly"}, seed=1, blob=jobs.Blob(name=""))
    plain = jobs.Expect(case={"text": "plain"})
    lost, answer = await asyncio.gather(
        crew.ask_verifier(deadly, reports.Posed, "reference.py", teach=teach),
        crew.ask_verifier(plain, reports.Expected),
        return_exceptions=True,
    )
    assert isinstance(lost, ArmEnd) and lost.state is State.USER_ERROR
    assert "device-side assert" in lost.reason
    assert isinstance(answer, reports.Expected)
    assert (first.asked, second.asked) == (["deadly"], ["known before deadly", "plain"])
    assert not first.alive
    with pytest.raises(ArmEnd) as needed:
        await crew.ask_verifier(deadly, reports.Posed, "reference.py")
    assert needed.value.state is State.CUDA_POISONED, "what a run cannot do without ends it"
    crew.arena.close()


@pytest.mark.parametrize(("flags", "gpu"), [(" cpu", "NVIDIA H200"), ("", "")])
async def test_a_run_of_the_host_keeps_which_gpu_its_machine_has(flags: str, gpu: str, tmp_path: Path) -> None:
    """Its processes see none, and so the page of results of that machine lost the lessons of its host."""
    target = write_target(tmp_path, {}, inputs=f'x = "float32 [N] normal{flags}"', outputs='y = "float32 [N]"')
    kept: list[dict[str, Any]] = []

    class Kept:
        def put_environment(self, described: dict[str, Any]) -> str:
            kept.append(described)
            return "id"

    async def store(ask: Any) -> str:
        return str(ask(Kept()))

    other, own = (SimpleNamespace(name=name) for name in ("NVIDIA L4", "NVIDIA H200"))
    nvml = SimpleNamespace(driver="580", devices=lambda: [other, own])
    services: Any = SimpleNamespace(caches=None, nvml=nvml, gpu=1, store=store)
    crew = Crew(services, target=target, files={}, snapshot="", device="cpu", interpret=False)
    try:
        assert await crew.describe(reports.Ready(pid=1, torch="2.11.0", cuda="")) == "id"
    finally:
        crew.arena.close()
    assert kept[0]["gpu"] == gpu
