"""In which order a run does its work: what may go on side by side, and what has to wait."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from aisp.engine import environment, naive, planning, spawner, verdicts
from aisp.engine.arms import ArmEnd, ArmProcess
from aisp.engine.conclusion import reported
from aisp.engine.crew import RunCrew
from aisp.engine.plan import Plan
from aisp.engine.pool import Pool
from aisp.engine.protocol import events, jobs
from aisp.engine.protocol.framing import MAX_FRAME_BYTES, Decoder, Encoder
from aisp.engine.ranks import Process
from aisp.engine.replicas import Replicas
from aisp.engine.runs import Execution
from aisp.engine.services import Services
from aisp.engine.spawner import Child
from aisp.engine.statistics import LOOKS, Look
from aisp.engine.telemetry import Nvml
from aisp.engine.verification import Verification
from aisp.store.outcomes import Correctness, State, Trigger, Validity, Verdict
from aisp.store.record import Comparison, Run
from tests.engine.nurseries import BorrowingPool, Nurseries
from tests.engine.targets import write_target
from tests.replacing import replace
from tests.store.examples import examined, finding, planned

pytestmark = pytest.mark.timeout(180)


NURSERIES = Nurseries()


@pytest.fixture(autouse=True, scope="module")
def _closed_nurseries() -> Iterator[None]:
    yield
    NURSERIES.close()


# What a quick run of two rungs costs between its plan and its first sample, with standbys for both and the verifier, in
# an engine that has carried one out before: jobs that are sent to all of them, and files that the engine opens.
MOST_JOBS = 39
MOST_FILES = 130
BY_THE_CLOCK = ("/children", "/stat")  # the guard reads them of every process, as often as there is time

STANDBYS = 2
NEXT = 7  # processes that the run behind this one takes


class Telling(BorrowingPool):
    """A pool that notes what it is told to expect among the run's events."""

    def __init__(self, told: list[Any]) -> None:
        super().__init__(NURSERIES)
        self._told = told

    def expect(self, count: int, compilers: int = 0) -> None:
        self._told.append(("expect", count))
        super().expect(count, compilers)


async def carried_out(
    tmp_path: Path,
    *,
    replicas: int,
    standbys: int = STANDBYS,
    told: list[Any] | None = None,
    begun: list[int] | None = None,
    heard: list[events.Event] | None = None,
    looks: tuple[Look, ...] = (),
    rungs: Mapping[str, str] | None = None,
    interleaved: bool = True,
    trigger: Trigger = Trigger.WATCH,
) -> tuple[Run, list[Any]]:
    """A run of two rungs on the CPU: its record, and what it told in order, steps as (name, "begins" or "ends").

    Args:
        trigger: who asks for it: a save waits for its first figures.
        rungs: files by name that take the place of the target's own, or stand beside them.
        looks, interleaved: of the stop rule.
        told: where to note it, for who wants to look meanwhile.
        begun: where to note the processes of an arm that it says have begun.
        heard: where to note every event.
    """
    target = write_target(tmp_path / "mine", dict(rungs or {}), inputs='x = "float32 [N] normal cpu"')
    files = {path.name: path.read_bytes() for path in target.folder.iterdir()}
    plan = planning.plan(
        target, files, "ab" * 32, planning.Hardware((), 0, None, "none", 0), epoch="E", seq=1, quick=True,
        replicas=replicas, naive=False, trigger=trigger,
    )  # fmt: skip
    plan = replace(plan, rule=replace(plan.rule, looks=looks, interleaved=interleaved))
    told = [] if told is None else told

    def publish(event: events.Event) -> None:
        if heard is not None:
            heard.append(event)
        if isinstance(event, events.Step):
            told.append((event.step.name, "begins" if event.step.duration_ms is None else "ends"))
        elif isinstance(event, events.RunState) and event.process and begun is not None:
            begun.append(event.process)

    async def store(work: Callable[[Any], Any]) -> Any:
        return work(MagicMock(earlier=lambda run: [], quarantines=lambda *_: {}, put_environment=lambda seen: ""))

    pool = Telling(told)
    pool.keep(standbys)
    await pool.settled()
    told.clear()
    services = Services(
        publish, store, pool, Nvml(), tmp_path / "snapshots", next_processes=lambda: [(NEXT, 0), (1, 0)]
    )
    try:
        return await Execution(plan, services).run(), told
    finally:
        await pool.close()


