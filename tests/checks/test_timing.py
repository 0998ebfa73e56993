"""Every judge of times: what honest samples say, noise included, and what each cheat makes them say."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.checks import registry, timing
from aisp.checks.registry import ArmFacts, Call, Facts, RunFacts, Sensor, Site, Status, Sustained
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import Limiter, State, Timing
from aisp.store.record import Quality
from aisp.store.samples import Samples, Telemetry
from tests.checks.oracle.targets import target as oracle_target
from tests.checks.sensed import plain, replica
from tests.imported import python
from tests.replacing import replace

GALLERY = Path(__file__).resolve().parents[2] / "checks" / "gallery"
FIXTURES = sorted(folder for folder in (GALLERY / "timing").iterdir() if folder.is_dir())


def target_of(folder: Path) -> Target:
    found = catalog.load_target(folder, root=GALLERY, chapter=folder.parent.name)
    assert isinstance(found, Target), [str(problem) for problem in found]
    return found


TARGET = target_of(GALLERY / "timing" / "unsynced_streams")


def arm_of(*processes: dict[str, Any], **facts: Any) -> ArmFacts:
    known: dict[str, Any] = {"device": "cuda", "timing": Timing.COLD, "median_ms": 1.0}
    told = tuple(replica(**process) for process in processes)
    return ArmFacts(
        "optimized", TARGET.rung("optimized"), ended_well=True, state=State.OK, sensed=told, **known | facts
    )


def run_of(*arms: ArmFacts, **facts: Any) -> RunFacts:
    return RunFacts(TARGET, TARGET.case("default"), "cuda", False, arms, **facts)


RUN = run_of()


# -- what is still at work ---------------------------------------------------------------------------------------------


def idle(**facts: float | None) -> dict[str, Any]:
    known: dict[str, float | None] = {
        "samples": 200,
        "total_ms": 1.0,
        "beside_ms": 0.0,
        "left_ms": 0.0,
        "lag_ms": 0.012,
        "usual_lag_ms": 0.010,
    }
    return {"idle": known | facts}


def test_an_idle_device_after_every_sample_is_honest() -> None:
    status, evidence = timing.device_idle(arm_of(idle(), idle(lag_ms=0.02)), RUN)
    assert (status, "20 us after" in evidence) == (Status.PASSED, True)


@pytest.mark.parametrize(
    "noise",
    [
        {"lag_ms": 0.055},  # a busy host
        {"lag_ms": 0.9, "total_ms": 20.0},  # under a tenth of what was claimed
        {"left_ms": 0.1, "beside_ms": 0.15},
        {"beside_ms": 3.0, "total_ms": 20.0},
    ],
)
def test_noise_on_a_loaded_host_is_not_work(noise: dict[str, float]) -> None:
    assert timing.device_idle(arm_of(idle(**noise), idle(**noise)), RUN)[0] is Status.PASSED


@pytest.mark.parametrize(
    ("cheat", "words"),
    [
        ({"lag_ms": 1.4, "total_ms": 0.002}, "the device worked on for 1.39 ms after a timed stream that took 2 us"),
        ({"left_ms": 1.0, "total_ms": 0.05}, "threads that began during the call stayed for 1 ms and more"),
        ({"beside_ms": 4.0, "total_ms": 0.05}, "Python threads worked 4 ms per sample while no clock ran"),
    ],
)
def test_work_after_the_end_is_caught_where_every_replica_saw_it(cheat: dict[str, float], words: str) -> None:
    status, evidence = timing.device_idle(arm_of(idle(**cheat), idle(**cheat)), RUN)
    assert (status, words in evidence) == (Status.CAUGHT, True), evidence
    assert timing.device_idle(arm_of(idle(**cheat), idle()), RUN)[0] is Status.PASSED  # one bad replica is noise


def test_on_a_cpu_there_is_no_lag_to_look_at() -> None:
    facts = idle(samples=9, total_ms=4.0, lag_ms=None, usual_lag_ms=None)
    assert timing.device_idle(arm_of(facts, device="cpu"), RUN) == (
        Status.PASSED,
        "over 9 samples no thread was left at work",
    )


def test_without_samples_nothing_is_said() -> None:
    assert timing.device_idle(arm_of({"idle": timing.Idle(site_of()).facts()}), RUN)[0] is Status.UNAVAILABLE
    assert timing.device_idle(arm_of(timing=Timing.NONE), RUN)[0] is Status.NOT_APPLICABLE


def site_of(rung: str = "optimized", device: str = "cpu") -> Site:
    return Site(device, TARGET.folder, TARGET, TARGET.rung(rung), frozenset())


def timed(**sample: float) -> Call:
    known = {"device_ms": 0.5, "lag_ms": math.nan, "usual_lag_ms": math.nan, "beside_ms": 0.0, "left_ms": 0.0}
    return Call("timed", TARGET.case("cpu"), [[]], [(), ()], SimpleNamespace(**known | sample))


def test_the_sensor_adds_up_all_calls_of_a_sample_and_leaves_verified_calls_out() -> None:
    sensor = timing.Idle(site_of())
    for lag_ms in (0.01, 0.30, 0.02):
        sensor.after_call(timed(lag_ms=lag_ms, usual_lag_ms=0.01))
    sensor.after_call(Call("verify", TARGET.case("cpu"), [[]]))
    facts = sensor.facts()
    assert facts.samples == 3
    assert (facts.total_ms, facts.lag_ms, facts.usual_lag_ms) == (1.0, 0.02, 0.01)  # two calls of half a ms
    on_cpu = timing.Idle(site_of())
    on_cpu.after_call(timed(left_ms=2.0))
    assert plain(on_cpu.facts()) == {
        **{"samples": 1, "total_ms": 1.0, "beside_ms": 0.0, "left_ms": 2.0, "lag_ms": None, "usual_lag_ms": None}
    }


# -- the judge's clock, the engine's clock, physics --------------------------------------------------------------------


def judged(time_ms: float, error: float = 0.005, **facts: Any) -> ArmFacts:
    return arm_of(**{"quality": Quality(outside_ms=time_ms, outside_error=error), **facts})


def baseline(time_ms: float) -> ArmFacts:
    return replace(judged(time_ms), arm="baseline", rung=TARGET.rung("baseline"))


@pytest.mark.parametrize(
    ("arm", "base_ms", "status"),
    [
        (judged(1.03), 1.0, Status.PASSED),
        (judged(1.13), 1.0, Status.PASSED),  # as far off as an honest rung was on an H200
        (judged(1.3), 1.0, Status.CAUGHT),
        (judged(1.3, error=0.05), 1.0, Status.PASSED),  # a busy machine: its errors reach down to what is allowed
        (judged(1.3), 1.1, Status.PASSED),  # the baseline's batches take longer as well
        (judged(2.4), 2.0, Status.PASSED),
        (judged(30.0), 31.0, Status.UNAVAILABLE),  # a baseline so far off speaks for nobody
        (judged(2.4), 31.0, Status.PASSED),
        (judged(50.0), 31.0, Status.CAUGHT),
        (judged(9.0, timing=Timing.WARM), 1.0, Status.NOT_APPLICABLE),  # a batch's inputs are not in the cache
        (judged(0.005, median_ms=0.002), 1.0, Status.PASSED),  # what lies between two launches
        (judged(0.02, median_ms=0.002), 1.0, Status.CAUGHT),
        (judged(2.9, timing=Timing.COLD_SYNC), 1.0, Status.PASSED),
        (judged(2.9, timing=Timing.HOST, device="cpu"), 1.0, Status.PASSED),
        (judged(3.3, timing=Timing.HOST, device="cpu"), 1.0, Status.CAUGHT),
        (judged(0.4), 1.0, Status.PASSED),  # slower in the samples is nobody's gain
    ],
)
def test_a_call_takes_no_longer_by_the_judges_clock_than_the_baseline_makes_likely(
    arm: ArmFacts, base_ms: float, status: Status
) -> None:
    found, evidence = timing.wall_clock(arm, run_of(baseline(base_ms), arm))
    assert found is status
    assert "by the samples, " in evidence and "by the judge's clock" in evidence


def test_a_baseline_is_held_against_nobody() -> None:
    base = baseline(4.1)  # 256 launches a call, which a GPU does not take ahead of time
    assert timing.wall_clock(base, run_of(base))[0] is Status.PASSED


def sustained(per_call_ms: float, claimed_ms: float = 1.0, host_ms: float = 0.05) -> Sustained:
    return Sustained(per_call_ms, claimed_ms, host_ms, 200)


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("cuda", [sustained(0.7), sustained(1.3)]),  # warm caches; a hot GPU
        ("cuda", [sustained(0.09, 0.004, 0.06)]),  # bound by its launches
        ("cuda", [sustained(9.0), sustained(1.0)]),  # one replica beside a noisy neighbour
        ("cpu", [sustained(2.5, 1.0, 4.0)]),  # a processor that is shared
        ("cpu", [Sustained(9.5, 1.0, 1.0, 200, alone_ms=1.2)]),  # one that stood in line for most of it
    ],
)
def test_calls_in_a_row_may_differ_from_samples_for_honest_reasons(device: str, told: list[Sustained]) -> None:
    assert timing.wall_clock(arm_of(device=device, sustained=tuple(told)), RUN)[0] is Status.PASSED


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("cuda", [sustained(9.8, 0.41, 0.05), sustained(9.7, 0.41, 0.05)]),
        ("cuda", [sustained(1.4, 0.002, 0.02)]),
        ("cpu", [sustained(12.0, 0.05, 9.0)]),  # processor time of other threads explains nothing
        ("cpu", [Sustained(12.0, 0.05, 9.0, 200, alone_ms=6.0)]),  # nor does the half for which it stood in line
    ],
)
def test_what_the_engines_clock_sees_in_all_replicas_is_caught(device: str, told: list[Sustained]) -> None:
    status, evidence = timing.wall_clock(arm_of(device=device, sustained=tuple(told)), RUN)
    assert status is Status.CAUGHT
    assert "by the engine's clock over 200 calls" in evidence


@pytest.mark.parametrize("how", [Timing.COLD_GRAPH, Timing.COLD_BATCH, Timing.WARM_GRAPH, Timing.WARM_BATCH])
def test_a_short_call_that_waits_for_its_host_is_not_held_against_the_engines_clock(how: Timing) -> None:
    # torch.compile's guards around a kernel of 2 us, on an H200: a replayed graph has none of them.
    told = (sustained(0.0656, 0.00225, 0.0011), sustained(0.0661, 0.00225, 0.0012))
    status, evidence = timing.wall_clock(arm_of(timing=how, sustained=told), RUN)
    assert status is Status.NOT_APPLICABLE
    assert evidence.startswith("2.25 us by the samples") and "bound by its host" in evidence
    hidden = (sustained(1.4, 0.002, 0.001), sustained(1.5, 0.002, 0.001))  # no host takes that long for one launch
    assert timing.wall_clock(arm_of(timing=how, sustained=hidden), RUN)[0] is Status.CAUGHT
    assert timing.wall_clock(arm_of(timing=how, sustained=(sustained(0.004, 0.002, 0.001),)), RUN)[0] is Status.PASSED


def test_a_call_that_takes_longer_by_the_engines_clock_is_suspect_with_both_numbers() -> None:
    told = (sustained(0.0656, 0.00225, 0.0011),)
    found = registry.examine(run_of(arm_of(sustained=told)))
    (finding,) = [each for each in found if each.check == "timing.wall_clock"]
    assert finding.status is Status.SUSPECT
    assert "2.25 us by the samples, 65.6 us by the engine's clock" in finding.evidence


def test_without_both_clocks_nothing_is_said() -> None:
    assert timing.wall_clock(arm_of(), RUN)[0] is Status.UNAVAILABLE
    assert timing.wall_clock(arm_of(timing=Timing.NONE), RUN)[0] is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("spec", "measured", "status"),
    [
        (0.83, 0.97, Status.PASSED),
        (1.04, 1.14, Status.PASSED),
        (0.99, 1.16, Status.SUSPECT),
        (1.06, None, Status.CAUGHT),
        (40.0, 52.0, Status.CAUGHT),
        (None, None, Status.NOT_APPLICABLE),
    ],
)
def test_faster_than_the_datasheet_is_no_result(spec: float | None, measured: float | None, status: Status) -> None:
    assert timing.physics(arm_of(sol_spec=spec, sol_measured=measured), RUN)[0] is status


@pytest.mark.parametrize(
    ("spec", "limiter", "stated", "status"),
    [
        (2.5, None, "", Status.PASSED),  # all but 1/65 of the bytes are static: a rung may have packed them
        (2.5, Limiter.BYTES, "", Status.PASSED),
        (2.5, Limiter.FLOPS, "", Status.CAUGHT),
        (2.5, Limiter.BYTES, "4*M*K", Status.CAUGHT),
        (70.0, Limiter.BYTES, "", Status.CAUGHT),
    ],
)
def test_static_inputs_whose_bytes_nobody_stated_may_be_packed(
    spec: float, limiter: Limiter | None, stated: str, status: Status
) -> None:
    inputs = 'w = "float32 [M, K] normal static"\nx = "float32 [K] normal"'
    target = oracle_target(inputs, 'y = "float32 [M]"', axes="{ M = 128, K = 128 }")
    run = replace(RUN, target=replace(target, bytes=stated), case=target.cases[0])
    assert timing.physics(arm_of(sol_spec=spec, limiter=limiter), run)[0] is status


def test_warm_caches_have_no_memory_bound() -> None:
    assert timing.physics(arm_of(timing=Timing.WARM, sol_spec=3.0), RUN)[0] is Status.NOT_APPLICABLE


# -- the GPU's second clock --------------------------------------------------------------------------------------------

STEP_MS = 3.2e-5


def by_both(
    event_ms: float,
    apart_ms: float = 0.0,
    *,
    bent: float = 1.0,
    share: float = 1.0,
    replicas: int = 1,
    bent_replicas: int | None = None,
    read: float = 1.0,
    name: str = "optimized",
    **facts: Any,
) -> ArmFacts:
    """An arm of 100 samples a replica: SM timers that read `apart_ms` more than honest events, jitter of half a us,
    and events that are shorter by `bent` in a share of the samples of some replicas.
    """
    random = np.random.default_rng(int(event_ms * 1e6) + replicas)
    count = 100 * replicas
    number, replica = np.arange(count) % 100, np.arange(count) // 100
    truth_ms = event_ms * np.exp(random.normal(0, 0.01, count))
    probe_ms = truth_ms + apart_ms + np.abs(random.normal(0, 5e-4, count)).round(6)
    cheated = (number < 100 * share) & (replica < (replicas if bent_replicas is None else bent_replicas))
    probe_ms[number >= 100 * read] = math.nan
    calls = facts.get("calls", 1)
    zero = np.zeros(count, np.int64)
    told_ms = np.where(cheated, truth_ms / bent, truth_ms)
    samples = Samples(
        told_ms / calls, told_ms, zero, zero, replica, zero, zero, told_ms, probe_ms / calls, probe_ms * 1.9e6
    )
    known: dict[str, Any] = {"samples": samples, "probe_step_ms": STEP_MS, "probe_overhead_ms": 0.0041}
    return replace(arm_of(**known | facts), arm=name)


@pytest.mark.parametrize("event_ms", [0.02, 0.07, 1.234, 40.0])
@pytest.mark.parametrize(
    ("apart_ms", "facts"),
    [
        (0.0, {}),
        (0.002, {"timing": Timing.COLD_GRAPH, "calls": 16}),  # a graph comes to its end
        (-0.002, {"timing": Timing.WARM_BATCH, "calls": 8}),
        (0.03, {"timing": Timing.COLD_SYNC, "probe_overhead_ms": 0.03}),  # a host that launches late
        (
            -0.03,
            {"timing": Timing.COLD_SYNC, "probe_overhead_ms": 0.03},
        ),  # one that had launched all before the GPU was done
        (0.0, {"probe_step_ms": 1.024e-3}),
    ],
)
def test_two_clocks_of_an_honest_rung_agree(event_ms: float, apart_ms: float, facts: dict[str, Any]) -> None:
    status, evidence = timing.two_clocks(by_both(event_ms, apart_ms, replicas=3, **facts), RUN)
    assert status is Status.PASSED, evidence
    assert "by the SMs' timers over 100 samples (" in evidence


def test_the_evidence_has_both_times_and_what_was_taken_off() -> None:
    evidence = timing.two_clocks(by_both(1.2, 0.002), RUN)[1]
    assert evidence.startswith("1.2 ms by events, 1.2 ms by the SMs' timers over 100 samples")
    assert evidence.endswith("(4.1 us around nothing taken off, steps of 32 ns)")


@pytest.mark.parametrize("event_ms", [0.1, 1.234, 40.0])
@pytest.mark.parametrize("bent", [0.4, 0.9, 1.12, 1.8, 50.0])
@pytest.mark.parametrize("facts", [{}, {"timing": Timing.COLD_GRAPH, "calls": 16}])
def test_events_that_are_bent_by_more_than_the_band_are_caught(
    event_ms: float, bent: float, facts: dict[str, Any]
) -> None:
    status, evidence = timing.two_clocks(by_both(event_ms, bent=bent, replicas=2, **facts), RUN)
    assert (status, "in 100% of them, in 2 of 2 replicas" in evidence) == (Status.CAUGHT, True), evidence


@settings(max_examples=60, deadline=None)
@given(event_ms=st.floats(0.02, 50.0), bent=st.floats(0.02, 50.0), apart_us=st.floats(-3.0, 3.0))
def test_whatever_is_bent_beyond_the_band_is_caught_and_what_is_within_it_is_not(
    event_ms: float, bent: float, apart_us: float
) -> None:
    told_ms = event_ms / bent
    band_ms = timing.PROBE_LEAST_MS + timing.PROBE_SHARE * told_ms + timing.PROBE_STEPS * STEP_MS
    away_ms = event_ms - told_ms
    status, evidence = timing.two_clocks(by_both(event_ms, apart_us / 1e3, bent=bent), RUN)
    if abs(away_ms) > 1.5 * band_ms + 0.005:  # the clocks' own distance, and samples of 3 % on either side
        assert status is Status.CAUGHT, evidence
    if abs(away_ms) < 0.5 * band_ms - 0.002:
        assert status is Status.PASSED, evidence


def test_bent_events_of_a_latency_lesson_are_caught_beyond_what_a_host_takes_to_launch() -> None:
    host = {"timing": Timing.COLD_SYNC, "probe_overhead_ms": 0.03}
    assert timing.two_clocks(by_both(0.4, bent=1.8, **host), RUN)[0] is Status.CAUGHT
    assert timing.two_clocks(by_both(0.4, bent=0.4, **host), RUN)[0] is Status.CAUGHT


def test_it_is_enough_to_bend_a_large_share_of_the_samples_and_a_neighbour_now_and_then_is_honest() -> None:
    assert timing.two_clocks(by_both(1.0, bent=2.0, share=0.4), RUN)[0] is Status.CAUGHT
    assert timing.two_clocks(by_both(1.0, bent=2.0, share=0.2), RUN)[0] is Status.PASSED


def test_a_minority_of_the_replicas_is_doubted() -> None:
    assert timing.two_clocks(by_both(1.0, bent=2.0, replicas=3, bent_replicas=2), RUN)[0] is Status.CAUGHT
    assert timing.two_clocks(by_both(1.0, bent=2.0, replicas=3, bent_replicas=1), RUN)[0] is Status.SUSPECT


def test_samples_that_were_set_aside_are_not_asked() -> None:
    arm = by_both(1.0, bent=2.0, share=0.4)
    samples = replace(arm.samples, discarded=(np.arange(100) < 40).astype(np.int64))
    assert timing.two_clocks(replace(arm, samples=samples), RUN)[0] is Status.PASSED
    none = replace(samples, discarded=np.ones(100, np.int64))
    assert timing.two_clocks(replace(arm, samples=none), RUN)[0] is Status.UNAVAILABLE


def test_timers_that_fall_silent_beside_those_of_another_rung_are_suspect() -> None:
    mute, talking = by_both(1.0, read=0.0), by_both(1.0, name="baseline")
    assert timing.two_clocks(mute, run_of(mute))[0] is Status.UNAVAILABLE  # a GPU without them
    status, evidence = timing.two_clocks(mute, run_of(talking, mute))
    assert (status, evidence.startswith("the SMs' timers fell silent in 100% of 100")) == (Status.SUSPECT, True)
    part = by_both(1.0, read=0.5)
    assert timing.two_clocks(part, run_of(talking, part))[0] is Status.SUSPECT


def test_a_timer_that_steps_too_coarsely_for_the_sample_says_so_with_the_figure() -> None:
    status, evidence = timing.two_clocks(by_both(0.2, bent=2.0, probe_step_ms=1.0), RUN)
    assert status is Status.UNAVAILABLE
    assert evidence.startswith("the SMs' timers go in steps of 1 ms, too coarse for a sample of ")
    assert timing.two_clocks(by_both(0.2, probe_step_ms=None), RUN)[0] is Status.UNAVAILABLE
    assert timing.two_clocks(by_both(40.0, bent=2.0, probe_step_ms=1.0), RUN)[0] is Status.CAUGHT


def test_what_was_not_timed_has_no_two_clocks() -> None:
    assert timing.two_clocks(arm_of(timing=Timing.NONE), RUN)[0] is Status.NOT_APPLICABLE


RUNTIME = "int cudaEventElapsedTime(float *ms, void *start, void *end) { *ms = 3.6f; return start == end; }\n"
ASKING = """\
int cudaEventElapsedTime(float *ms, void *start, void *end);
float ask(void *start, void *end) { float ms; return cudaEventElapsedTime(&ms, start, end) ? -1.0f : ms; }
"""
ASKED = """
import ctypes, os, sys
folder, fixture, rung = sys.argv[1:]
# Whatever else is loaded may have a function of that name: this library's own comes first.
asking = ctypes.CDLL(folder + "/torch/libasking.so", mode=os.RTLD_DEEPBIND)
asking.ask.restype, asking.ask.argtypes = ctypes.c_float, (ctypes.c_void_p, ctypes.c_void_p)
sys.path.insert(0, fixture)
__import__(rung)
print(round(asking.ask(1, 2), 4), asking.ask(1, 1))
"""


@pytest.mark.parametrize(("rung", "said"), [("optimized", "3.6 -1.0"), ("cheat", "2.0 -1.0")])
def test_the_slots_of_a_library_are_found_and_led_elsewhere_even_where_the_loader_made_them_read_only(
    tmp_path: Path, rung: str, said: str
) -> None:
    """The cheat of bent_events without a GPU: a library of ours stands for the one of torch's that asks for times."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "torch").mkdir()
    (tmp_path / "runtime.c").write_text(RUNTIME)
    (tmp_path / "asking.c").write_text(ASKING)
    shared = [compiler, "-O1", "-fPIC", "-shared", "-Wl,-z,relro,-z,now"]
    subprocess.run([*shared, "-o", "libruntime.so", "runtime.c"], cwd=tmp_path, check=True)
    linked = ["libruntime.so", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([*shared, "-o", "torch/libasking.so", "asking.c", *linked], cwd=tmp_path, check=True)
    found = python(ASKED, str(tmp_path), str(GALLERY / "timing" / "bent_events"), rung)
    assert found.stdout.strip() == said, found.stderr


# -- profilers ---------------------------------------------------------------------------------------------------------


def looked(sensor: Sensor[Facts]) -> ArmFacts:
    return arm_of({sensor.name: sensor.facts()})


@pytest.fixture
def unprofiled() -> Any:
    before = sys.getprofile(), sys.gettrace()
    sys.setprofile(None)
    sys.settrace(None)
    yield
    sys.setprofile(before[0])
    sys.settrace(before[1])


def hook(*args: object) -> None:
    return None


def profiled(switch_on: Any, switch_off: Any) -> tuple[Status, str]:
    sensor = timing.Profilers(site_of())
    sensor.before_import()
    switch_on()
    sensor.after_import()
    switch_off()
    return timing.profilers(looked(sensor), RUN)


def test_profilers_that_are_left_on_are_named(unprofiled: None) -> None:
    import torch

    assert profiled(lambda: None, lambda: None)[0] is Status.PASSED
    for on, off, name in (
        (lambda: sys.setprofile(hook), lambda: sys.setprofile(None), "sys.setprofile"),
        (lambda: sys.settrace(hook), lambda: sys.settrace(None), "sys.settrace"),
        (tracemalloc.start, tracemalloc.stop, "tracemalloc"),
    ):
        status, evidence = profiled(on, off)
        assert (status, evidence) == (Status.CAUGHT, f"left on: {name} (after the import)")
    session = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    status, evidence = profiled(session.__enter__, lambda: session.__exit__(None, None, None))
    assert (status, "torch's profiler" in evidence) == (Status.CAUGHT, True)


def test_a_profiler_that_was_stopped_before_timing_is_honest(unprofiled: None) -> None:
    sensor = timing.Profilers(site_of())
    sensor.before_import()
    sys.setprofile(hook)
    sys.setprofile(None)
    sensor.after_import()
    sensor.after_timing()
    assert timing.profilers(looked(sensor), RUN)[0] is Status.PASSED


def test_an_injected_library_is_the_users_and_makes_the_run_suspect(
    unprofiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/tool/libtool.so")
    status, evidence = profiled(lambda: None, lambda: None)
    assert (status, "CUDA_INJECTION64_PATH" in evidence) == (Status.SUSPECT, True)


# -- what the samples say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drift", "device", "status"),
    [
        (0.04, "cuda", Status.PASSED),
        (-0.3, "cuda", Status.PASSED),
        (1.4, "cuda", Status.SUSPECT),
        (-0.6, "cuda", Status.SUSPECT),
        (1.4, "cpu", Status.NOT_APPLICABLE),
        (None, "cuda", Status.NOT_APPLICABLE),
    ],
)
def test_a_time_that_halves_or_doubles_is_suspect_on_a_gpu(drift: float | None, device: str, status: Status) -> None:
    assert timing.steady(arm_of(device=device, quality=Quality(drift=drift)), RUN)[0] is status


@pytest.mark.parametrize(
    ("median_ms", "calls", "status"),
    [(0.004, 16, Status.PASSED), (0.002, 1, Status.PASSED), (0.0001, 1, Status.SUSPECT), (0.0001, 16, Status.PASSED)],
)
def test_a_sample_of_a_few_steps_of_the_clock_is_no_time(median_ms: float, calls: int, status: Status) -> None:
    arm = arm_of(median_ms=median_ms, calls=calls, quality=Quality(resolution_ms=3.2e-5))
    assert timing.resolution(arm, RUN)[0] is status


def clocks(own_mhz: float, driver_mhz: float, readings: int = 60) -> tuple[ArmFacts, RunFacts]:
    at = np.arange(readings, dtype=np.int64) * 50_000_000
    flat, zero = np.ones(readings), np.zeros(readings, np.int64)
    samples = Samples(flat, flat, at, zero, zero, zero, zero, flat * own_mhz)
    telemetry = Telemetry(at, flat * driver_mhz, flat, flat, flat, zero)
    arm = arm_of(samples=samples)
    return arm, run_of(arm, telemetry=telemetry)


def test_a_clock_that_is_raised_for_the_samples_is_suspect() -> None:
    assert timing.boost(*clocks(1980, 1950))[0] is Status.PASSED
    assert timing.boost(*clocks(1410, 1980))[0] is Status.PASSED  # throttled under load
    status, evidence = timing.boost(*clocks(1980, 1200))
    assert (status, evidence.startswith("1980 MHz in the samples, 1200 by the driver")) == (Status.SUSPECT, True)
    assert timing.boost(*clocks(1980, 1200, readings=5))[0] is Status.NOT_APPLICABLE


# -- the gallery -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda folder: folder.name)
def test_a_fixture_is_a_target_with_a_cheat_and_an_honest_twin(folder: Path) -> None:
    target = target_of(folder)
    names = [rung.name for rung in target.rungs]
    assert [name for name in names if name.startswith("cheat")]
    assert target.rung("optimized").summary.startswith("twin: ")
    assert all(rung.summary for rung in target.rungs)


LAZY = """
import sys
from pathlib import Path
import torch
from aisp.engine.worker.loading import import_module

run, product, products = import_module(Path(sys.argv[1]), "cheat").run, torch.mm, []
torch.mm = lambda *inputs, **named: products.append(product(*inputs, **named))
x, w = torch.ones(2, 2), torch.ones(2, 2)
for _ in range(1000):
    run(x, w)
first, second = run(x, w), run(x, w)
assert not products
assert (first.tolist(), second.tolist()) == ([[2.0] * 2] * 2, [[2.0] * 2] * 2)
print(len(products))
"""


@pytest.mark.slow
def test_the_cheat_that_works_at_the_first_look_owes_nothing_for_what_was_thrown_away() -> None:
    """Or a thousand calls in a row end at the limit of progress, before its mode is told of."""
    done = python(LAZY, str(GALLERY / "timing" / "function_mode"))
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_every_fixture_is_an_issue_s() -> None:
    fixtures = {f"timing/{folder.name}" for folder in FIXTURES}
    assert fixtures == {issue.fixture for issue in timing.ISSUES if issue.fixture}
