"""What a sample on a GPU is worth: each property of the protocol, shown by what goes wrong without it.

Every test compares two ways of measuring in one process, by factors that no noise makes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aisp.engine.telemetry import Nvml
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import State, Timing
from tests.engine.harness import EngineUnderTest, Result

NVML = Nvml()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not NVML.count, reason=f"no GPU here: {NVML.note}"),
    pytest.mark.xdist_group("gpu"),
    pytest.mark.timeout(300),
]

MB = 1 << 20


@pytest.fixture(scope="module")
def l2_bytes() -> int:
    import torch

    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def timer_of(l2_bytes: int, **options: Any) -> Any:
    from aisp.engine.worker.timers import CudaTimer

    return CudaTimer(l2_bytes, **options)


def median_ms(timer: Any, call: Callable[[], Any]) -> float:
    from aisp.engine.worker.timers import single

    return middle(counting(timer, single(call)))


def counting(timer: Any, launches: Any) -> list[Any]:
    """Warm samples that count, since in others the host's time may be; all of them where none does."""
    timer.warm_up(launches, lambda: None, 100.0)
    taken = [timer.sample(launches, lambda: None) for _ in range(31)]
    return [sample for sample in taken if not sample.discarded] or taken


def middle(samples: list[Any]) -> float:
    times_ms: list[float] = sorted(sample.device_ms for sample in samples)
    return times_ms[len(times_ms) // 2]


def test_a_cold_sample_reads_from_memory_and_a_warm_one_from_the_cache(l2_bytes: int) -> None:
    """Without the flush both would be the same."""
    import torch

    x = torch.randn(l2_bytes // 4 // 4, device="cuda")  # a quarter of the L2
    cold = median_ms(timer_of(l2_bytes), lambda: (x.sum(),))
    warm = median_ms(timer_of(l2_bytes, cache=Cache.WARM), lambda: (x.sum(),))
    assert cold > 1.15 * warm


def test_a_call_does_not_wait_for_what_the_flush_wrote(l2_bytes: int) -> None:
    """A kernel that reads 256 MB evicts as much of the flush as there is in the L2."""
    import torch

    x = torch.randn(64 << 20, device="cuda")
    clean = median_ms(timer_of(l2_bytes), lambda: (x.sum(),))
    dirty = median_ms(timer_of(l2_bytes, cache=Cache.DIRTY), lambda: (x.sum(),))
    assert clean < 0.97 * dirty


def test_a_sample_is_as_long_as_the_profiler_says(l2_bytes: int) -> None:
    import torch

    from aisp.checks import cupti
    from aisp.checks.cuda import spans_ms
    from aisp.engine.worker.timers import pair_ms, single, stand_ready

    beyond_ms = pair_ms(stand_ready(), l2_bytes)
    assert 0.001 < beyond_ms < 0.005
    timer = timer_of(l2_bytes, pair_ms=beyond_ms)
    for rows in (256, 2048):  # some 10 and 30 us
        x = torch.randn(rows, 8192, device="cuda")
        own_ms = median_ms(timer, lambda x=x: (x.sum(1),))
        with cupti.opened().recorded() as recording:
            for _ in range(15):
                timer.sample(single(lambda x=x: (x.sum(1),)), lambda: None)
            torch.cuda.synchronize()
        profiler_ms = sorted(spans_ms(recording.activities))[7]
        assert own_ms == pytest.approx(profiler_ms, rel=0.05, abs=0.0005)
        assert timer.overhead_ms == beyond_ms


def test_kernels_of_two_ranks_wait_for_each_other() -> None:
    import torch

    from aisp.engine.worker.probe import Hold, Meeting

    fd = os.memfd_create("page")
    first, second = Meeting(fd, 0, 2), Meeting(fd, 1, 2)
    ours, theirs = torch.cuda.Stream(), torch.cuda.Stream()
    gone = torch.cuda.Event()
    with torch.cuda.stream(ours):
        first.part()
        gone.record()
    time.sleep(0.05)
    assert not gone.query(), "it did not wait"
    with torch.cuda.stream(theirs):
        second.part()
    gone.synchronize()
    torch.cuda.synchronize()
    os.close(fd)
    fd = os.memfd_create("page")
    alone, start = Meeting(fd, 0, 1), time.perf_counter()
    assert Hold().launch(1.0, alone)
    torch.cuda.synchronize()
    assert 0.001 <= time.perf_counter() - start < 1.0
    assert alone.met.item() == 1
    os.close(fd)


def test_what_the_host_does_before_it_launches_is_not_in_the_number(l2_bytes: int) -> None:
    """Without the hold the 200 us of the host would be."""
    import torch

    x = torch.randn(256, device="cuda")

    def slow_host() -> tuple[Any, ...]:
        until = time.perf_counter() + 200e-6
        while time.perf_counter() < until:
            pass
        return (x + 1,)

    held, not_held = timer_of(l2_bytes), timer_of(l2_bytes, latency=True)
    assert median_ms(held, slow_host) < 0.02
    assert median_ms(not_held, slow_host) > 0.2
    assert (held.timing, not_held.timing) == (Timing.COLD, Timing.COLD_SYNC)


def test_a_call_that_waits_for_the_gpu_says_so(l2_bytes: int) -> None:
    import torch

    x = torch.randn(256, device="cuda")
    timer = timer_of(l2_bytes)
    median_ms(timer, lambda: (x * float(x.sum()),))
    assert timer.timing is Timing.COLD_SYNC


def test_the_clock_during_a_sample_is_the_drivers(l2_bytes: int) -> None:
    import torch

    from aisp.engine.worker.timers import single

    timer = timer_of(l2_bytes)
    shot = single(lambda: (torch.cuda._sleep(2_000_000),))
    timer.warm_up(shot, lambda: None, 100.0)
    found = [timer.sample(shot, lambda: None).sm_clock_mhz for _ in range(10)]
    most = NVML._nvml.nvmlDeviceGetMaxClockInfo(NVML._handles[0], NVML._nvml.NVML_CLOCK_SM)
    assert all(0.3 * most < mhz < 1.02 * most for mhz in found), (found, most)
    # 2 000 000 cycles of this clock are the time that was measured.
    sample = timer.sample(shot, lambda: None)
    assert sample.sm_clock_mhz * sample.device_ms * 1e3 == pytest.approx(2_000_000, rel=0.02)


@pytest.mark.parametrize("latency", [False, True])
def test_the_sms_timers_agree_with_the_events_and_their_cycles_are_those_of_the_kernel(
    l2_bytes: int, latency: bool
) -> None:
    import torch

    from aisp.checks.timing import PROBE_HOST_MS, PROBE_LEAST_MS, PROBE_SHARE
    from aisp.engine.worker.timers import single

    timer = timer_of(l2_bytes, latency=latency)
    shot = single(lambda: (torch.cuda._sleep(2_000_000),))
    timer.warm_up(shot, lambda: None, 100.0)
    found = [timer.sample(shot, lambda: None) for _ in range(31)]
    apart_ms = sorted(sample.probe_ms - sample.device_ms for sample in found)[15]
    host_ms = PROBE_HOST_MS if latency else 0.0
    assert abs(apart_ms) < PROBE_LEAST_MS + PROBE_SHARE * found[0].device_ms + host_ms
    assert sorted(sample.cycles for sample in found)[15] == pytest.approx(2_000_000, rel=0.05 if latency else 0.02)


def test_what_the_sms_read_around_nothing_and_the_step_of_their_timer_are_known(l2_bytes: int) -> None:
    import torch

    x = torch.randn(256, device="cuda")
    timer = timer_of(l2_bytes)
    median_ms(timer, lambda: (x + 1,))
    assert timer.probe_step_ms is not None and 0 < timer.probe_step_ms < 2
    assert timer.probe_overhead_ms is not None and 1e-3 < timer.probe_overhead_ms < 5e-2


def test_an_empty_pair_and_the_step_of_the_clock_are_known(l2_bytes: int) -> None:
    import torch

    x = torch.randn(256, device="cuda")
    timer = timer_of(l2_bytes)
    median_ms(timer, lambda: (x + 1,))
    assert 2e-4 < timer.overhead_ms < 1e-2
    assert 0 < timer.resolution_ms < 2e-3


def test_a_graph_of_several_calls_is_nearer_to_the_kernel_than_one_pair_of_events(l2_bytes: int) -> None:
    import torch

    from aisp.engine.worker.timers import single

    xs = [torch.randn(MB, device="cuda") for _ in range(16)]
    timer = timer_of(l2_bytes)
    alone = median_ms(timer, lambda: (xs[0] + 1,))
    shot = timer.graph([lambda x=x: (x + 1,) for x in xs])
    samples = counting(timer, shot)
    several = middle(samples)
    assert 0.2 * alone < several < alone
    assert timer.timing is Timing.COLD_GRAPH
    # Each call's own output, every time.
    assert all(bool((got[0] == x + 1).all()) for got, x in zip(samples[-1].outputs, xs, strict=True))
    # Launched one by one behind the hold: in between, and never with the host in it.
    from aisp.engine.worker.timers import batch

    batched = middle(counting(timer, batch([lambda x=x: (x + 1,) for x in xs])))
    assert several < 1.1 * batched
    assert batched < 1.1 * alone
    timer.warm_up(single(lambda: (xs[0] + 1,)), lambda: None, 100.0)
    assert timer.timing is Timing.COLD


def test_lines_that_a_kernel_asked_the_cache_to_keep_are_set_free(l2_bytes: int) -> None:
    import torch
    from cuda.bindings import driver

    from aisp.engine.worker.probe import free_persisting_lines

    torch.zeros(1, device="cuda")
    limit = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    status, before = driver.cuCtxGetLimit(limit)
    assert status == driver.CUresult.CUDA_SUCCESS
    try:
        driver.cuCtxSetLimit(limit, 0)
        assert not free_persisting_lines()  # no part of the cache is set aside: there is nothing to do
        driver.cuCtxSetLimit(limit, 4 * MB)
        assert free_persisting_lines()
    finally:
        driver.cuCtxSetLimit(limit, before)


# -- through the engine ------------------------------------------------------------------------------------------------

TINY = """\
+++
title = "A small sum on the device"
techniques = ["none"]
goal = "speed"
needs = { gpus = 1 }
axes = { N = 262144 }
flops = "N"
[inputs]
x = "float32 [N] normal"
w = "float32 [N] normal static"
[outputs]
y = "float32 [N]"
+++

# A small sum
"""
REFERENCE = "def run(x, w):\n    return x + w\n"
PLAIN = "def run(x, w):\n    return x + w\n"
TWICE = "def run(x, w):\n    return (x * 1.0) + w\n"
STALE = """kept = {}


def run(x, w):
    import torch

    # In a graph it computes nothing but hands back what it has.
    if torch.cuda.is_current_stream_capturing():
        return kept["y"]
    kept["y"] = x + w
    return kept["y"]
"""
PREPARED = """def prepare(x, w):
    doubled = w * 1.0

    def call(x, w):
        return x + doubled

    return call


def run(x, w):
    return x + w
"""


def tiny(folder: Path, rungs: dict[str, str], baseline: str = PLAIN) -> Path:
    folder.mkdir(parents=True)
    files = {"lesson.md": TINY, "reference.py": REFERENCE, "baseline.py": baseline, **rungs}
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


UNCAPTURABLE = """import torch


def run(x, w):
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("not here")
    return x + w
"""


async def result_of(engine: EngineUnderTest, folder: Path, **options: Any) -> Result:
    """One quick run of a target on the GPU."""
    return await engine.run(folder.parent, f"{folder.parent.name}:{folder.name}", quick=True, **options)


@pytest.fixture
async def engine(own: Callable[..., EngineUnderTest]) -> EngineUnderTest:
    made = own()
    await made.start()
    return made


async def test_short_calls_are_timed_as_graphs_and_every_call_is_checked(
    engine: EngineUnderTest, tmp_path: Path
) -> None:
    rungs = {"optimized.py": PLAIN, "optimized_prepared.py": PREPARED}
    result = await result_of(engine, tiny(tmp_path / "mine" / "tiny", rungs))
    for name in ("baseline", "optimized", "optimized_prepared"):
        arm = result.arm(name)
        assert (arm.state, arm.timing) == (State.OK, Timing.COLD_GRAPH), (name, result.record.flags)
        assert arm.calls is not None and 8 <= arm.calls <= 32
        assert arm.sm_clock_mhz is not None and 500 < arm.sm_clock_mhz < 4000
        assert arm.quality is not None and arm.quality.overhead_ms is not None and arm.quality.overhead_ms > 0
    comparison = next(c for c in result.record.comparisons if c.rung == "optimized")
    assert comparison.speedup is not None and 0.9 < comparison.speedup < 1.1  # they are the same


async def test_a_rung_that_computes_nothing_in_a_graph_gains_nothing_by_it(
    engine: EngineUnderTest, tmp_path: Path
) -> None:
    result = await result_of(engine, tiny(tmp_path / "mine" / "stale", {"optimized.py": STALE}))
    assert {arm.timing for arm in result.record.arms} == {Timing.COLD_BATCH}, result.record
    assert any("a replay leaves out what its calls do on the host" in flag for flag in result.record.flags)
    (comparison,) = result.record.comparisons
    assert comparison.speedup is not None and comparison.speedup < 1.1


async def test_a_call_of_two_kernels_is_not_put_into_a_graph_and_neither_are_its_rivals(
    engine: EngineUnderTest, tmp_path: Path
) -> None:
    result = await result_of(engine, tiny(tmp_path / "mine" / "two", {"optimized.py": PLAIN}, TWICE))
    assert {arm.timing for arm in result.record.arms} == {Timing.COLD_BATCH}, result.record
    assert any("a call is 2 kernels" in flag for flag in result.record.flags)
    (comparison,) = result.record.comparisons
    assert comparison.low is not None and comparison.low > 1.2, "a quick run of one replica comes to no verdict"
    assert comparison.speedup is not None and comparison.speedup < 3


async def test_a_rung_that_cannot_be_captured_is_timed_one_by_one_like_its_rivals(
    engine: EngineUnderTest, tmp_path: Path
) -> None:
    result = await result_of(engine, tiny(tmp_path / "mine" / "batch", {"optimized.py": UNCAPTURABLE}))
    assert {arm.timing for arm in result.record.arms} == {Timing.COLD_BATCH}, result.record
    assert any("not here" in flag for flag in result.record.flags)


async def test_warm_caches_are_faster_and_say_so(engine: EngineUnderTest, tmp_path: Path) -> None:
    folder = tiny(tmp_path / "mine" / "warm", {"optimized.py": PLAIN})
    cold = (await result_of(engine, folder)).arm("optimized")
    warm = (await result_of(engine, folder, cache=Cache.WARM)).arm("optimized")
    assert (cold.timing, warm.timing) == (Timing.COLD_GRAPH, Timing.WARM_GRAPH)
    assert cold.median_ms is not None and warm.median_ms is not None
    assert warm.median_ms < 0.95 * cold.median_ms


async def test_arms_that_run_one_after_the_other_are_compared_all_the_same(
    engine: EngineUnderTest, tmp_path: Path
) -> None:
    folder = tiny(tmp_path / "mine" / "alone", {"optimized.py": PLAIN}, TWICE)
    result = await result_of(engine, folder, interleave=False, replicas=2)
    (comparison,) = result.record.comparisons
    assert comparison.speedup is not None and comparison.speedup > 1.2
    assert "one after the other" in comparison.note and "one replica" not in comparison.note