def noted_takings(monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> list[int]:
    """For each process that is taken from now on, how often measuring had ended by then."""
    taken: list[int] = []
    ordinary = Pool.take

    async def take(self: Pool, **options: bool) -> Child:
        taken.append(told.count(("measure", "ends")))
        return await ordinary(self, **options)

    monkeypatch.setattr(Pool, "take", take)
    return taken


NO_PYTHON = "def run(x):\n    return x *\n"


@pytest.mark.slow
async def test_a_rung_that_is_no_python_ends_the_run_before_anything_is_timed(tmp_path: Path) -> None:
    run, told = await carried_out(tmp_path, replicas=1, rungs={"optimized.py": NO_PYTHON})
    assert not [name for name, _ in told if name != "expect"], "a step began"
    ends = {arm.rung: (arm.state, arm.reason, arm.detail) for arm in run.arms}
    said = "SyntaxError: invalid syntax (optimized.py, line 2); the trace below ends at the line to fix"
    detail = "  optimized.py:2\n          return x *\nSyntaxError: invalid syntax"
    assert ends["optimized"] == (State.USER_ERROR, f"optimized: {said}", detail)
    assert ends["baseline"][:2] == (State.UNAVAILABLE, "not timed: there is nothing to compare it with")
    assert (run.state, run.reason) == (State.USER_ERROR, f"optimized: {said}")


@pytest.mark.slow
async def test_all_rungs_that_are_no_python_are_told_and_the_others_are_timed(tmp_path: Path) -> None:
    broken = {"optimized_a.py": NO_PYTHON, "optimized_b.py": "if\n"}
    run, told = await carried_out(tmp_path, replicas=1, rungs=broken)
    ends = {arm.rung: arm.state for arm in run.arms}
    assert ends == {
        "baseline": State.OK, "optimized": State.OK, "optimized_a": State.USER_ERROR, "optimized_b": State.USER_ERROR
    }  # fmt: skip
    assert ("measure", "ends") in told, told
    assert {found.rung for found in run.comparisons if found.speedup is not None} == {"optimized"}


@pytest.mark.slow
async def test_a_run_that_the_standbys_can_serve_starts_no_process_before_its_last_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[Any]] = []  # what the run had told when each process was started
    ordinary = spawner.spawn

    async def spawn(**options: bool) -> Child:
        started.append(list(told))
        return await ordinary(**options)

    told: list[Any] = []
    monkeypatch.setattr(spawner, "spawn", spawn)
    needed = 3  # two rungs and the verifier
    record, _ = await carried_out(tmp_path, replicas=1, standbys=needed, told=told)
    assert record.state is State.OK, record.reason
    assert [bool(before) for before in started[:needed]] == [False] * needed, "the standbys, before the run"
    for before in started[needed:]:
        assert before.count(("challenge", "ends")) == 1, "none is started until the arms were measured"


@pytest.mark.slow
async def test_between_plan_and_first_sample_a_run_keeps_to_its_budget_of_round_trips_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    opened: list[str] = []
    waits = False  # for a first sample
    own = f"/proc/{os.getpid()}/task/"

    class Counting(Execution):
        async def run(self) -> Run:
            nonlocal waits
            waits = True
            return await super().run()

    async def send(child: Child, job: jobs.AnyJob) -> None:
        nonlocal waits
        waits = waits and not isinstance(job, jobs.Measure)
        if waits:
            sent.append(type(job).__name__)
        await ordinary(child, job)

    def heard(event: str, words: tuple[Any, ...]) -> None:
        if waits and event == "open" and not str(words[0]).startswith(own):  # of the test's own threads
            path = str(words[0])
            if not (path.startswith("/proc/") and path.endswith(BY_THE_CLOCK)):
                opened.append(path)

    ordinary = Child.send
    monkeypatch.setattr(Child, "send", send)
    monkeypatch.setattr(f"{__name__}.Execution", Counting)
    sys.addaudithook(heard)
    for _ in range(2):
        sent.clear()
        opened.clear()
        record, _ = await carried_out(tmp_path, replicas=2, standbys=3)
        assert record.state is State.OK, record.reason
    assert 10 < len(sent) <= MOST_JOBS, Counter(sent)
    assert len(opened) <= MOST_FILES, Counter(opened)


