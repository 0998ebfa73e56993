"""Which job gets which slot, and whose the cores are: two GPUs, a driver that a test answers for, and light workers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from aisp.engine import planning
from aisp.engine.job import AnyJob, PeakJob, PeakPlan, RunJob
from aisp.engine.planning import Hardware
from aisp.engine.protocol import events, requests
from aisp.engine.services import Services
from aisp.engine.slots import LEAST_CORES_OF_A_SLOT, Machine, Slots
from aisp.kernels.catalog.model import Needs
from aisp.store.outcomes import State, Trigger
from tests.engine.fake_nvml import FakeNvml
from tests.engine.harness import EngineUnderTest, Stream
from tests.engine.targets import write_target
from tests.proofs.chaos import light
from tests.proofs.chaos.stand_in import HELD
from tests.proofs.evil import corpus
from tests.proofs.evil.watched import watching

NO_SERVICES = cast("Services", None)  # nothing is carried out in these
H100 = "NVIDIA H100 80GB HBM3"
NO_NEEDS = Needs()


def machine(cores: int, *, threads: int = 1, nodes: int = 1, gpus: Sequence[int | None] = (0, 0)) -> Machine:
    """So many physical cores, numbered as Linux does, in halves on their memory nodes; the nodes of its GPUs."""
    physical = tuple(frozenset(core + cores * thread for thread in range(threads)) for core in range(cores))
    at = {number: min(min(core) * nodes // cores, nodes - 1) for core in physical for number in core}
    return Machine(physical, at, dict(enumerate(gpus)))


def hardware(*models: str) -> Hardware:
    """GPUs of these models, all of which may be used."""
    devices = tuple(events.Device(index=n, name=model, uuid=f"GPU-{n}", sm=90) for n, model in enumerate(models))
    return Hardware(devices, len(devices), 90, "", 0, tuple((device.index, device.uuid) for device in devices))


def slots(*models: str, least: float = 0.5) -> Slots:
    return Slots(hardware(*(models or (H100, H100))), machine(2), least)


@pytest.fixture(autouse=True)
def stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[int]]:
    """This process is no engine: it does not move to the engine's core. Where it would have moved to."""
    moved: list[frozenset[int]] = []
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cores: moved.append(frozenset(cores)))
    return moved


# -- cores ---------------------------------------------------------------------------------------------------------


def test_each_slot_has_whole_cores_of_its_own_and_the_first_is_the_engines(
    stays_where_it_is: list[frozenset[int]],
) -> None:
    found = Slots(hardware(H100, H100), machine(16, threads=2), LEAST_CORES_OF_A_SLOT)
    one, two = found.gpus
    shares = [one.cores, two.cores, found.cpu.cores]
    assert [len(share) for share in shares] == [10, 10, 10]
    assert not one.cores & two.cores and not one.cores & found.cpu.cores and not two.cores & found.cpu.cores
    for share in shares:
        assert {core + 16 for core in share if core < 16} == {core for core in share if core >= 16}
        assert not share & {0, 16}
    assert stays_where_it_is == [frozenset({0, 16})]
    assert one.pool.share.cores == tuple(sorted(one.cores))
    assert not one.meets(two) and not one.meets(found.cpu)
    (both,) = found.sets
    assert both.cores == one.cores | two.cores
    assert both.meets(one) and both.meets(two) and not both.meets(found.cpu)


def test_a_gpu_has_cores_of_its_memory_node() -> None:
    found = Slots(hardware(H100, H100), machine(32, nodes=2, gpus=(1, 0)), 4)
    one, two = found.gpus
    assert min(one.cores) >= 16 and max(two.cores) < 16


def test_without_cores_for_the_cpu_the_gpus_work_side_by_side_and_it_takes_turns_with_them() -> None:
    found = Slots(hardware(H100, H100), machine(9), 4)
    one, two = found.gpus
    assert [len(slot.cores) for slot in (one, two, found.cpu)] == [4, 4, 8]
    assert not one.meets(two) and one.meets(found.cpu) and two.meets(found.cpu)
    assert found.cpu.pool not in (one.pool, two.pool)
    assert found.cpu.pool.beside == list(dict.fromkeys([found.cpu.pool, *(slot.pool for slot in found)]))
    assert two.pool not in one.pool.beside


