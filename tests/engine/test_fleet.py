"""A fleet: who is given which row, what becomes of it when somebody dies, and what the command writes down.

Ray is played by a script here, and the driver likewise; the last tests start a cluster of one host.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import platform
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from aisp.engine import client
from aisp.engine.doors import api, many
from aisp.engine.doors.asking import Answer
from aisp.engine.doors.fleet import agent, driver, running, work
from aisp.engine.doors.fleet.messages import Agent, Broken, Ended, Give, Here, Lost, Why
from aisp.engine.protocol import requests
from aisp.store import Store, new_ulid
from aisp.store.candidates import MOST_ATTEMPTS, Candidates, CandidateState, Level, Row
from aisp.store.outcomes import State
from aisp.store.record import Run
from aisp.store.results import candidate as results
from aisp.store.results.outcome import Stage
from aisp.store.results.reading import Reading
from aisp.tui.cli.tree import cli
from tests.engine.fleet_support import HERE, ended, put, serve
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.kernels.formats import kernelbench
from tests.store import examples
from tests.tui.fake_engine import MAIN, FakeEngine, isolate, wait_for

GOOD = "def run(x):\n    return x + x\n"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Candidates]:
    with Candidates(tmp_path / "candidates.db") as opened:
        yield opened


def brought(root: Path, **texts: str) -> list[many.Brought]:
    """Candidates for a target that is written below `root`."""
    shared = many.Common.of(write_target(root / "mine", {}))
    return [many.beside(f"{name}.py", {many.ENTRY: text.encode()}, shared) for name, text in texts.items()]


def batch(table: Candidates, root: Path, **texts: str) -> tuple[str, dict[str, int]]:
    """Candidates as they are planned for a quick stage: the name of their batch, and their rows."""
    ones = brought(root, **texts)
    made = running.Fleet(table, "f", ones, many.Terms("cpu"), lambda _: None, say=lambda _: None)
    numbers = made._plan(ones, Level.QUICK)
    return made.batch, numbers


def give(root: Path, number: int = 1, **fields: Any) -> Give:
    """A row of that target, whose candidate takes the place of `optimized`, which engines of a script know."""
    (one,) = brought(root, a=GOOD)
    given = {
        **{"number": number, "stem": one.common.stem, "name": one.common.name, "files": dict(one.common.files)},
        **{"rung": "optimized", "device": "cpu", "quick": True, "since_s": 0.0},
    }
    return Give(**{**given, **fields})


# -- planning ----------------------------------------------------------------------------------------------------------


def test_the_same_folder_is_the_same_batch_and_a_changed_file_shares_the_others_rows(
    table: Candidates, tmp_path: Path
) -> None:
    first, numbers = batch(table, tmp_path, a=GOOD, b=f"# b\n{GOOD}")
    assert batch(table, tmp_path, a=GOOD, b=f"# b\n{GOOD}") == (first, numbers)
    changed, others = batch(table, tmp_path, a=GOOD, b=f"# c\n{GOOD}")
    assert changed != first
    assert others["a.py"] == numbers["a.py"]
    assert others["b.py"] != numbers["b.py"]
    assert table.batches() == [changed, first]


def test_what_cannot_be_run_has_its_outcome_before_anybody_is_asked(table: Candidates, tmp_path: Path) -> None:
    _, numbers = batch(table, tmp_path, a="def run(x:\n", b="x = 1\n")
    outcomes = [many.outcome_of(table.row(number)) for number in numbers.values()]
    assert [found.state for found in outcomes if found is not None] == [State.USER_ERROR, State.USER_ERROR]
    assert "never closed" in outcomes[0].why if outcomes[0] is not None else False


def test_what_was_given_up_is_tried_once_more_when_somebody_asks_again(table: Candidates, tmp_path: Path) -> None:
    _, numbers = batch(table, tmp_path, a=GOOD)
    (number,) = numbers.values()
    table.lease("me", 1)
    table.fail(number, "me", "a host burnt down", final=True)
    assert table.row(number).state is CandidateState.DEAD
    batch(table, tmp_path, a=GOOD)
    assert table.row(number).state is CandidateState.PLANNED


# -- a row on its host -------------------------------------------------------------------------------------------------


def test_a_row_is_an_ordinary_run_of_the_local_engine(state: Path, tmp_path: Path) -> None:
    with FakeEngine() as engine:
        found = work.judge(give(tmp_path, patience_s=12.0), {})
        (asked,) = engine.asked(requests.StartRuns)
    assert isinstance(found, Ended)
    outcome = results.Outcome.of_document(found.outcome)
    assert (outcome.state, outcome.word, outcome.speedup) == (State.OK, "faster", 2.0)
    assert found.run_id == outcome.run_id
    assert (asked.rungs, asked.device, asked.quick, asked.patience_s) == (["optimized"], "cpu", True, 12.0)
    assert Path(asked.roots[0]).is_relative_to(state / "judged")


@pytest.mark.parametrize("ending", ["wrong", "crash"])
def test_a_candidate_that_is_wrong_or_crashes_has_its_outcome(state: Path, tmp_path: Path, ending: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes = All(ending)
        found = work.judge(give(tmp_path), {})
    assert isinstance(found, Ended)
    assert found.outcome["state"] == {"wrong": "incorrect", "crash": "crashed"}[ending]


class All(dict[str, str]):
    """Every target ends so."""

    def __init__(self, outcome: str) -> None:
        super().__init__()
        self._outcome = outcome

    def get(self, *_: Any) -> Any:  # type: ignore[override]  # as it is asked
        return self._outcome


def test_what_a_host_cannot_do_is_lost_and_not_the_candidates_end(state: Path, tmp_path: Path) -> None:
    with FakeEngine() as engine:
        engine.outcomes = All("unavailable")
        lacking = work.judge(give(tmp_path), {})
        engine.refuse = "the disk is full"
        refusing = work.judge(give(tmp_path), {})
        engine.refuse = ""
        without_gpu = work.judge(give(tmp_path, device="cuda"), {})
    assert isinstance(lacking, Lost) and "needs sm_90" in lacking.reason
    assert isinstance(refusing, Lost) and "the disk is full" in refusing.reason
    assert isinstance(without_gpu, Lost) and "no GPU here" in without_gpu.reason


def test_an_engine_that_cannot_be_started_is_told_in_its_own_words(state: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir(mode=0o777)
    blocked.chmod(0o777)
    found = work.judge(give(tmp_path), {**os.environ, "AISP_STATE": str(blocked / "state")})
    assert isinstance(found, Lost)
    assert "blocked" in found.reason and "chmod" in found.reason


def made_before(state: Path, row: Give, device: str = "cpu") -> Run:
    """The store has a run of the row, made by an agent that was killed."""
    target = api.written_target(row.stem, row.name, row.files)
    state.mkdir(exist_ok=True)
    with Store.open(state / "aisp.db") as store:
        run = examples.planned(
            target.id, id=new_ulid(), folder=os.fsencode(target.folder), device=device, quick=True, case="cpu"
        )
        store.plan([run])
        store.finish(examples.finished(run), {}, None)
    return run


def test_a_row_whose_run_is_still_under_way_waits_for_it_and_makes_no_other(state: Path, tmp_path: Path) -> None:
    row = give(tmp_path)
    target = api.written_target(row.stem, row.name, row.files)
    with FakeEngine() as engine:
        engine._runs["01UNDERWAY"] = target.id
        with ThreadPoolExecutor() as beside:
            result = beside.submit(work.judge, row, {})
            wait_for(lambda: len(engine.asked(requests.GetStatus)) >= 2, "two looks at the queue")
            run = made_before(state, row)
            assert not result.done()
            del engine._runs["01UNDERWAY"]
            found = result.result(20)
        assert engine.asked(requests.StartRuns) == []
    assert isinstance(found, Ended) and found.run_id == run.id


def test_a_row_that_comes_a_second_time_finds_its_run_and_makes_no_other(state: Path, tmp_path: Path) -> None:
    row = give(tmp_path)
    run = made_before(state, row)
    with FakeEngine() as engine:
        found = work.judge(row, {})
        assert engine.asked(requests.StartRuns) == []
        for other in (
            msgspec.structs.replace(row, quick=False),
            msgspec.structs.replace(row, device="cuda"),
            msgspec.structs.replace(row, since_s=time.time() + 60),
            msgspec.structs.replace(row, files={**row.files, "optimized.py": b"def run(x):\n    return 2 * x\n"}),
        ):
            work.judge(other, {})
        assert len(engine.asked(requests.StartRuns)) == 3  # one was refused, for it wants a GPU
    assert isinstance(found, Ended) and found.run_id == run.id


def test_a_row_for_gpus_finds_its_run_on_whichever_of_them_it_was(state: Path, tmp_path: Path) -> None:
    row = give(tmp_path, device="cuda")
    run = made_before(state, row, device="cuda:1")
    with FakeEngine() as engine:
        found = work.judge(row, {})
        assert engine.asked(requests.StartRuns) == []
    assert isinstance(found, Ended) and found.run_id == run.id


def test_a_run_that_the_store_has_left_unfinished_is_no_end(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = Answer(Reading(msgspec.structs.replace(examples.planned(), state=State.RUNNING)))
    monkeypatch.setattr(work.asking, "ask", lambda request: unfinished)
    with FakeEngine():
        found = work.judge(give(tmp_path), {})
    assert isinstance(found, Lost) and "never wrote down" in found.reason


# -- agents ------------------------------------------------------------------------------------------------------------


def test_an_engine_is_started_as_the_host_was_and_sees_the_gpus_that_the_fleet_holds() -> None:
    given = {
        "HOME": "/h",
        "AISP_STATE": "/s",
        "RAY_JOB_ID": "1",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
        "OMP_NUM_THREADS": "4",
    }
    found = agent.environment(given, ["1", "3"])
    assert found == {"HOME": "/h", "AISP_STATE": "/s", "CUDA_VISIBLE_DEVICES": "1,3", "OMP_NUM_THREADS": "4"}
    assert agent.environment(given, [])["CUDA_VISIBLE_DEVICES"] == ""
    assert "OMP_NUM_THREADS" not in agent.environment(given, [], guessed=True)  # Ray's own for a worker
    assert agent.gpus_of("GPU-1, 2,") == ("GPU-1", "2")


def test_an_agent_is_called_after_the_gpu_that_it_was_given(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    host = platform.node()
    with_gpu, without = (
        msgspec.msgpack.decode(agent.HostAgent(host, "n", on_gpu).describe(), type=Agent) for on_gpu in (True, False)
    )
    assert (with_gpu.name, with_gpu.gpus) == (f"{host}/3", ["3"])
    assert (without.name, without.gpus) == (host, [])
    assert not with_gpu.ready  # its engine was not asked for yet


def test_neither_agents_nor_the_driver_nor_the_command_import_torch_or_ray_by_themselves() -> None:
    names = ["agent", "driver", "running"]
    code = f"""