@pytest.mark.slow
async def test_the_verifier_makes_inputs_while_the_arms_start_and_what_comes_next_starts_behind_the_last_sample(
    tmp_path: Path,
) -> None:
    record, told = await carried_out(tmp_path, replicas=3)
    assert record.state is State.OK, record.reason
    assert told[:4] == [("verifier", "begins"), ("verifier", "ends"), ("inputs", "begins"), ("warm worker", "begins")]
    arms = 3  # two rungs and the baseline once more
    steps = [event for event in told if event[0] == "expect" or event == ("challenge", "ends")]
    measured = [("expect", 0), ("challenge", "ends")]  # none is made before the last sample of a replica
    assert steps == [*measured, ("expect", arms), *measured, ("expect", arms), *measured, *[("expect", NEXT)] * 3]


@pytest.mark.slow
async def test_arms_that_run_one_after_the_other_are_taken_in_every_replica(tmp_path: Path) -> None:
    record, told = await carried_out(tmp_path, replicas=3, interleaved=False)
    assert record.state is State.OK, record.reason
    assert told.count(("measure", "ends")) == 3 * 3, "two rungs and the A/A arm, three times"
    (compared,) = record.comparisons
    assert "one replica" not in compared.note and "one after the other" in compared.note


@pytest.mark.slow
async def test_where_a_rung_fails_in_its_turn_nothing_is_made_for_the_next_job_yet(tmp_path: Path) -> None:
    wrong = "def run(x):\n    return x\n"
    rungs = {"optimized.py": wrong, "optimized_too.py": wrong}
    record, told = await carried_out(tmp_path, replicas=1, rungs=rungs, interleaved=False)
    assert [arm.correctness for arm in record.arms] == [Correctness.CORRECT, *[Correctness.WRONG] * 2]
    expected = [count for name, count in told if name == "expect"]
    assert expected[-3:] == [NEXT] * 3 and NEXT not in expected[:-3], expected


@pytest.mark.parametrize("roomy", [True, False])
@pytest.mark.slow
async def test_a_quick_runs_first_figures_wait_for_its_rungs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roomy: bool
) -> None:
    """The A/A arm and the second replica come behind them, side by side where there is memory for all."""
    told: list[Any] = []
    taken = noted_takings(monkeypatch, told)
    begun: list[int] = []
    monkeypatch.setattr(Replicas, "_side_by_side", lambda replicas, count, each: roomy)
    record, _ = await carried_out(tmp_path, replicas=2, told=told, begun=begun)
    assert record.state is State.OK, record.reason
    assert begun == [1, 2], "as a person is told"
    assert taken == [0] * 3 + ([1] * 4 if roomy else [1] + [2] * 3), "verifier and rungs; A/A arm and second replica"
    assert told.index(("expect", 0)) < told.index(("verifier", "begins"))
    first = told[: told.index(("measure", "ends"))]
    assert first.count(("inputs", "begins")) == 1, "held-out values are made behind the first figures"
    assert told.count(("measure", "ends")) == 3
    (compared,) = record.comparisons
    assert compared.floor is not None and "one replica" not in compared.note