@pytest.mark.parametrize(("cores", "gpus"), [(2, 1), (8, 1), (2, 2), (8, 2), (16, 0)])
def test_on_a_small_machine_or_without_a_gpu_all_take_turns_and_nobody_is_moved(
    cores: int, gpus: int, stays_where_it_is: list[frozenset[int]]
) -> None:
    found = Slots(hardware(*[H100] * gpus), machine(cores, gpus=[None] * gpus), 4)
    assert all(one.meets(other) for one in found for other in found)
    assert all(slot.pool.share.cores == () for slot in found)
    assert stays_where_it_is == [] and not found.own_cores
    assert found.cpu.pool is found.usual.pool, "one set of standbys, as there is one job at a time"
    assert all(set(pool.beside) == set(found.pools) for pool in found.pools)


def test_cores_to_spare_are_those_of_idle_slots_while_something_is_under_way_on_gpus_alone(asked: Asked) -> None:
    found = Slots(hardware(H100, H100), machine(16, threads=2), LEAST_CORES_OF_A_SLOT)
    (one, two), cpu = found.gpus, found.cpu
    assert found.spare == frozenset(), "nothing is under way, so that nobody waits"
    one.job = asked.run()
    assert found.spare == frozenset(range(32)) - {0, 16} - one.cores
    assert found.spare >= cpu.cores | two.cores
    two.job = asked.run()
    assert found.spare == frozenset(range(32)) - {0, 16} - one.cores - two.cores
    cpu.job = asked.run()
    assert found.spare == frozenset(), "what is timed on a CPU is disturbed by all of its cores"
    alone = Slots(hardware(H100), machine(2), LEAST_CORES_OF_A_SLOT)
    alone.gpus[0].job = asked.run()
    assert alone.spare == frozenset(), "no slot has cores of its own"


def test_what_a_slots_processes_see_of_the_gpus() -> None:
    one, two = (found := slots()).gpus
    assert [slot.pool.share.visible for slot in (one, two)] == ["GPU-0", "GPU-1"]
    assert [slot.pool.share.uuid for slot in (one, two)] == ["GPU-0", "GPU-1"]
    assert [slot.pool.share.visible for slot in found.sets] == ["GPU-0,GPU-1"]
    assert found.cpu.pool.share.visible == ""
    (alone,) = (only := slots(H100)).gpus
    assert alone.pool.share.visible is None, "as the engine was given it"
    assert only.sets == []
    assert [slot.name for slot in (*found, *only)] == ["cuda:0", "cuda:1", "cuda", "cpu", "cuda", "cpu"]


# -- which job, and where ------------------------------------------------------------------------------------------