import sys
{"".join(f"import aisp.engine.doors.fleet.{name}{chr(10)}" for name in names)}
print(sorted({{"torch", "triton", "ray", "cuda"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=MAIN)
    assert done.stdout.strip() == "[]"


# -- the driver, over a Ray that follows a script ----------------------------------------------------------------------


BIG = ["big, agent 1 of 2", "big, agent 2 of 2"]


class Unavailable(Exception):
    """Ray's word for an actor that is being started again."""


class Ref:
    """An answer that comes, or does not."""

    def __init__(self, actor: Actor, what: str, given: tuple[Any, ...]) -> None:
        self.actor, self.what, self.given = actor, what, given


class Method:
    """A method of an actor."""

    def __init__(self, actor: Actor, what: str) -> None:
        self._actor, self._what = actor, what

    def remote(self, *given: Any) -> Ref:
        ref = Ref(self._actor, self._what, given)
        self._actor.ray.asked.append(ref)
        return ref


class Actor:
    """One agent. `silent` for one that is never placed."""

    def __init__(self, ray: FakeRay, name: str, node: str, options: dict[str, Any]) -> None:
        self.ray, self.name, self.node, self.options = ray, name, node, options
        self.silent = self.dead = False
        self.build = client.build_id()

    def __getattr__(self, what: str) -> Method:
        return Method(self, what)


class FakeRay:
    """Ray as the driver uses it: nodes, actors with options, answers in the order in which they were asked for."""

    class exceptions:
        ActorUnavailableError = Unavailable

    def __init__(self, *nodes: tuple[str, int]) -> None:
        self.hosts = list(nodes)
        self.actors: list[Actor] = []
        self.asked: list[Ref] = []
        self.given: list[tuple[str, int]] = []
        self.killed: list[str] = []
        self.on_row: Callable[[Actor, Give], Any] = lambda actor, row: Ended(number=row.number, run_id="R", outcome={})
        self.before: Callable[[Actor], None] = lambda actor: None

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": name, "NodeManagerHostname": name, "Alive": True, "Resources": {"CPU": 2.0} | gpus}
            for name, count in self.hosts
            for gpus in [{"GPU": float(count)} if count else {}]
        ]

    def remote(self, **fixed: Any) -> Callable[[type], Any]:
        ray = self

        class Made:
            def __init__(self, **options: Any) -> None:
                self._options = {**fixed, **options}

            def options(self, **options: Any) -> Made:
                return Made(**{**self._options, **options})

            def remote(self, name: str, node: str, on_gpu: bool) -> Actor:
                actor = Actor(ray, name, node, self._options)
                ray.before(actor)
                ray.actors.append(actor)
                return actor

        return lambda cls: Made()

    def wait(self, refs: list[Ref], *, num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        ready = [ref for ref in refs if not ref.actor.silent]
        if not ready:
            time.sleep(0.005)
        return ready[:num_returns], []

    def get(self, ref: Ref) -> bytes:
        actor = ref.actor
        if actor.dead:
            raise RuntimeError("The actor died unexpectedly")
        if ref.what == "judge":
            row = msgspec.msgpack.decode(ref.given[0], type=Give)
            self.given.append((actor.name, row.number))
            return msgspec.msgpack.encode(self.on_row(actor, row))
        told = Agent(name=actor.name, node=actor.node, build=actor.build, pid=1)
        if ref.what == "open":
            told = msgspec.structs.replace(told, devices=["a device"])
        return msgspec.msgpack.encode(told)

    def kill(self, actor: Actor, *, no_restart: bool) -> None:
        self.killed.append(actor.name)


class Driven:
    """A driver over a Ray that follows a script, in a thread."""

    def __init__(self, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
        strategies = type(sys)("ray.util.scheduling_strategies")
        strategies.NodeAffinitySchedulingStrategy = dict  # type: ignore[attr-defined]
        for name, module in {"ray": type(sys)("ray"), "ray.util": type(sys)("ray.util")}.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
        monkeypatch.setattr(driver, "LOOK_S", 0.01)
        monkeypatch.setattr(driver, "WAIT_S", 0.005)
        self.rows: queue.SimpleQueue[Give | None] = queue.SimpleQueue()
        self.told: list[Any] = []
        self.known: dict[int, Give] = {}
        self.again = False
        self._driver = driver.Driver(ray, self._tell, self.rows)

    def _tell(self, message: Any) -> None:
        self.told.append(message)
        if self.again and isinstance(message, Lost):
            self.rows.put(self.known[message.number])

    def give(self, *rows: Give, again: bool = False) -> None:
        """Hand rows over; `again`, as whoever has them does, once more where one is lost."""
        self.again = again
        for row in rows:
            self.known[row.number] = row
            self.rows.put(row)

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Let it work until something is so."""
        import threading

        thread = threading.Thread(target=self._driver.work, daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while not true():
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.told}"
            assert thread.is_alive(), "the driver ended"
            time.sleep(0.005)
        self.rows.put(None)
        thread.join(10)

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.told if isinstance(message, kind)]

    @property
    def agents(self) -> list[Agent]:
        """As they were told last."""
        return self.of(Here)[-1].agents if self.of(Here) else []


def test_there_is_an_agent_for_each_gpu_and_one_for_a_host_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ray = FakeRay(("big", 2), ("small", 0))
    driven = Driven(ray, monkeypatch)
    driven.until(lambda: bool(driven.of(Here)) and driven.of(Here)[-1].whole, "all agents")
    assert [one.name for one in driven.agents if one.ready] == [*BIG, "small"]
    options = {actor.name: actor.options for actor in ray.actors}
    assert [options[name]["num_gpus"] for name in [*BIG, "small"]] == [1, 1, 0]
    for given in options.values():
        assert (given["max_restarts"], given["max_task_retries"], given["max_concurrency"]) == (-1, 0, 1)
        assert given["scheduling_strategy"]["soft"] is False


def test_rows_go_to_gpus_where_there_are_any_and_two_at_most_to_each_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ray = FakeRay(("big", 2), ("small", 0))
    driven, most = Driven(ray, monkeypatch), dict[str, int]()
    row = give(tmp_path)

    def on_row(actor: Actor, row: Give) -> Ended:
        for held in driven._driver._held:
            most[held.name] = max(most.get(held.name, 0), len(held.rows))
        return Ended(number=row.number, run_id="R", outcome={})

    ray.on_row = on_row
    numbers = range(1, 13)
    driven.give(*(msgspec.structs.replace(row, number=number, device="auto") for number in numbers))
    driven.until(lambda: len(driven.of(Ended)) == 12, "all rows")
    assert sorted(message.number for message in driven.of(Ended)) == list(numbers)
    assert {name for name, _ in ray.given} == set(BIG)
    assert max(most.values()) <= driver.AT_ONCE


def test_a_row_whose_agent_dies_is_told_as_lost_and_the_agent_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ray = FakeRay(("small", 0))

    def die_once(actor: Actor, row: Give) -> Ended:
        ray.on_row = lambda actor, row: Ended(number=row.number, run_id="R", outcome={})
        raise RuntimeError("The actor died unexpectedly before finishing this task.")

    ray.on_row = die_once
    driven, row = Driven(ray, monkeypatch), give(tmp_path)
    driven.give(row, msgspec.structs.replace(row, number=2))
    driven.until(lambda: len(driven.of(Ended)) + len(driven.of(Lost)) == 2, "both rows")
    (lost,) = driven.of(Lost)
    assert lost.number == 1 and "small" in lost.reason and "died unexpectedly" in lost.reason
    assert [ref.what for ref in ray.asked].count("describe") == 2
    assert ray.killed == []


def test_an_agent_that_is_being_started_again_is_asked_until_it_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(driver, "ASK_S", 0.02)
    ray, row = FakeRay(("small", 0)), give(tmp_path)
    driven, left = Driven(ray, monkeypatch), [3]

    def get(ref: Ref) -> bytes:
        if ref.what == "describe" and left[0]:
            left[0] -= 1
            raise Unavailable("The actor is temporarily unavailable")
        return FakeRay.get(ray, ref)

    monkeypatch.setattr(ray, "get", get)
    driven.give(row)
    driven.until(lambda: bool(driven.of(Ended)), "the row")
    assert [ref.what for ref in ray.asked] == ["describe"] * 4 + ["open", "judge"]


def test_a_host_that_loses_every_row_gets_none_twice_and_is_then_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ray, row = FakeRay(("bad", 0), ("good", 0)), give(tmp_path)
    driven = Driven(ray, monkeypatch)

    def on_row(actor: Actor, row: Give) -> Any:
        if actor.name == "good":
            return Ended(number=row.number, run_id="R", outcome={})
        return Lost(number=row.number, reason="the disk is full")

    ray.on_row = on_row
    driven.give(*(msgspec.structs.replace(row, number=number) for number in range(40)), again=True)
    driven.until(lambda: len(driven.of(Ended)) == 40, "all rows")
    by_bad = [number for name, number in ray.given if name == "bad"]
    assert len(by_bad) == len(set(by_bad)) <= driver.MOST_MISSES + driver.AT_ONCE
    assert ray.killed == ["bad"]
    assert "6 rows one after the other, the last: the disk is full" in next(a.note for a in driven.agents if a.note)


def test_a_host_with_another_aisp_or_a_gpu_that_ray_does_not_give_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ray = FakeRay(("old", 0), ("taken", 1), ("good", 0))
    monkeypatch.setattr(driver, "PLACE_S", 0.1)

    def before(actor: Actor) -> None:
        actor.silent = actor.name == "taken, agent 1 of 1"
        actor.build = "older" if actor.name == "old" else actor.build

    ray.before = before
    driven = Driven(ray, monkeypatch)
    driven.until(lambda: bool(driven.of(Here)) and driven.of(Here)[-1].whole, "all agents")
    notes = {one.name: one.note for one in driven.agents}
    assert "another build (older)" in notes["old"]
    assert "Ray has not placed it" in notes["taken, agent 1 of 1"] and "ray status" in notes["taken, agent 1 of 1"]
    assert notes["good"] == ""


def test_rows_of_a_host_that_leaves_are_told_as_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ray, row = FakeRay(("here", 0), ("leaving", 0)), give(tmp_path)
    driven = Driven(ray, monkeypatch)

    def on_row(actor: Actor, row: Give) -> Any:
        if actor.name == "leaving":
            actor.silent = True
            ray.hosts = [("here", 0)]
        return Ended(number=row.number, run_id="R", outcome={})

    ray.on_row = on_row
    driven.give(*(msgspec.structs.replace(row, number=number) for number in range(8)))
    driven.until(lambda: len(driven.of(Ended)) + len(driven.of(Lost)) == 8, "all rows")
    assert driven.of(Lost)
    assert all("has left the cluster" in message.reason for message in driven.of(Lost))


# -- the command's side, over a driver that follows a script -----------------------------------------------------------


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts scripts in the place of driver processes, see fleet_support."""
    return functools.partial(put, monkeypatch)


def fleet(
    table: Candidates, ones: list[many.Brought], **fields: Any
) -> tuple[running.Fleet, list[many.Ended], list[str]]:
    ends, said = list[many.Ended](), list[str]()
    terms = many.Terms("cpu", finalists=fields.pop("finalists", 0))
    return running.Fleet(table, "f", ones, terms, ends.append, say=said.append, **fields), ends, said


def copies(root: Path, count: int) -> list[many.Brought]:
    return brought(root, **{f"c{number}": f"# {number}\n{GOOD}" for number in range(count)})


async def test_every_row_is_given_once_and_its_end_written_down(
    table: Candidates, tmp_path: Path, scripted: Callable[..., None]
) -> None:
    given: list[int] = []
    most = 0

    async def script(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        nonlocal most
        tell(HERE)
        while True:
            await asyncio.sleep(0.005)
            most = max(most, rows.qsize())
            row = await rows.get()
            given.append(row.number)
            tell(ended(row))

    scripted(script)
    found, told, _ = fleet(table, copies(tmp_path, 9))
    ends = await found.work()
    assert sorted(given) == sorted(row.number for _, row in table.rows(found.batch))
    assert {end.name for end in told} == {end.name for end in ends} == {f"c{number}.py" for number in range(9)}
    assert most <= running.AT_ONCE
    assert table.counts(found.batch)[CandidateState.DONE] == 9
    assert told[0].where == {"agent": "one", "host": "h"}


async def test_a_driver_that_dies_costs_no_row_an_attempt(
    table: Candidates, tmp_path: Path, scripted: Callable[..., None]
) -> None:
    async def dies(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(HERE)
        await rows.get()

    scripted(dies, dies, dies, dies, serve)
    found, _, said = fleet(table, copies(tmp_path, 3))
    await found.work()
    assert {row.attempts for _, row in table.rows(found.batch)} == {1}
    assert table.counts(found.batch)[CandidateState.DONE] == 3
    assert any("the driver has ended" in sentence for sentence in said)


async def test_a_row_that_is_lost_again_and_again_is_given_up_with_the_reason(
    table: Candidates, tmp_path: Path, scripted: Callable[..., None]
) -> None:
    async def loses(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(HERE)
        while True:
            row = await rows.get()
            tell(Lost(number=row.number, reason="the host burnt down") if b"# 1\n" in _own(row) else ended(row))

    scripted(loses)
    found, _, _ = fleet(table, copies(tmp_path, 3))
    await found.work()
    dead = dict(table.rows(found.batch))["c1.py"]
    assert (dead.state, dead.attempts, dead.reason) == (CandidateState.DEAD, MOST_ATTEMPTS, "the host burnt down")
    assert table.counts(found.batch)[CandidateState.DONE] == 2


def _own(row: Give) -> bytes:
    return row.files[f"{row.rung}.py"]


def test_rows_of_a_command_that_was_killed_are_taken_up(
    table: Candidates, tmp_path: Path, scripted: Callable[..., None]
) -> None:
    name, _ = batch(table, tmp_path, **{f"c{number}": f"# {number}\n{GOOD}" for number in range(4)})
    subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys; from aisp.store.candidates import Candidates, owner_here\n"
            "with Candidates(sys.argv[1]) as table: table.lease(owner_here('fleet'), 2)\n",
            str(table.path),
        ],
        check=True,
        cwd=MAIN,
    )
    assert table.counts(name)[CandidateState.LEASED] == 2
    scripted(serve)
    found, told, _ = fleet(table, copies(tmp_path, 4))
    asyncio.run(found.work())
    assert found.batch == name
    assert len(told) == 4
    assert table.counts(name)[CandidateState.DONE] == 4


async def test_nobody_to_run_them_is_told_and_every_row_waits(
    table: Candidates, tmp_path: Path, scripted: Callable[..., None]
) -> None:
    async def no_cluster(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(Broken(why=Why.NO_CLUSTER, text="no Ray cluster answers here"))

    async def nobody(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(Here(agents=[Agent(name="one", node="1", note="the GPU is somebody else's")], whole=True))
        await asyncio.sleep(60)

    for script, said in ((no_cluster, "no Ray cluster answers"), (nobody, "the GPU is somebody else's")):
        scripted(script)
        found, told, _ = fleet(table, copies(tmp_path, 2), patience_s=0.1)
        with pytest.raises(running.NoFleetError, match=said):
            await found.work()
        assert told == []
        assert table.counts(found.batch)[CandidateState.PLANNED] == 2


async def test_the_fastest_get_a_full_run(table: Candidates, tmp_path: Path, scripted: Callable[..., None]) -> None:
    speedups = {b"# 0": 1.5, b"# 1": 3.0, b"# 2": 2.0}

    async def script(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(HERE)
        while True:
            row = await rows.get()
            ratio = next(ratio for text, ratio in speedups.items() if _own(row).startswith(text))
            stage = Stage.QUICK if row.quick else results.Stage.FULL
            outcome = results.Outcome(State.OK, stage, speedup=ratio, low=ratio - 0.1, high=ratio + 0.1)
            tell(Ended(number=row.number, run_id="R1", outcome=outcome.document()))

    scripted(script)
    found, _, _ = fleet(table, copies(tmp_path, 3), finalists=1)
    ends = await found.work()
    assert [end.name for end in ends if end.level is Level.FULL] == ["c1.py"]


# -- the command -------------------------------------------------------------------------------------------------------


def asked(*words: str) -> Result:
    return CliRunner().invoke(cli, ["fleet", *words])


@pytest.fixture
def folder(tmp_path: Path) -> list[str]:
    """The words that name two candidates and their target."""
    write_target(tmp_path / "mine", {})
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "good.py").write_text(GOOD)
    (tmp_path / "c" / "broken.py").write_text("def run(x:\n")
    return [str(tmp_path / "c"), "--against", str(tmp_path / "mine" / "one"), "--device", "cpu"]


def test_a_person_sees_each_candidate_and_where_it_was_run(
    state: Path, folder: list[str], scripted: Callable[..., None]
) -> None:
    scripted(serve)
    shown = asked(*folder)
    assert shown.exit_code == 1, shown.output  # right, and not faster
    table_of = {line.split("\t")[0]: line.split("\t")[1] for line in shown.stdout.splitlines() if "\t" in line}
    assert (table_of["good.py"], table_of["broken.py"]) == ("right", "error")
    assert "1 by one" in shown.stdout
    again = asked(*folder, "--json")
    lines = {line["candidate"]: line for line in map(json.loads, again.stdout.splitlines())}
    assert lines["good.py"]["known"] and lines["good.py"]["where"]["agent"] == "one"
    assert lines["good.py"]["outcome"]["run_id"] == "R1"


def test_without_ray_the_command_says_how_to_get_it(
    state: Path, folder: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "installed", lambda: False)
    for words in (folder, ["--agents"]):
        shown = asked(*words)
        assert shown.exit_code == 3
        assert "pip install 'aisp[fleet]'" in shown.output


def test_where_nobody_takes_rows_the_command_says_that_they_wait(
    state: Path, folder: list[str], scripted: Callable[..., None]
) -> None:
    async def no_cluster(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(Broken(why=Why.NO_CLUSTER, text="no Ray cluster answers here; `ray start --head` starts one"))

    scripted(no_cluster)
    shown = asked(*folder)
    assert shown.exit_code == 3
    assert "ray start --head" in shown.output and "1 candidate left, and the same command goes on" in shown.output
    assert "1 planned, 1 done" in asked().stdout


def test_two_commands_share_the_rows_and_each_tells_of_all(
    state: Path, folder: list[str], scripted: Callable[..., None]
) -> None:
    (Path(folder[0]) / "other.py").write_text(f"# other\n{GOOD}")

    async def no_cluster(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(Broken(why=Why.NO_CLUSTER, text="no Ray cluster answers here"))

    async def beside_another(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(HERE)
        tell(ended(await rows.get()))
        with Candidates(state / "candidates.db") as table:
            table.finish(taken.number, ended(give_of(taken)).outcome, run_id="R2")
        await asyncio.sleep(60)

    scripted(no_cluster)
    asked(*folder)
    with Candidates(state / "candidates.db") as table:
        (taken,) = table.lease("another command", 1)
    scripted(beside_another)
    lines = [json.loads(line) for line in asked(*folder, "--json").stdout.splitlines()]
    told = {line["candidate"]: line["known"] for line in lines}
    assert told == {"broken.py": False, "good.py": True, "other.py": False}


def give_of(row: Row) -> Give:
    return Give(number=row.number, stem="", name="", files={}, rung="", device="cpu", quick=True, since_s=0.0)


def test_answers_to_a_problem_in_a_format_of_others_travel_as_whole_targets(
    state: Path, tmp_path: Path, scripted: Callable[..., None]
) -> None:
    answer, problem = kernelbench.written(tmp_path, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    (tmp_path / "c").mkdir()
    answer.rename(tmp_path / "c" / answer.name)
    given: list[Give] = []

    async def keep(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(HERE)
        given.append(await rows.get())
        tell(ended(given[0]))
        await asyncio.sleep(60)

    scripted(keep)
    shown = asked(str(tmp_path / "c"), "--against", str(problem), "--device", "cpu")
    assert shown.exit_code == 1, shown.output
    (row,) = given
    target = api.written_target(row.stem, row.name, row.files)
    assert row.rung in [rung.name for rung in target.rungs]


def test_what_cannot_be_judged_at_all_is_wrong_usage(state: Path, folder: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    nothing = asked(str(tmp_path / "empty"), *folder[1:])
    assert nothing.exit_code == 2 and "holds no candidates" in nothing.output
    nowhere = asked(folder[0], "--against", "no_such_target_at_all")
    assert nowhere.exit_code == 2 and "no_such_target_at_all" in nowhere.output


def test_a_driver_without_a_cluster_ends_with_a_sentence(state: Path, folder: list[str]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'aisp[fleet]'")
    shown = asked("--agents", "--address", "127.0.0.1:1", "--wait", "60")
    assert shown.exit_code == 3
    assert "no Ray cluster answers at 127.0.0.1:1" in shown.output and "refused" in shown.output
    for address in ("ray://head:1", "head", "head:port"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            driver.probe(address)


# -- a cluster of one host ---------------------------------------------------------------------------------------------


def surroundings(engine: EngineUnderTest) -> dict[str, str]:
    """What the command and the cluster are started with."""
    return {**os.environ, **engine.environment}


def command(engine: EngineUnderTest, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", "fleet", *words],
        env=surroundings(engine),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=MAIN,
    )


@pytest.mark.evil
@pytest.mark.timeout(600)
def test_candidates_over_a_cluster_end_as_they_were_written(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'aisp[fleet]'")
    from tests.proofs.fleet.cluster import cluster

    write_target(tmp_path / "mine", {}, cases='[[cases]]\nname = "cpu"\naxes = { N = 4096 }')
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "good.py").write_text(GOOD)
    (folder / "wrong.py").write_text("def run(x):\n    return x\n")
    (folder / "crash.py").write_text("import os\n\n\ndef run(x):\n    os.kill(os.getpid(), 11)\n")
    engine = own()
    asyncio.run(engine.start())
    words = [str(folder), "--against", str(tmp_path / "mine" / "one"), "--device", "cpu", "--finalists", "0"]
    with cluster(engine.environment) as made:
        process = command(engine, *words, "--address", made.address, "--json")
        out, err = process.communicate(timeout=300)
        seen, _ = command(engine, "--agents", "--json", "--address", made.address).communicate(timeout=120)
    lines = {line["candidate"]: line for line in map(json.loads, out.splitlines())}
    states = {name: line["outcome"]["state"] for name, line in lines.items()}
    assert states == {"good.py": "ok", "wrong.py": "incorrect", "crash.py": "crashed"}, err
    (one,) = json.loads(seen)["agents"]
    assert one["ready"] and one["state_dir"] == engine.environment["AISP_STATE"]
    assert {line["where"]["agent"] for line in lines.values()} == {one["name"]}
    with engine.history() as history:
        assert history.count() == 3


@pytest.mark.evil
@pytest.mark.timeout(900)
def test_whoever_is_killed_no_row_is_lost_and_none_is_run_twice(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    """The agent, the engine, the command and the head, one after the other."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'aisp[fleet]'")
    from tests.proofs.fleet import __main__ as proof
    from tests.proofs.fleet.cluster import cluster

    (tmp_path / "rows.py").write_text(proof.TARGET)
    folder = tmp_path / "c"
    folder.mkdir()
    for number in range(24):
        (folder / f"c{number:02d}.py").write_text(f"# {number}\n{proof.GOOD}")
    engine = own()
    asyncio.run(engine.start())
    state = Path(engine.environment["AISP_STATE"])
    words = [str(folder), "--against", str(tmp_path / "rows.py"), "--device", "cpu", "--finalists", "0"]

    def reached(count: int) -> None:
        wait_for(lambda: proof.ended(state) >= count, f"{count} ends", patience_s=300)

    with cluster(engine.environment) as made:
        words += ["--address", made.address, "--wait", "300"]
        process = command(engine, *words)
        reached(4)
        for one in made.agents():
            one.kill()
        reached(8)
        engine.kill()
        reached(12)
        process.kill()
        process.communicate()
        process = command(engine, *words)
        reached(16)
        made.kill_head()
        made.close()
        made.start()
        out, err = process.communicate()
    assert process.returncode in (0, 1), err  # whether one is faster is the machine's affair
    rows = proof.rows(state)
    assert {row.state for _, row in rows} == {CandidateState.DONE}, out
    assert len(rows) == 24
    finals = proof.final_runs(state)
    assert len(finals) == 24 and set(finals.values()) == {1}
    with engine.use():  # the one that the agent started
        asyncio.run(proof.stop())