@pytest.mark.parametrize("asked", [0, 1])
@pytest.mark.slow
async def test_a_quick_run_asks_once_of_each_source_what_says_the_same_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    """Of the process that is drawn when all samples are taken. Every process is verified, by its last call too."""
    sent: list[tuple[int, jobs.AnyJob]] = []
    order: dict[int, None] = {}  # of the rungs' processes, as they become arms
    arms: dict[int, str] = {}
    drawn: list[int] = []
    ordinary = Child.send

    async def send(child: Child, job: jobs.AnyJob) -> None:
        if isinstance(job, jobs.Load) and job.module != "reference":
            order[child.pid] = None
            arms[child.pid] = job.module
        sent.append((child.pid, job))
        await ordinary(child, job)

    class Choosing(random.SystemRandom):
        def choice(self, processes: Any) -> Any:
            drawn.append(sum(isinstance(job, jobs.Measure) for _, job in sent))
            return processes[asked]

    def to(kind: type[jobs.Job], **fields: Any) -> Counter[str]:
        """How many jobs of a kind went to the processes of each rung."""
        chosen = [pid for pid, job in sent if isinstance(job, kind) and fields.items() <= job_fields(job).items()]
        return Counter(arms.get(pid, "verifier") for pid in chosen)

    def job_fields(job: Any) -> dict[str, Any]:
        return {name: getattr(job, name) for name in job.__struct_fields__}

    monkeypatch.setattr(Child, "send", send)
    monkeypatch.setattr("aisp.engine.replicas.random.SystemRandom", Choosing)
    monkeypatch.setattr(Replicas, "_side_by_side", lambda replicas, count, each: True)
    record, told = await carried_out(tmp_path, replicas=2)
    assert record.state is State.OK, record.reason
    samples = sum(isinstance(job, jobs.Measure) for _, job in sent)
    assert drawn == [samples] * 3, "none is drawn before the last sample: two rungs and the A/A arm"
    processes = {"baseline": 4, "optimized": 2}  # the A/A arm's are the baseline's
    assert Counter(arms.values()) == processes
    assert to(jobs.FetchLast) == processes
    timed, shapes, families = 2, 2, 2  # sets
    assert to(jobs.Expect)["verifier"] == timed, "the reference, once for each set"
    assert to(jobs.Pose)["verifier"] == timed + shapes + families
    assert to(jobs.Execute, moved=False, values=None) == {name: timed * count for name, count in processes.items()}
    assert (
        to(jobs.Execute, moved=True)
        == to(jobs.Try) - Counter(baseline=1, optimized=1)
        == {"baseline": 1, "optimized": 1}
    )
    sustained = {pid for pid, job in sent if isinstance(job, jobs.Sustain)}
    assert Counter(arms[pid] for pid in sustained) == {"baseline": 2, "optimized": 1}
    served = [pid for pid, job in sent if isinstance(job, jobs.ServeBatches)]
    assert Counter(arms[pid] for pid in set(served)) == {"baseline": 1, "optimized": 1}
    assert len(served) <= 4, "two pairs of batches at most"
    first, second = list(order)[:2], list(order)[2:]
    assert set(served) <= set(second if asked else first)
    others = {pid for pid, job in sent if isinstance(job, jobs.Execute) and job.values is not None}
    assert others == set(served) < sustained
    assert to(jobs.Inspect) == processes | {"verifier": 1}, "what sensors noted stands for one process alone"
    assert told.count(("outside", "ends")) == 1