class Asked:
    """Jobs as somebody asks for them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._number = 0

    def run(
        self,
        *,
        trigger: Trigger = Trigger.CLI,
        device: str = "cuda",
        ranks: int = 1,
        needs: Needs = NO_NEEDS,
        name: str = "",
        edit: str = "",
    ) -> RunJob:
        """A run, of a target of its own unless it has a name."""
        self._number += 1
        target = write_target(
            self._root / (name or f"t{self._number}"), {}, inputs='x = "float32 [N] normal cpu"', name="one"
        )
        target = dataclasses.replace(target, ranks=ranks)
        files = {path.name: path.read_bytes() for path in target.folder.iterdir()}
        here = Hardware((), 0, None, "none", 0)
        snapshot = edit or f"{self._number}"
        plan = planning.plan(target, files, snapshot, here, epoch="E", seq=1, quick=True, trigger=trigger)
        record = plan.record.__class__(
            **{field: getattr(plan.record, field) for field in plan.record.__struct_fields__} | {"device": device}
        )
        target = dataclasses.replace(target, needs=needs)
        return RunJob(dataclasses.replace(plan, record=record, target=target), NO_SERVICES)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def placed(found: Slots, waiting: Sequence[AnyJob]) -> dict[int, str]:
    """Give slots until nobody can have one more; the slot's name by the job's number."""
    given: dict[int, str] = {}
    left = list(waiting)
    while (chosen := found.next(left)) is not None:
        job, slot = chosen
        found.give(job, slot)
        left.remove(job)
        given[waiting.index(job)] = slot.name
    return given


def test_two_gpus_and_the_cpu_take_three_runs_side_by_side(asked: Asked) -> None:
    waiting = [asked.run(), asked.run(), asked.run(), asked.run(device="cpu")]
    assert placed(slots(), waiting) == {0: "cuda:0", 1: "cuda:1", 3: "cpu"}


def test_where_all_take_turns_the_first_in_order_goes(asked: Asked) -> None:
    waiting = [asked.run(device="cpu"), asked.run(), asked.run()]
    assert placed(slots(least=4), waiting) == {0: "cpu"}
    assert placed(slots(least=4), waiting[1:]) == {0: "cuda:0"}


def test_a_job_of_all_gpus_waits_for_both_and_nobody_behind_it_takes_one(asked: Asked) -> None:
    found = slots()
    first = asked.run()
    assert placed(found, [first]) == {0: "cuda:0"}
    waiting = [asked.run(ranks=2), asked.run(), asked.run(device="cpu")]
    assert placed(found, waiting) == {2: "cpu"}, "the second GPU is kept free"
    found.gpus[0].job = None
    assert placed(found, waiting[:2]) == {0: "cuda"}
    found.sets[0].job = None
    assert placed(found, waiting[1:2]) == {0: "cuda:0"}


def test_runs_of_two_ranks_go_side_by_side_on_four_gpus_and_one_of_three_has_all(asked: Asked) -> None:
    found = slots(*[H100] * 4)
    assert [slot.name for slot in found.sets] == ["cuda:0,1", "cuda:2,3", "cuda"]
    assert [slot.pool.share.visible for slot in found.sets] == ["GPU-0,GPU-1", "GPU-2,GPU-3", "GPU-0,GPU-1,GPU-2,GPU-3"]
    assert placed(found, [asked.run(ranks=2), asked.run(ranks=2)]) == {0: "cuda:0,1", 1: "cuda:2,3"}
    found.sets[0].job = None
    assert placed(found, [asked.run(ranks=3), asked.run()]) == {}, "what three ranks wait for is kept for them"
    found.sets[1].job = None
    assert placed(found, [asked.run(ranks=3)]) == {0: "cuda"}


def test_a_pair_with_a_gpu_that_is_set_aside_leaves_its_jobs_to_the_other_pair(asked: Asked) -> None:
    found = slots(*[H100] * 4)
    found.set_aside[0] = "lost"
    assert placed(found, [asked.run(ranks=2), asked.run(ranks=2)]) == {0: "cuda:2,3"}


def test_a_rung_of_one_process_that_needs_two_gpus_sees_two(asked: Asked) -> None:
    assert placed(slots(), [asked.run(needs=Needs(gpus=2))]) == {0: "cuda"}
    assert placed(slots(*[H100] * 4), [asked.run(needs=Needs(gpus=2))]) == {0: "cuda:0,1"}


@pytest.mark.parametrize(
    ("gpus", "sets"), [(1, []), (2, [(0, 2)]), (3, [(0, 2), (0, 3)]), (6, [(0, 2), (2, 4), (4, 6), (0, 4), (0, 6)])]
)
def test_sets_are_of_powers_of_two_and_of_all(gpus: int, sets: list[tuple[int, int]]) -> None:
    members = [tuple(range(first, last)) for first, last in sets]
    assert [slot.gpus for slot in slots(*[H100] * gpus).sets] == members


def test_a_target_goes_where_it_ran_last_if_that_is_free_and_a_watch_waits_for_it(asked: Asked) -> None:
    found = slots()
    assert placed(found, [asked.run(), asked.run(name="mine")]) == {0: "cuda:0", 1: "cuda:1"}
    found.gpus[0].job = found.gpus[1].job = None
    assert placed(found, [asked.run(name="mine")]) == {0: "cuda:1"}
    assert placed(found, [asked.run(name="mine", trigger=Trigger.WATCH)]) == {}, "its times are of that GPU"
    assert placed(found, [asked.run(name="mine", edit="other")]) == {0: "cuda:0"}
    found.gpus[0].job = None
    found.set_aside[1] = "lost"
    assert placed(found, [asked.run(name="mine", trigger=Trigger.WATCH)]) == {0: "cuda:0"}


def test_a_gpu_that_is_set_aside_takes_its_slot_and_that_of_all_gpus_and_no_other(asked: Asked) -> None:
    found = slots()
    found.set_aside[0] = "lost"
    assert placed(found, [asked.run(), asked.run()]) == {0: "cuda:1"}
    assert found.gone == "" and found.why_not(found.sets[0]) == "lost"
    found.set_aside[1] = "lost too"
    found.gpus[1].job = None
    assert found.gone == "lost"
    assert placed(found, [asked.run()]) == {0: "cuda:0"}, "where it ends at once"


def test_a_gpu_of_another_model_takes_no_run_in_the_place_of_the_first(asked: Asked) -> None:
    found = slots(H100, "NVIDIA A100")
    assert placed(found, [asked.run(), asked.run()]) == {0: "cuda:0"}
    found.set_aside[0] = "lost"
    assert found.gone == "lost"


def test_jobs_of_the_same_sources_take_turns(asked: Asked) -> None:
    found = slots()
    waiting = [asked.run(edit="ab"), asked.run(edit="ab"), asked.run()]
    assert placed(found, waiting) == {0: "cuda:0", 2: "cuda:1"}


def test_ceilings_of_each_gpu_the_first_with_its_link_to_the_second(asked: Asked) -> None:
    found = slots()
    peaks = [PeakJob(PeakPlan(f"P{gpu}", gpu), NO_SERVICES) for gpu in range(2)]
    assert placed(found, peaks) == {0: "cuda"}
    assert placed(slots(), peaks[1:]) == {0: "cuda:1"}
    assert placed(slots(H100), peaks[:1]) == {0: "cuda"}


def begins_after_s(found: Slots, jobs: Sequence[AnyJob], now_ns: int = 0) -> list[float | None]:
    """When each job may be expected to begin; None where nobody can say, or it has."""
    starts = found.forecast(jobs, now_ns)
    return [(starts[job.id] - now_ns) / 1e9 if job.id in starts else None for job in jobs]


def expecting(job: RunJob, seconds: float | None) -> RunJob:
    job.expected_s = seconds
    return job


def test_a_job_is_expected_to_begin_when_those_before_it_have_ended(asked: Asked) -> None:
    found = slots(H100)
    jobs = [expecting(asked.run(), seconds) for seconds in (10.0, 5.0, None, 7.0)]
    assert begins_after_s(found, jobs) == [0, 10, 15, None], "nobody knows how long the third one takes"
    found.give(jobs[0], found.gpus[0])
    jobs[0].slot = found.gpus[0]
    jobs[0].began_ns = int(1e9)
    assert begins_after_s(found, jobs, now_ns=int(4e9)) == [None, 7, 12, None]
    assert begins_after_s(found, jobs, now_ns=int(60e9)) == [None, 0, 5, None], "longer than it was expected to take"


def test_with_two_gpus_a_job_is_expected_on_the_one_that_is_free_first(asked: Asked) -> None:
    jobs = [expecting(asked.run(), seconds) for seconds in (10.0, 4.0, 3.0, 1.0)]
    assert begins_after_s(slots(), jobs) == [0, 0, 4, 7]
    both = [expecting(asked.run(ranks=2), 2.0), *jobs]
    assert begins_after_s(slots(), [jobs[0], both[0], *jobs[1:3]]) == [0, 10, 12, 12], "it waits for both"
    assert begins_after_s(slots(least=4), [jobs[0], expecting(asked.run(device="cpu"), 1.0)]) == [0, 10], "by turns"


async def test_processes_stand_by_in_as_many_slots_as_there_are_jobs_for(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = slots()
    kept: list[str] = []
    for slot in found:

        def keep(count: int, slot: object = slot) -> None:
            slot.pool.target = count  # type: ignore[attr-defined]
            kept.append(slot.name)  # type: ignore[attr-defined]

        monkeypatch.setattr(slot.pool, "keep", keep)
    queued: list[AnyJob] = []
    for job, warm in (
        (asked.run(), ["cuda:0"]),
        (asked.run(), ["cuda:0", "cuda:1"]),
        (asked.run(device="cpu"), ["cpu"]),
    ):
        kept.clear()
        queued.append(job)
        found.warm(job, queued)
        assert kept == warm


def test_a_client_that_connects_does_not_take_a_watchs_standbys(monkeypatch: pytest.MonkeyPatch) -> None:
    found = slots()
    pool = found.usual.pool
    monkeypatch.setattr(pool, "keep", lambda count: setattr(pool, "target", count))
    found.stand_by()
    few = pool.target
    pool.target = few + 4  # what the run of a save takes
    found.stand_by()
    assert pool.target == few + 4
    found.rest()
    assert 0 < pool.target == few


# -- an engine with two GPUs ---------------------------------------------------------------------------------------


class Light(EngineUnderTest):
    """An engine whose workers are stand-ins without torch."""

    def _started(self) -> contextlib.AbstractContextManager[None]:
        return light.stand_ins()


@dataclasses.dataclass
class TwoGpus:
    """An engine with two GPUs that work side by side, and targets whose runs last as long as a test wants."""

    engine: EngineUnderTest
    driver: FakeNvml
    home: Path

    def target(self, name: str, *, held: bool = True, ranks: int = 1, device: str = "cuda") -> str:
        """A target; its runs are held until `let_go`."""
        lesson = corpus.LESSON if device == "cpu" else corpus.DEVICE_LESSON
        if ranks > 1:
            lesson = lesson.replace("[inputs]", f"ranks = {ranks}\n[inputs]").replace("[N]", f"[{ranks}, N]")
        folder = corpus.write(self.home / "mine" / name, lesson=lesson)
        if held:
            with (folder / "optimized.py").open("a") as file:
                file.write(f"{HELD}{self.home / name}.go\n")
        return f"mine:{name}"

    def let_go(self, *names: str) -> None:
        for name in names:
            (self.home / f"{name}.go").touch()

    async def plan(self, stream: Stream, *targets: str, **options: object) -> list[str]:
        return await stream.plan(self.home / "mine", *targets, **options)

    async def queue(self, stream: Stream) -> dict[str, tuple[str, str]]:
        """By target: state and device, as `aisp jobs` shows them."""
        found = (await stream.connection.status()).queue
        return {item.target.partition(":")[2]: (item.state, item.device) for item in found}

    async def running(self, stream: Stream, *names: str) -> dict[str, str]:
        """Wait until runs of just these targets are under way; the device of each."""
        found: dict[str, tuple[str, str]] = {}
        with contextlib.suppress(TimeoutError):
            while {name for name, (state, _) in found.items() if state == "running"} != set(names):
                await stream.until(events.RunState, patience_s=20)
                found = await self.queue(stream)
        return {name: device for name, (state, device) in found.items() if state == "running"}


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[TwoGpus]:
    """See TwoGpus."""
    (tmp_path / "nvml").mkdir()
    driver = FakeNvml(tmp_path / "nvml")
    driver.answers("count 2")
    settings = driver.settings() | {"AISP_TEST_SITE": "", "AISP_SLOT_CORES": "0.5"}
    engine = Light(tmp_path / "engine", **settings)
    await engine.start()
    try:
        with engine.use():
            yield TwoGpus(engine, driver, tmp_path)
    finally:
        engine.close()


pytestmark = pytest.mark.timeout(120)


@pytest.mark.slow
async def test_two_gpus_take_two_runs_side_by_side_and_the_cpu_a_third(two: TwoGpus) -> None:
    names = [two.target("one"), two.target("two"), two.target("three"), two.target("host", device="cpu")]
    async with two.engine.stream() as stream:
        run_ids = await two.plan(stream, *names)
        assert await two.running(stream, "one", "two", "host") == {"one": "cuda:0", "two": "cuda:1", "host": "cpu"}
        assert (await two.queue(stream))["three"] == ("planned", "cuda")
        two.let_go("two")
        assert await two.running(stream, "one", "three", "host") == {"one": "cuda:0", "three": "cuda:1", "host": "cpu"}
        two.let_go("one", "three", "host")
        for run_id in run_ids:
            assert (await stream.finish(run_id)).state is State.OK
    with two.engine.history() as history:
        ran_on = [history.environment(two.engine.record(run_id).environment)["gpu_uuid"] for run_id in run_ids]
    assert ran_on == [f"{two.driver.uuid}-0", f"{two.driver.uuid}-1", f"{two.driver.uuid}-1", ""]


@pytest.mark.slow
async def test_a_run_of_two_ranks_waits_for_both_gpus_and_is_not_passed_by(two: TwoGpus) -> None:
    names = [two.target("one"), two.target("ranks", ranks=2), two.target("two")]
    async with two.engine.stream() as stream:
        run_ids = await two.plan(stream, *names)
        assert await two.running(stream, "one") == {"one": "cuda:0"}
        assert await two.queue(stream) == {
            "one": ("running", "cuda:0"), "ranks": ("planned", "cuda"), "two": ("planned", "cuda"),
        }  # fmt: skip
        two.let_go("one")
        assert await two.running(stream, "ranks") == {"ranks": "cuda"}
        workers = [worker.environ().get("CUDA_VISIBLE_DEVICES") for worker in two.engine.workers()]
        assert f"{two.driver.uuid}-0,{two.driver.uuid}-1" in workers
        two.let_go("ranks")
        assert "two" in await two.running(stream, "two")
        two.let_go("two")
        for run_id in run_ids:
            assert (await stream.finish(run_id)).state is State.OK


@pytest.mark.slow
async def test_a_lost_gpu_takes_only_its_slot_and_the_run_on_the_other_is_good(two: TwoGpus) -> None:
    names = [two.target("one"), two.target("two"), two.target("three")]
    async with two.engine.stream() as stream:
        one, other, third = await two.plan(stream, *names)
        await two.running(stream, "one", "two")
        two.driver.answers(
            "count 2", *(f"error.DeviceGet{call}.0 15" for call in (
                "MemoryInfo", "PowerUsage", "ClockInfo.sm", "ClockInfo.memory", "Temperature",
            )),
        )  # fmt: skip
        lost = await stream.finish(one)
        assert (lost.state, lost.reason.partition(";")[0]) == (
            State.INFRA_ERROR, "GPU 0 is lost (NVML 15: GPU is lost)",
        )  # fmt: skip
        banners = {event.key: event.text for event in stream.seen if isinstance(event, events.Banner)}
        assert banners["gpu 0"].startswith("GPU 0 is set aside: GPU 0 is lost")
        status = await stream.connection.status()
        assert status.gpu_note == ""
        assert [device.note for device in status.devices] == ["GPU 0 is lost (NVML 15: GPU is lost)", "", ""]
        assert (await two.queue(stream))["three"] == ("planned", "cuda"), "it waits for the GPU that is left"
        two.let_go("two", "three")
        assert (await stream.finish(other)).state is State.OK
        assert (await stream.finish(third)).state is State.OK
        ranks = two.target("ranks", ranks=2, held=False)
        (refused,) = await two.plan(stream, ranks)
        ended = await stream.finish(refused)
        assert (ended.state, ended.reason) == (
            State.UNAVAILABLE, "the GPU is set aside: GPU 0 is lost (NVML 15: GPU is lost)",
        )  # fmt: skip
        two.driver.answers("count 2")
        taken_back = await stream.until(events.Banner, lambda event: event.key == "gpu 0" and not event.text)
        assert taken_back.key == "gpu 0"
        status = await stream.connection.status()
        assert not any(device.note for device in status.devices)
        (again,) = await two.plan(stream, two.target("again", ranks=2, held=False))
        assert (await stream.finish(again)).state is State.OK


@pytest.mark.slow
async def test_a_save_goes_before_a_batch_on_the_slot_of_its_watch(two: TwoGpus) -> None:
    batch = [two.target(name) for name in ("one", "two", "three", "four")]
    saved = two.target("saved", held=False)
    async with watching(two.engine, two.home / "mine", saved) as watched:
        two.let_go("one")
        run_ids = await two.plan(watched.stream, *batch)
        await watched.stream.finish(run_ids[0])
        there = await two.running(watched.stream, "two", "three")
        assert set(there.values()) == {"cuda:0", "cuda:1"}
        edit = await watched.save("optimized.py", corpus.OPTIMIZED + "# saved\n")
        assert list(await two.queue(watched.stream))[2:] == ["saved", "four"]
        first = next(name for name, device in there.items() if device == "cuda:0")
        two.let_go(first)  # where the watch ran before
        assert (await watched.stream.finish(edit.run_id)).state is State.OK
        two.let_go("two", "three", "four")
        for run_id in run_ids:
            assert (await watched.stream.finish(run_id)).state is State.OK


@pytest.mark.slow
async def test_a_run_on_the_second_gpu_is_cancelled_and_the_first_goes_on(two: TwoGpus) -> None:
    names = [two.target("one"), two.target("two"), two.target("three")]
    async with two.engine.stream() as stream:
        one, other, third = await two.plan(stream, *names)
        await two.running(stream, "one", "two")
        await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=other))
        assert (await stream.finish(other)).state is State.CANCELLED
        assert await two.running(stream, "one", "three") == {"one": "cuda:0", "three": "cuda:1"}
        two.let_go("one", "three")
        assert [(await stream.finish(run_id)).state for run_id in (one, third)] == [State.OK, State.OK]


@pytest.mark.slow
async def test_processes_of_the_other_slot_are_no_neighbours(two: TwoGpus) -> None:
    two.driver.answers("count 2", "children 1048576")  # every process of the engine is on both GPUs
    names = [two.target("one"), two.target("two")]
    async with two.engine.stream() as stream:
        run_ids = await two.plan(stream, *names)
        await two.running(stream, "one", "two")
        two.let_go("one", "two")
        ended = [await stream.finish(run_id) for run_id in run_ids]
    assert [run.state for run in ended] == [State.OK, State.OK]
    assert not any(flag.startswith("contended") for run in ended for flag in run.flags)
