"""Measuring ceilings: the plan, the kernels, and an engine that gets through whatever happens to the process."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from aisp.engine import answers, client, job, lock, peaks, queue, server, slots, spawner
from aisp.engine.arms import Limits
from aisp.engine.planning import Hardware, PlanError
from aisp.engine.protocol import events, jobs, reports, requests
from aisp.engine.protocol.framing import Decoder, Encoder
from aisp.engine.services import Services
from aisp.engine.spawner import ChildGoneError, ChildTimeoutError
from aisp.engine.telemetry import Nvml, Readings
from aisp.engine.worker import peak as worker
from aisp.kernels.catalog.model import Needs
from aisp.kernels.cuda import CudaCompileError, compile_cubin
from aisp.store.errors import StoreError
from aisp.store.outcomes import Trigger
from aisp.store.record import Ceiling, Peak, Run, unplanned
from aisp.store.results.datasheets import datasheet
from aisp.store.results.speed_of_light import ALL_REDUCE, CEILINGS, PEER
from tests.engine.harness import EngineUnderTest

NVML = Nvml()
MB, GB = 1 << 20, 1 << 30


async def until(happened: Callable[[], bool]) -> None:
    """Wait for it, but not for ever."""
    async with asyncio.timeout(60):
        while True:
            if happened():
                return
            await asyncio.sleep(0.001)


# -- the plan ------------------------------------------------------------------------------------------------------


def plan(**changes: Any) -> list[reports.PeakItem]:
    """Of an H100, but for what the test changes."""
    given: dict[str, Any] = {"l2_bytes": 50 * MB, "free_bytes": 78 * GB, "sm": 90, "gpus": 1, "peer": False}
    return worker.plan(**(given | changes))


def sizes(items: list[reports.PeakItem], name: str) -> list[int]:
    return [item.footprint_bytes or 0 for item in items if item.name == name]


def test_the_plan_has_every_ceiling_in_the_documented_order() -> None:
    names = list(dict.fromkeys(item.name for item in plan()))
    assert names == list(CEILINGS)


def test_memory_is_measured_with_footprints_of_several_l2_sizes_and_a_large_one() -> None:
    for name in ("dram read", "dram write", "dram copy", "dram triad"):
        found = sizes(plan(), name)
        assert [round(size / (50 * MB), 2) for size in found[:3]] == [4, 8, 16]
        assert found[3] == pytest.approx(4 * GB, rel=1e-3)
        # Whole tiles for one buffer, two and three, with 8 vectors of 16 bytes a thread.
        assert all(size % (3 * 2 * 256 * 8 * 16) == 0 for size in found)
    assert sizes(plan(), "l2 read") == pytest.approx([12.5 * MB, 25 * MB], rel=0.02)


def test_a_small_or_full_gpu_is_asked_for_less() -> None:
    found = sizes(plan(free_bytes=2 * GB), "dram copy")
    assert max(found) <= 2 * GB // 8
    assert len(found) == len(set(found))
    assert min(sizes(plan(free_bytes=1 * MB), "dram read")) > 0


@pytest.mark.parametrize(
    ("changes", "name", "note"),
    [
        ({"sm": 86}, "fp8 dense", "needs sm_89; this GPU is sm_86"),
        ({"sm": 86}, "fp8 promoted dense", "needs sm_89; this GPU is sm_86"),
        *(({}, name, "needs 2 GPUs") for name in PEER),
        *(({"gpus": 2}, name, "the first two GPUs do not reach each other's memory") for name in PEER),
        *(({"gpus": 2, "peer": True}, name, "") for name in PEER),
        ({}, "nccl all-reduce", "needs 2 GPUs"),
        ({"gpus": 2}, "nccl all-reduce", ""),  # through host memory, where that is the only way
        ({"sm": 89}, "fp8 dense", ""),
        ({"l2_bytes": 0}, "l2 read", "the driver does not report the size of the L2"),
    ],
)
def test_what_a_gpu_cannot_do_is_planned_with_the_reason(changes: dict[str, Any], name: str, note: str) -> None:
    assert {item.note for item in plan(**changes) if item.name == name} == {note}


def test_an_all_reduce_is_measured_by_size() -> None:
    found = sizes(plan(gpus=8, peer=True), "nccl all-reduce")
    assert found == [8 << 10, 128 << 10, MB, 16 * MB, 256 * MB]
    assert worker.bus_bytes(MB, 2) == MB
    assert worker.bus_bytes(MB, 8) == 1.75 * MB


def test_every_ceiling_of_a_plan_is_measured_in_some_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: object) -> str:
        return "reached"

    for name in (
        *("_record", "_best", "_graph_node", "_eager", "_l2", "_product", "_link", "_peer", "_all_reduce"),
        *("_empty_ways", "_memory_ways"),
    ):
        monkeypatch.setattr(worker.Bench, name, reached)
    bench: Any = object.__new__(worker.Bench)  # no GPU is asked for
    items = plan(gpus=2, peer=True)
    assert {item.name for item in items} == set(CEILINGS) and not any(item.note for item in items)
    assert {bench.measure(item.name, item.footprint_bytes) for item in items} == {"reached"}
    with pytest.raises(worker.NotHereError, match="warp speed"):
        bench.measure("warp speed", None)
    assert set(CEILINGS.values()) == {"s", "bytes/s", "flop/s"}


# -- the kernels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.slow
def test_every_kernel_compiles_without_a_gpu(arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    entries = worker.entries()
    count = 1 + 4 * len(worker.VARIANTS) + len(worker.L2_UNROLLS) + len(worker.CHAINS)
    assert len(entries) == len(set(entries)) == count
    for entry in entries:
        cubin, name = compile_cubin(worker.kernel(entry), arch)
        assert cubin[:4] == b"\x7fELF" and name.encode() in cubin
    with pytest.raises(CudaCompileError):
        compile_cubin(worker.kernel("read<4>"), arch)


def test_a_job_and_its_reports_survive_the_way_between_processes() -> None:
    asked = [jobs.PlanPeak(), jobs.MeasureCeiling(name="dram read", footprint_bytes=4 * GB)]
    to_worker: Decoder[jobs.AnyJob] = Decoder(jobs.AnyJob)
    assert list(to_worker.feed(b"".join(Encoder().frame(job) for job in asked))) == asked
    told: list[reports.AnyReport] = [
        reports.PeakPlan(items=plan()),
        reports.CeilingMeasured(name="launch empty", value=2.3e-6, sm_clock_mhz=1980.0, note="best of 2"),
    ]
    to_engine: Decoder[reports.AnyReport] = Decoder(reports.AnyReport)
    assert list(to_engine.feed(b"".join(Encoder().frame(report) for report in told))) == told


@pytest.mark.skipif(NVML.count > 0, reason="there is a GPU here")
@pytest.mark.slow
async def test_a_process_without_a_gpu_says_so_and_lives_on() -> None:
    child = await spawner.spawn(interpret=False)
    try:
        await spawner.until_ready(child)
        for job in (jobs.PlanPeak(), jobs.MeasureCeiling(name="dram read", footprint_bytes=GB)):
            answer = await child.ask(job, 60.0)
            assert isinstance(answer, reports.Failed)
            assert answer.kind == "unsupported"
            assert "no GPU" in answer.summary and answer.traceback == ""
        assert isinstance(await child.ask(jobs.Finish(), 10.0), reports.Done)
    finally:
        await child.end(gently=False)


# -- taking times, with a GPU's clock in the test's hand ------------------------------------------------------------


class FakeGpu:
    """A clock in ms that kernels move on, and PyTorch's events over it: each record takes 1 us."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        self.now_ms = 0.0
        self.holds: list[int] = []
        self.leaks: list[bool] = []  # whether the host was too late, for the next repetitions
        self.lost = False
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                self.at_ms = 0.0

            def record(self) -> None:
                gpu.now_ms += 0.001
                self.at_ms = gpu.now_ms

            def query(self) -> bool:
                return gpu.leaks.pop(0) if gpu.leaks else False

            def elapsed_time(self, end: Event) -> float:
                return end.at_ms - self.at_ms

        class Properties:
            major, minor, multi_processor_count, L2_cache_size = 9, 0, 132, 50 * MB

        def synchronize() -> None:
            if gpu.lost:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")

        fakes: dict[str, Any] = {
            "is_available": lambda: True,
            "get_device_properties": lambda index: Properties,
            "Event": Event,
            "_sleep": self.holds.append,
            "synchronize": synchronize,
            "empty_cache": lambda: None,
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        self.bench = worker.Bench()

    def way(self, name: str, *durations_ms: float) -> worker.Way:
        """Work whose calls take these times in turn."""
        turn = itertools.cycle(durations_ms)

        def call() -> None:
            self.now_ms += next(turn)

        return worker.Way(name, call, lambda: None)

    def best(self, *ways: worker.Way) -> worker.Best:
        return self.bench._best(iter(ways))


def broken(name: str, error: Exception) -> worker.Way:
    def call() -> None:
        raise error

    return worker.Way(name, call, lambda: None)


def test_a_time_is_the_median_without_what_an_empty_event_pair_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(monkeypatch)
    assert gpu.best(gpu.way("nothing", 0.0)).seconds == pytest.approx(1e-7)  # a time is never 0
    found = gpu.best(gpu.way("with spikes", 2.0, 2.0, 2.0, 2.0, 50.0))
    assert found.seconds == pytest.approx(2.0e-3, rel=1e-9)
    assert (found.sm_clock_mhz, found.problem) == (None, "")  # no counters here: unknown, not 0


def test_the_best_of_several_ways_is_the_ceiling_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(monkeypatch)
    found = gpu.best(gpu.way("slow", 3.0), gpu.way("fast", 2.0), gpu.way("fast once", 9.0, 9.0, 9.0, 0.1))
    assert (found.name, found.ways) == ("fast", 3)
    assert found.seconds == pytest.approx(2.0e-3)
    told = gpu.bench._record("dram read", found, lambda best: 6e9 / best.seconds, 6_000_000_000)
    assert told.value == pytest.approx(3.0e12)
    assert told.footprint_bytes == 6_000_000_000
    assert told.note == "best of 3: fast"


def test_a_way_that_is_closed_here_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(monkeypatch)
    no_compiler = broken(f"{worker.OWN}x", CudaCompileError("NVRTC is missing"))
    found = gpu.best(no_compiler, gpu.way("torch.sum", 2.0))
    assert (found.name, found.ways) == ("torch.sum", 1)
    told = gpu.bench._record("dram read", found, lambda best: 1 / best.seconds)
    assert "our own kernels could not be used" in told.note and "NVRTC is missing" in told.note
    assert "own" not in gpu.bench._record("bf16 dense", gpu.best(gpu.way("matmul", 1.0)), lambda best: 1.0).note
    with pytest.raises(CudaCompileError):
        gpu.best(no_compiler)
    gpu.lost = True
    with pytest.raises(RuntimeError, match="illegal memory access"):
        gpu.best(no_compiler, gpu.way("torch.sum", 2.0))


def test_a_repetition_whose_hold_was_too_short_is_taken_again_with_a_longer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = FakeGpu(monkeypatch)
    calls: list[int] = []
    before = gpu.holds[-1]
    gpu.holds.clear()
    gpu.leaks = [True, True, False]
    gpu.bench._once(lambda: None, lambda: calls.append(1))
    assert gpu.holds == [before, 2 * before, 4 * before]
    assert len(calls) == 3


def test_two_sets_of_buffers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a footprint of a few L2 sizes would partly be found in the L2."""
    import torch

    gpu = FakeGpu(monkeypatch)
    made: list[int] = []
    empty = torch.empty

    def make(count: int, *, device: str) -> Any:
        made.append(count * 4)
        return empty(count)

    monkeypatch.setattr(torch, "empty", make)
    monkeypatch.setattr(torch, "zeros", lambda count, **_: empty(count, dtype=torch.int32))
    footprint = 2 * 3 * 2 * 256 * 8 * 16
    for what, buffers in (("read", 1), ("write", 1), ("copy", 2), ("triad", 3)):
        made.clear()
        touched: list[Any] = []
        monkeypatch.setattr(gpu.bench, "_launch", lambda entry, grid, *held, seen=touched: seen.append((entry, held)))
        ways = list(gpu.bench._memory_ways(what, footprint))
        assert made == [footprint // buffers] * (2 * buffers)
        own = [way for way in ways if way.name.startswith(worker.OWN)]
        assert len(own) >= len(worker.VARIANTS) and len(ways) > len(own)
        for way in own:
            touched.clear()
            way.before()
            way.call()
            (first, other), (second, timed) = touched
            assert first == second and first.startswith(f"{what}<")
            addresses = [{held.data_ptr() for held in part[:buffers]} for part in (other, timed)]
            assert len(addresses[0]) == buffers and not addresses[0] & addresses[1]
        for way in ways:
            if way not in own:
                way.before()
                way.call()


# -- the engine's side ---------------------------------------------------------------------------------------------

READY = reports.Ready(
    pid=1, torch="2", cuda="13", gpu_name="NVIDIA H100 80GB HBM3", gpu_uuid="GPU-1", sm=90, l2_bytes=50 * MB
)
ITEMS = [
    reports.PeakItem(name="launch empty"),
    reports.PeakItem(name="dram read", footprint_bytes=GB),
    reports.PeakItem(name="dram copy", footprint_bytes=GB),
    reports.PeakItem(name="peer copy", note="needs 2 GPUs"),
    reports.PeakItem(name="bf16 dense"),
]
VALUES = {"launch empty": 2.0e-6, "dram read": 3.1e12, "dram copy": 3.0e12, "bf16 dense": 750e12}
Answer = Callable[[jobs.MeasureCeiling], reports.AnyReport]


def honest(job: jobs.MeasureCeiling) -> reports.AnyReport:
    return reports.CeilingMeasured(
        name=job.name, value=VALUES[job.name], sm_clock_mhz=1755.0, footprint_bytes=job.footprint_bytes, note="one way"
    )


class FakeChild:
    """A process that answers as a test wants it to, by the ceiling's name; dead where the answer is an exception."""

    def __init__(self, answers: dict[str, Answer | Exception], items: list[reports.PeakItem]) -> None:
        self.ready = READY
        self.stderr = spawner.Ring()
        self.asked: list[str] = []
        self.ended = False
        self._answers = answers
        self._items = items

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.AnyReport:
        assert not self.ended, "asked after its end"
        if isinstance(job, jobs.PlanPeak):
            return reports.PeakPlan(items=self._items)
        assert isinstance(job, jobs.MeasureCeiling)
        self.asked.append(job.name)
        await asyncio.sleep(0.001)
        answer = self._answers.get(job.name, honest)
        if isinstance(answer, Exception):
            raise answer
        return answer(job)

    async def wait(self, patience_s: float) -> int | None:
        return -11

    async def end(self, *, gently: bool = True) -> int | None:
        self.ended = True
        return -9


class FakePool:
    """Hands out fake processes, and knows whether others may be started."""

    def __init__(self, answers: dict[str, Answer | Exception], items: list[reports.PeakItem]) -> None:
        self.made: list[FakeChild] = []
        self.is_quiet = False
        self.warm = 0
        self.target = 0
        self._answers = answers
        self._items = items

    async def take(self, *, interpret: bool, compiler: bool = False, reads: bool = False) -> FakeChild:
        assert self.is_quiet and not interpret and not reads
        self.made.append(FakeChild(self._answers, self._items))
        return self.made[-1]

    @contextmanager
    def quiet(self) -> Iterator[None]:
        self.is_quiet = True
        yield
        self.is_quiet = False


class FakeNvml:
    """One GPU whose memory runs at 2619 MHz."""

    driver = "580"
    count = 1
    note = ""

    def devices(self) -> list[events.Device]:
        return [events.Device(index=0, name="NVIDIA H100 80GB HBM3", uuid="GPU-1")]

    def lost(self, gpu: int) -> str:
        return ""

    def users(self, gpu: int) -> None:
        return None

    def read(self, gpu: int, into: Readings) -> bool:
        into.at_ns.append(1)
        for name, value in (("sm_clock_mhz", 1980.0), ("memory_clock_mhz", 2619.0), ("temperature_c", 40.0)):
            getattr(into, name).append(value)
        into.power_w.append(300.0)
        into.throttle.append(0)
        return True


class Bed:
    """Services of a fake engine, and what reached its clients and its store."""

    def __init__(
        self,
        answers: dict[str, Answer | Exception] | None = None,
        items: list[reports.PeakItem] | None = None,
        store_error: StoreError | None = None,
    ) -> None:
        self.pool = FakePool(answers or {}, ITEMS if items is None else items)
        self.told: list[events.Event] = []
        self.stored: list[Peak] = []
        self._store_error = store_error
        self.services = Services(
            publish=self.told.append,
            store=self._store,
            pool=self.pool,  # type: ignore[arg-type]
            nvml=FakeNvml(),  # type: ignore[arg-type]
            snapshots_dir=Path("/nonexistent"),
            limits=Limits(progress_s=1.0),
        )

    async def _store(self, work: Callable[[Any], Any]) -> Any:
        return work(self)

    def put_environment(self, described: dict[str, object]) -> str:
        assert described["gpu"] == "NVIDIA H100 80GB HBM3"
        return "environment's hash"

    def put_peak(self, peak: Peak) -> None:
        if self._store_error is not None:
            raise self._store_error
        self.stored.append(peak)

    async def measure(self) -> Peak | None:
        found = await peaks.measure(self.services, "01PEAK")
        assert all(child.ended for child in self.pool.made), "a process was left behind"
        return found

    @property
    def ceilings(self) -> list[Ceiling]:
        return [event.ceiling for event in self.told if isinstance(event, events.PeakCeiling)]

    @property
    def positions(self) -> list[tuple[int, int]]:
        return [(event.position, event.count) for event in self.told if isinstance(event, events.PeakCeiling)]

    @property
    def reason(self) -> str:
        """Of the one end that was told, which must be the last word about it."""
        ours = [event for event in self.told if isinstance(event, (events.PeakCeiling, events.PeakFinished))]
        (end,) = (event for event in ours if isinstance(event, events.PeakFinished))
        assert ours[-1] is end and end.peak_id == "01PEAK"
        return end.reason


async def test_ceilings_are_told_one_by_one_and_stored_whole() -> None:
    bed = Bed()
    found = await bed.measure()
    assert found is not None and bed.stored == [found]
    assert (found.id, found.gpu, found.gpu_uuid) == ("01PEAK", "NVIDIA H100 80GB HBM3", "GPU-1")
    assert found.environment == "environment's hash"
    assert [(c.name, c.value, c.unit, c.footprint_bytes) for c in found.ceilings] == [
        ("launch empty", 2.0e-6, "s", None),
        ("dram read", 3.1e12, "bytes/s", GB),
        ("dram copy", 3.0e12, "bytes/s", GB),
        ("peer copy", None, "bytes/s", None),
        ("bf16 dense", 750e12, "flop/s", None),
    ]
    assert {c.sm_clock_mhz for c in found.ceilings if c.value} == {1755.0}
    assert {c.memory_clock_mhz for c in found.ceilings if c.value} == {2619.0}
    assert bed.ceilings == list(found.ceilings)
    assert bed.positions == [(position, 5) for position in range(1, 6)]
    assert bed.ceilings[3].note == "needs 2 GPUs"
    assert bed.reason == ""
    assert bed.pool.made[0].asked == ["launch empty", "dram read", "dram copy", "bf16 dense"]
    assert len(bed.pool.made) == 1
    assert any(isinstance(event, events.TelemetryBatch) for event in bed.told)


def failing(kind: str) -> Answer:
    return lambda job: reports.Failed(job="MeasureCeiling", kind=kind, summary="it broke", traceback="")


@pytest.mark.parametrize(
    ("answer", "note", "processes"),
    [
        (failing("user"), "it broke", 1),
        (failing("memory"), "ran out of memory", 1),
        (failing("unsupported"), "it broke", 1),
        (failing("poisoned"), "CUDA context is lost", 2),
        (ChildGoneError("closed"), "died of SIGSEGV", 2),
        (ChildTimeoutError("no sign of progress for 1 s"), "no sign of progress", 2),
        (lambda job: reports.CeilingMeasured(name=job.name, value=math.nan), "which no GPU does", 1),
        (lambda job: reports.CeilingMeasured(name="bf16 dense", value=1.0), "which no GPU does", 1),
    ],
)
async def test_a_ceiling_that_fails_leaves_its_reason_and_the_rest_is_measured(
    answer: Answer | Exception, note: str, processes: int
) -> None:
    bed = Bed({"dram read": answer})
    found = await bed.measure()
    assert found is not None and bed.reason == ""
    by_name = {ceiling.name: ceiling for ceiling in found.ceilings}
    assert by_name["dram read"].value is None
    assert note in by_name["dram read"].note
    assert by_name["dram read"].footprint_bytes == GB
    assert (by_name["dram copy"].value, by_name["bf16 dense"].value) == (3.0e12, 750e12)
    assert len(bed.pool.made) == processes
    assert [event.value for event in bed.ceilings] == [ceiling.value for ceiling in found.ceilings]


async def test_a_gpu_on_which_every_process_dies_is_not_asked_for_ever() -> None:
    gone = ChildGoneError("closed")
    items = [reports.PeakItem(name="dram read", footprint_bytes=size * GB) for size in range(1, 9)]
    bed = Bed({"dram read": gone}, items)
    assert await bed.measure() is None
    assert len(bed.pool.made) == peaks.MOST_DEATHS
    assert bed.stored == []
    assert "no ceiling could be measured" in bed.reason and "SIGSEGV" in bed.reason
    assert "not tried" in bed.ceilings[-1].note


@pytest.mark.parametrize(
    "items", [[], [reports.PeakItem(name="warp speed")], [reports.PeakItem(name="peer copy", note="needs 2 GPUs")]]
)
async def test_nothing_is_stored_of_a_plan_without_ceilings(items: list[reports.PeakItem]) -> None:
    bed = Bed(items=items)
    assert await bed.measure() is None
    assert bed.stored == []
    assert bed.reason != ""


async def test_a_peak_that_cannot_be_stored_says_so() -> None:
    bed = Bed(store_error=StoreError("the disk is gone"))
    assert await bed.measure() is None
    assert "could not be stored: the disk is gone" in bed.reason


async def test_cancelling_ends_the_process_and_stores_nothing() -> None:
    bed = Bed()
    task = asyncio.create_task(bed.measure())
    await until(lambda: bool(bed.ceilings))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bed.pool.made[0].ended
    assert bed.stored == []
    assert not any(isinstance(event, events.PeakFinished) for event in bed.told)  # its caller tells


# -- in the queue --------------------------------------------------------------------------------------------------


@dataclass
class Asked:
    """An engine's queue without sockets and store, and what it tells."""

    queue: queue.Queue
    answers: answers.Answers
    told: list[events.Event]

    async def ask(self, request: requests.AnyRequest) -> events.Reply:
        """As a client does."""
        return await self.answers.carry_out(request)

    @property
    def items(self) -> list[events.QueueItem]:
        """The queue, as a client sees it."""
        status = self.answers.now(requests.GetStatus(seq=1))
        assert isinstance(status, events.Status)
        return status.queue


@asynccontextmanager
async def an_engine(monkeypatch: pytest.MonkeyPatch, home: Path, *, gpus: int, note: str = "") -> AsyncIterator[Asked]:
    """An engine on a machine with so many GPUs, whose slots take turns."""
    monkeypatch.setenv("AISP_STATE", str(home / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    first = FakeNvml().devices()[0] if gpus else None
    devices = tuple(msgspec.structs.replace(first, index=gpu, uuid=f"GPU-{home.name}-{gpu}") for gpu in range(gpus))
    usable = tuple((device.index, device.uuid) for device in devices)
    hardware = Hardware(devices, gpus, 90 if gpus else None, note, 0, usable)
    monkeypatch.setattr(Hardware, "find", lambda nvml: hardware)
    monkeypatch.setattr(slots.Machine, "find", lambda *_: slots.Machine((frozenset({0}), frozenset({1}))))
    descriptor = lock.take()
    assert descriptor is not None
    held = lock.Lock(descriptor)
    engine = server.Engine(held)
    told: list[events.Event] = []
    publish = engine._broadcast.publish

    def tell(event: events.Event) -> None:
        told.append(event)
        publish(event)

    monkeypatch.setattr(engine._broadcast, "publish", tell)
    work = asyncio.create_task(engine._queue.work())
    try:
        yield Asked(engine._queue, engine._answers, told)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await engine._queue.close()
        engine._journal.close()
        held.close()


def a_peak(peak_id: str) -> Peak:
    return Peak(peak_id, "NVIDIA H100 80GB HBM3", "GPU-1", "2026-01-01T00:00:00.000+00:00", "")


async def test_a_request_without_a_gpu_is_refused_in_the_drivers_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with an_engine(monkeypatch, tmp_path, gpus=0, note="NVML 9: Driver Not Loaded") as engine:
        with pytest.raises(PlanError, match="NVML 9: Driver Not Loaded"):
            await engine.ask(requests.MeasurePeak(seq=1))
        assert engine.items == []
        assert engine.told == []


async def test_a_gpu_that_was_set_aside_is_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with an_engine(monkeypatch, tmp_path, gpus=1) as engine:
        engine.queue.slots.set_aside[0] = "it fell off the bus"
        with pytest.raises(PlanError, match="fell off the bus"):
            await engine.ask(requests.MeasurePeak(seq=1))


async def test_a_measurement_is_in_the_queue_once_and_reaches_later_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Services] = []
    go_on = asyncio.Event()

    async def measure(services: Services, peak_id: str) -> Peak:
        given.append(services)
        await go_on.wait()
        return a_peak(peak_id)

    monkeypatch.setattr(peaks, "measure", measure)
    async with an_engine(monkeypatch, tmp_path, gpus=1) as engine:
        reply = await engine.ask(requests.MeasurePeak(seq=1))
        (peak_id,) = reply.run_ids
        assert [(item.target, item.run_id, item.state) for item in engine.items] == [("peak", peak_id, "planned")]
        await until(lambda: bool(given))
        assert [item.state for item in engine.items] == ["running"]
        again = await engine.ask(requests.MeasurePeak(seq=2))
        assert (again.run_ids, again.joined) == ([peak_id], [peak_id])
        stop = await engine.ask(requests.Shutdown(seq=3, when_idle=True))
        assert stop.detail == "stops after the ceilings are measured"
        assert given[0].peak is None
        go_on.set()
        await until(lambda: not engine.queue.busy)
        assert given[0].peak == a_peak(peak_id)
        assert len(given) == 1
        assert engine.items == []


@pytest.mark.parametrize("begun", [False, True])
async def test_a_measurement_can_be_cancelled_before_and_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, begun: bool
) -> None:
    under_way = asyncio.Event()

    async def measure(services: Services, peak_id: str) -> Peak:
        under_way.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(peaks, "measure", measure)
    async with an_engine(monkeypatch, tmp_path, gpus=1) as engine:
        (peak_id,) = (await engine.ask(requests.MeasurePeak(seq=1))).run_ids
        if begun:
            await under_way.wait()
        reply = await engine.ask(requests.Cancel(seq=2, run_id=peak_id))
        assert reply.run_ids == [peak_id]
        await until(lambda: not engine.queue.busy)
        (end,) = (event for event in engine.told if isinstance(event, events.PeakFinished))
        assert end.peak_id == peak_id and end.reason.startswith("cancelled")
        assert engine.queue.slots.usual.services.peak is None
        assert under_way.is_set() == begun


async def test_nothing_is_measured_beside_the_ceilings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that was planned first goes first; one planned meanwhile waits."""
    order: list[str] = []
    busy = 0

    class Execution:
        def __init__(self, plan: Any, services: Services) -> None:
            self.name = plan.id

        async def run(self) -> Run:
            await alone(self.name)
            return unplanned(self.name)

        def written(self) -> dict[str, str]:
            return {}

    async def alone(name: str) -> None:
        nonlocal busy
        busy += 1
        assert busy == 1, "two at once"
        order.append(name)
        await asyncio.sleep(0.005)
        busy -= 1

    async def measure(services: Services, peak_id: str) -> Peak:
        await alone("peak")
        return a_peak(peak_id)

    def planned(name: str) -> Any:
        record = SimpleNamespace(
            target="w:scaled", folder=b"", title="", trigger=Trigger.CLI, quick=True, snapshot=name
        )
        target = SimpleNamespace(id="w:scaled", folder="", ranks=1, needs=Needs())
        return SimpleNamespace(id=name, record=record, device="cpu", problem="", files={}, rungs=(), target=target)

    monkeypatch.setattr(peaks, "measure", measure)
    monkeypatch.setattr(job, "Execution", Execution)
    async with an_engine(monkeypatch, tmp_path, gpus=1) as engine:
        for name in ("first run", "second run"):
            engine.queue.add(job.RunJob(planned(name), engine.queue.slots.usual.services), warm=False)
        await until(lambda: bool(order))
        await engine.ask(requests.MeasurePeak(seq=1))
        await until(lambda: not engine.queue.busy)
        assert order == ["first run", "peak", "second run"]


@pytest.mark.skipif(NVML.count > 0, reason="there is a GPU here")
async def test_a_client_is_told_why_there_are_no_ceilings_here(shared: EngineUnderTest) -> None:
    async with await client.connect(start=False) as connection:
        reply = await connection.request(requests.MeasurePeak(seq=connection.next_seq()))
        status = await connection.status()
    assert reply.error == f"ceilings need a GPU: {status.gpu_note}"
    assert status.gpu_note and reply.run_ids == []


# -- on a GPU ------------------------------------------------------------------------------------------------------

gpu = pytest.mark.skipif(not NVML.count, reason=f"no GPU here: {NVML.note}")


@pytest.mark.gpu
@gpu
@pytest.mark.xdist_group("gpu")
@pytest.mark.timeout(600)
async def test_a_gpu_reaches_a_plausible_share_of_its_datasheet(own: Callable[..., EngineUnderTest]) -> None:
    engine = own(AISP_PROGRESS_LIMIT_S="60", AISP_TOTAL_LIMIT_S="600")
    await engine.start()
    async with engine.stream() as stream:
        reply = await stream.ask(requests.MeasurePeak(seq=stream.connection.next_seq()))
        peak_id = reply.run_ids[0]  # of the first GPU
        end = await stream.until(events.PeakFinished, lambda e: e.peak_id == peak_id, patience_s=540)
        told = [event.ceiling for event in stream.seen if isinstance(event, events.PeakCeiling)]
    assert end.reason == ""
    for c in told:
        print(f"{c.name:18} {c.footprint_bytes or 0:>12} {c.value} {c.unit} SM {c.sm_clock_mhz} "
              f"memory {c.memory_clock_mhz} {c.note}")  # fmt: skip
    with engine.history() as history:
        found = history.peak(peak_id)
        assert found is not None
        assert [p.id for p in history.peaks(found.gpu_uuid)] == [peak_id]
    assert [(c.name, c.value) for c in found.ceilings] == [(e.name, e.value) for e in told]
    missing = [c.name for c in found.ceilings if c.value is None]
    assert set(missing) <= {*PEER, ALL_REDUCE, "fp8 dense", "fp8 promoted dense", "int8 dense"}, [
        c.note for c in found.ceilings if c.value is None
    ]
    assert all("could not be used" not in c.note for c in found.ceilings)
    for ceiling in found.ceilings:
        if ceiling.value is not None and ceiling.name.startswith(("dram", "l2")):
            assert ceiling.sm_clock_mhz is not None and 100 < ceiling.sm_clock_mhz < 4000
            assert ceiling.memory_clock_mhz is not None
    best = {name: top.value or 0.0 for name in CEILINGS if (top := found.ceiling(name)) is not None}
    assert 0.5e-6 < best["launch empty"] < 20e-6
    assert 0.2e-6 < best["launch graph node"] < best["launch empty"] * 1.5
    assert 0.5e-6 < best["launch eager"] < 100e-6
    assert best["l2 read"] > best["dram read"]
    for link in ("pcie h2d pinned", "pcie d2h pinned", "pcie h2d pageable", "pcie d2h pageable"):
        assert 0.5e9 < best[link] < 200e9
    sheet = datasheet(found.gpu)
    if sheet is None:
        pytest.skip(f"{found.gpu} has no datasheet here")
    for name in ("dram read", "dram copy", "dram triad", "dram write"):
        assert 0.5 < best[name] / sheet.memory_bytes_per_s < 1.05, name
    for precision, rate in sheet.rates.items():
        if (value := best.get(f"{precision} dense")) is not None:
            clock = sheet.clock_mhz(precision)
            ran = found.ceiling(f"{precision} dense")
            assert ran is not None
            # Above the boost clock that was printed a GPU may be faster than printed; per cycle it may not.
            scale = max(1.0, (ran.sm_clock_mhz or 0.0) / clock) if clock else 1.0
            least = 0.25 if precision == "int8" else 0.5  # PyTorch's one int8 product is not a tuned one
            assert least < value / rate < 1.05 * scale, precision


@pytest.mark.gpu
@gpu
@pytest.mark.xdist_group("gpu")
def test_the_kernels_do_what_their_ceilings_count() -> None:
    import numpy as np
    import torch

    from aisp.kernels.cuda import launch

    bench = worker._bench()
    assert bench._probe.note == ""
    count = 3 * 2 * worker.THREADS * 8 * 4
    x, y = (torch.randn(count, device="cuda") for _ in range(2))
    for unroll, streaming in worker.VARIANTS:
        tiles = count * 4 // (worker.THREADS * unroll * 16)
        named = f"<{unroll}, {str(streaming).lower()}>"
        for grid in (tiles, 5):  # one tile a block, and few blocks going round
            z = torch.zeros_like(x)
            launch(worker.kernel(f"copy{named}"), grid, worker.THREADS, x, z, np.int64(tiles))
            assert torch.equal(x, z)
            launch(worker.kernel(f"triad{named}"), grid, worker.THREADS, x, y, z, np.int64(tiles), np.float32(3.0))
            torch.testing.assert_close(z, 3.0 * x + y)
            launch(worker.kernel(f"write{named}"), grid, worker.THREADS, z, np.int64(tiles), np.uint32(7))
            expected = torch.tensor([7, 8, 9, 10], dtype=torch.int32, device="cuda").repeat(count // 4)
            assert torch.equal(z.view(torch.int32), expected)
            # A reader that sees every vector finds the one that makes its sum the word it looks for.
            marked = torch.zeros(count, dtype=torch.int32, device="cuda")
            word = 0x9E3779B9 - (1 << 32)
            for at in (0, count // 2, count - 1):
                marked.zero_()
                marked[at] = word
                sink = torch.zeros(1, dtype=torch.int32, device="cuda")
                launch(worker.kernel(f"read{named}"), grid, worker.THREADS, marked, np.int64(tiles), sink)
                assert sink.item() == word, at
    for unroll in worker.L2_UNROLLS:
        tiles = count * 4 // (worker.THREADS * unroll * 16)
        marked = torch.zeros(count, dtype=torch.int32, device="cuda")
        marked[count - 1] = 0x9E3779B9 - (1 << 32)
        sink = torch.zeros(1, dtype=torch.int32, device="cuda")
        arguments = (marked, np.uint32(tiles), np.uint32(3), sink)
        launch(worker.kernel(f"read_l2<{unroll}>"), 7, worker.THREADS, *arguments)
        assert sink.item() == marked[count - 1].item()
    for chains in worker.CHAINS:
        out = torch.zeros(3 * worker.THREADS, device="cuda")
        arguments = (np.uint32(40), np.float32(-0.999), np.float32(0.7), out)
        launch(worker.kernel(f"multiply_adds<{chains}>"), 3, worker.THREADS, *arguments)
        v = 0.7 * (np.arange(worker.THREADS)[:, None] + np.arange(chains))
        for _ in range(40):
            v = -0.999 * v + 0.7
        expected = torch.from_numpy(np.tile(v.sum(1), 3)).float().cuda()
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-2)