@pytest.mark.slow
async def test_whoever_waits_for_the_verdict_alone_has_all_processes_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are cores for them; a save has its first figures first."""
    for trigger, expected in ((Trigger.CLI, [0] * 7), (Trigger.WATCH, [0] * 3 + [1] * 4)):
        told: list[Any] = []
        with monkeypatch.context() as patched:
            taken = noted_takings(patched, told)
            patched.setattr(Replicas, "_side_by_side", lambda replicas, count, each: True)
            patched.setattr(environment, "processors", lambda: 8)
            record, _ = await carried_out(tmp_path / trigger.value, replicas=2, told=told, trigger=trigger)
        assert record.state is State.OK, record.reason
        assert taken == expected


@pytest.mark.slow
async def test_a_drawn_shape_is_compiled_for_while_others_are_asked_for_other_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plan, "compiles", lambda plan, rung: rung.name == "optimized")
    entered = asyncio.Event()
    ordinary, answered = Verification.enter_late, Verification.try_values
    order: list[str] = []

    async def enter_late(self: Verification, process: ArmProcess) -> None:
        await entered.wait()  # until the others have answered
        await ordinary(self, process)
        order.append(f"{process.name} entered")

    async def try_values(self: Verification, process: ArmProcess) -> None:
        await answered(self, process)
        order.append(process.name)
        if process.name == "optimized_too":
            entered.set()

    monkeypatch.setattr(Verification, "enter_late", enter_late)
    monkeypatch.setattr(Verification, "try_values", try_values)
    record, _ = await carried_out(tmp_path, replicas=1, rungs={"optimized_too.py": "def run(x):\n    return x + x\n"})
    assert record.state is State.OK, record.reason
    assert order == ["baseline", "optimized_too", "optimized entered", "optimized"]


@pytest.mark.parametrize(
    ("used_gib", "arms", "roomy"),
    [(14, 3, True), (75, 9, False), (60, 2, False), (None, 2, False)],
    ids=["small", "nine arms of 7 GiB", "two arms with much", "not known"],
)
def test_a_second_replica_has_room_by_what_the_first_holds(used_gib: int | None, arms: int, roomy: bool) -> None:
    """Nine arms of a vector sum held 6.8 GiB each, inputs for the most part, where a call's own peak was 0.5; with as
    many again a GPU of 140 GiB was full, and the verifier died of it.
    """
    used = None if used_gib is None else used_gib << 30
    replicas: Any = SimpleNamespace(
        _plan=SimpleNamespace(device="cuda"),
        _crew=SimpleNamespace(ready=SimpleNamespace(memory_bytes=140 << 30)),
        _services=SimpleNamespace(gpu=0, nvml=SimpleNamespace(used_bytes=lambda gpu: used)),
        free_bytes=0,
    )
    assert Replicas._side_by_side(replicas, arms, Replicas._held_bytes(replicas, arms)) is roomy


@pytest.mark.parametrize(
    ("device", "used_gib", "expected"),
    [
        ("cuda", 10, [(9, 1), (7, 1), (12, 4)]),
        ("cuda", 110, [(9, 1), (7, 1), (10, 4)]),
        ("cuda", 120, [(6, 1), (7, 1), (7, 4)]),
        ("cuda", None, [(0, 1), (7, 1), (7, 4)]),
        ("cpu", None, [(9, 1), (7, 1), (7, 1)]),
    ],
    ids=["roomy", "some room", "little room", "not known", "no GPU"],
)
def test_processes_of_two_jobs_are_made_ahead_where_the_gpu_has_room(
    monkeypatch: pytest.MonkeyPatch, device: str, used_gib: int | None, expected: list[tuple[int, int]]
) -> None:
    """Behind the last sample, as the run ends, and when it is over."""
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(naive, "subjects", lambda plan, arms: [1, 2])
    replicas = Replicas.__new__(Replicas)
    plan, crew, services = MagicMock(device=device), MagicMock(interpret=False), MagicMock()
    plan.target.ranks = 1
    crew.ready.memory_bytes = 140 << 30
    services.nvml.used_bytes.return_value = None if used_gib is None else used_gib << 30
    services.next_processes.return_value = [(7, 1), (5, 3)]
    services.pool.expect.side_effect = lambda count, compilers: told.append((count, compilers))
    replicas._plan, replicas._crew, replicas._services, replicas._arms = plan, crew, services, []
    replicas._last_sample_taken()
    replicas.expect_next(over=False)
    replicas.expect_next(over=True)
    assert told == expected


@pytest.mark.slow
async def test_processes_that_are_asked_no_more_end_while_the_others_are_asked(tmp_path: Path) -> None:
    record, told = await carried_out(tmp_path, replicas=2)
    assert record.state is State.OK, record.reason
    last_answer = len(told) - told[::-1].index(("values", "ends"))
    assert told[:last_answer].count(("inspect", "begins")) == 3 + 2, "those of the second replica, and who has answered"
    assert told.count(("inspect", "ends")) == 6


@pytest.mark.parametrize(
    ("cores", "own", "roomy", "expected"),
    [
        (8, False, [True, True], [0] * 7),
        (7, True, [True, True], [0] * 7),
        (8, False, [False, True], [0] * 3 + [1] * 4),
        (8, False, [True, False], [0] * 7 + [1] + [2] * 3),
        (7, False, [True], [0] * 3 + [1] * 4),
        (6, True, [True], [0] * 3 + [1] * 4),
    ],
    ids=["cores to spare", "beside the engine's", "too little memory", "too little as it turned out", "none", "no own"],
)
@pytest.mark.slow
async def test_rungs_that_compile_for_seconds_do_so_in_both_replicas_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, own: bool, roomy: list[bool], expected: list[int]
) -> None:
    """Where that costs nobody anything. Before the first figures the others are compiled, and no more than that."""
    told: list[Any] = []
    taken = noted_takings(monkeypatch, told)
    monkeypatch.setattr(Replicas, "_side_by_side", lambda replicas, count, each: roomy.pop(0))
    monkeypatch.setattr(environment, "processors", lambda: cores)
    monkeypatch.setattr(environment, "slot_cores", SimpleNamespace(get=lambda: {0, 1} if own else set()))
    monkeypatch.setattr(Replicas, "_compiles_long", lambda replicas, arm: True)
    record, _ = await carried_out(tmp_path, replicas=2, told=told)
    assert record.state is State.OK, record.reason
    assert taken == expected
    first = told[: told.index(("measure", "ends"))]
    assert first.count(("compile", "ends")) == expected.count(0) - 1, "of all but the verifier"
    assert first.count(("verify", "ends")) == 2
    assert told.count(("compile", "ends")) == 6 + (len(expected) - 7), "none of those that are kept does so twice"
    (compared,) = record.comparisons
    assert compared.floor is not None and "one replica" not in compared.note


@pytest.mark.slow
async def test_a_rung_that_fails_while_its_next_process_is_made_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, alive = asyncio.Event(), []
    ordinary_fail, ordinary_take = RunCrew.fail, RunCrew.take_ranks
    taken: Counter[str] = Counter()

    async def fail(self: RunCrew, process: ArmProcess, end: ArmEnd) -> None:
        await ordinary_fail(self, process, end)
        failed.set()

    async def take(self: RunCrew, whose: str, *, compiler: bool = False) -> Process:
        taken[whose] += 1
        process = await ordinary_take(self, whose, compiler=compiler)
        if taken[whose] > 1:
            await failed.wait()
            alive.append(process)
        return process

    monkeypatch.setattr(RunCrew, "fail", fail)
    monkeypatch.setattr(RunCrew, "take_ranks", take)
    monkeypatch.setattr(Replicas, "_side_by_side", lambda replicas, count, each: True)
    monkeypatch.setattr(Replicas, "_compiles_long", lambda replicas, arm: True)
    monkeypatch.setattr(environment, "processors", lambda: 8)
    record, _ = await carried_out(tmp_path, replicas=2, rungs={"optimized.py": "def run(x):\n    return x\n"})
    assert taken["optimized"] == 2
    assert record.state is State.INCORRECT, record.reason
    assert record.arm("optimized").state is State.INCORRECT  # type: ignore[union-attr]
    assert not any(process.alive for process in alive)


@pytest.mark.parametrize(("cores", "roomy", "groups", "processes"), [(5, [True, True], 2, 7), (4, [True], 1, 7),
    (5, [False, True], 2, 8)], ids=["cores to spare", "no cores to spare", "too little memory"])  # fmt: skip
@pytest.mark.slow
async def test_rungs_that_build_an_extension_when_they_are_imported_do_so_in_both_replicas_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, roomy: list[bool], groups: int, processes: int
) -> None:
    told: list[Any] = []
    taken = noted_takings(monkeypatch, told)
    monkeypatch.setattr(Replicas, "_side_by_side", lambda replicas, count, each: roomy.pop(0))
    monkeypatch.setattr(environment, "processors", lambda: cores)
    builder = "# with load_inline\ndef run(x):\n    return x + x\n"
    record, _ = await carried_out(tmp_path, replicas=2, told=told, rungs={"optimized.py": builder})
    assert record.state is State.OK, record.reason
    assert told[: told.index(("warm worker", "ends"))].count(("warm worker", "begins")) == groups
    assert len(taken) == processes, "where memory is short the process that had built ends, and another one comes later"
    assert told.count(("compile", "ends")) == 6


LEAVES_CYCLES = """
import gc
import weakref

kept = []


class Holder:
    pass


def run(x):
    global kept
    kept = [each for each in kept if each() is not None]
    if not gc.isenabled() and len(kept) > 1:
        raise RuntimeError(f"{len(kept)} outputs are kept")
    holder = Holder()
    holder.itself, holder.out = holder, x + x
    kept.append(weakref.ref(holder))
    return holder.out
"""


@pytest.mark.slow
async def test_what_a_call_left_in_a_cycle_of_objects_is_gone_before_the_next_sample(tmp_path: Path) -> None:
    """While samples are taken Python does not look for cycles by itself; outputs of a GPU would fill it."""
    record, _ = await carried_out(tmp_path, replicas=1, rungs={"optimized.py": LEAVES_CYCLES})
    assert record.state is State.OK, record.reason
    assert not [f for f in record.findings if f.status in ("caught", "suspect") and f.arm == "optimized"]


@pytest.mark.slow
async def test_a_run_ends_at_the_look_that_decides_it_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "decided", lambda compared: True)
    begun: list[int] = []
    record, told = await carried_out(tmp_path, replicas=5, looks=LOOKS, begun=begun)
    assert record.state is State.OK, record.reason
    assert begun == [1, 2]
    assert "decided after 2 of 5 replicas" in record.flags
    assert told.count(("measure", "ends")) == 2
    assert [count for name, count in told if name == "expect"] == [0, 3, 0, *[NEXT] * 3]
    assert not [f for f in record.findings if f.check == "statistical.sample_count" and f.status != "passed"]


@pytest.mark.slow
async def test_a_run_that_no_look_decides_takes_every_replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def undecided(compared: list[Comparison]) -> bool:
        seen.append(len(compared))
        return False

    monkeypatch.setattr(verdicts, "decided", undecided)
    record, told = await carried_out(tmp_path, replicas=3, looks=(Look(2, 0.02, 31.8), Look(3, 0.03, 7.0)))
    assert record.state is State.OK, record.reason
    assert seen == [1], "after two; after the last there is nothing to ask"
    assert told.count(("measure", "ends")) == 3
    assert not [flag for flag in record.flags if "decided" in flag]


@pytest.mark.slow
async def test_a_rung_that_a_look_decides_takes_no_more_replicas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "decided", lambda compared: False)
    monkeypatch.setattr(verdicts, "settled", lambda compared: {"optimized", "baseline"})
    rungs = {"optimized_late.py": "def run(x):\n    return x + x\n"}
    looks = (Look(2, 0.02), Look(3, 0.03))
    record, told = await carried_out(tmp_path, replicas=3, looks=looks, rungs=rungs)
    assert record.state is State.OK, record.reason
    assert "1 of 2 rungs decided after 2 of 3 replicas" in record.flags
    compared = {one.rung: one for one in record.comparisons}
    assert compared["optimized"].speedup is not None
    assert not [f for f in record.findings if f.check == "statistical.sample_count" and f.status != "passed"]
    assert told.count(("measure", "ends")) == 3


def test_a_record_that_would_hardly_fit_into_a_frame_is_told_without_what_is_long() -> None:
    record = examined(planned())
    assert reported(record) is record
    arms = tuple(
        replace(record.arms[1], rung=f"optimized_{number}", detail="x" * 60_000, naive=None) for number in range(200)
    )
    said = (
        finding("timing.steady", "optimized_1", "suspect", "odd"),
        *(finding("output.form", "c") for _ in range(20_000)),
    )
    long = replace(record, arms=(record.arms[0], *arms), findings=said, validity=Validity.SUSPECT, verdict=Verdict.NONE)
    frame = Encoder().frame(events.RunFinished(run=reported(long)))
    assert len(frame) < MAX_FRAME_BYTES
    (heard,) = Decoder(events.AnyEvent).feed(frame)
    assert [arm.rung for arm in heard.run.arms] == [arm.rung for arm in long.arms]
    assert [found.check for found in heard.run.findings] == ["timing.steady"]
    assert any("reported in part" in flag for flag in heard.run.flags)
