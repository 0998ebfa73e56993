"""Every judge of what the driver and CUPTI say: honest calls, noise, and each cheat's trace."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aisp.checks import cuda, cupti, timing
from aisp.checks.cuda import TraceFacts, read_trace
from aisp.checks.cupti import Activity
from aisp.checks.registry import ArmFacts, Call, Need, RunFacts, Sensed, Site, Status, Sustained, Unavailable
from aisp.kernels import catalog
from aisp.kernels import cuda as compiler
from aisp.kernels.catalog.model import Needs, Target
from aisp.store.outcomes import State, Timing
from tests.checks.sensed import plain, replica
from tests.replacing import replace

GALLERY = Path(__file__).resolve().parents[2] / "checks" / "gallery"
FIXTURES = sorted(folder for folder in (GALLERY / "cuda").iterdir() if folder.is_dir())
SOURCES = sorted((GALLERY / "cuda").rglob("*.cu")) + sorted((GALLERY / "timing").rglob("*.cu"))
ENTRY = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(\w+)\s*\(")
MS = 1_000_000


def target_of(folder: Path) -> Target:
    found = catalog.load_target(folder, root=GALLERY, chapter=folder.parent.name)
    assert isinstance(found, Target), [str(problem) for problem in found]
    return found


TARGET = target_of(GALLERY / "cuda" / "undeclared_multi_gpu")


def arm_of(*processes: dict[str, Any], name: str = "optimized", **facts: Any) -> ArmFacts:
    known: dict[str, Any] = {"device": "cuda", "timing": Timing.COLD, "median_ms": 1.0}
    told = tuple(replica(**process) for process in processes)
    return ArmFacts(name, TARGET.rung("optimized"), ended_well=True, state=State.OK, sensed=told, **known | facts)


def run_of(*arms: ArmFacts, target: Target = TARGET, **facts: Any) -> RunFacts:
    return RunFacts(target, target.case("default"), "cuda", False, arms, **facts)


RUN = run_of()

# -- the trace ---------------------------------------------------------------------------------------------------------


def spin(start_ms: float, end_ms: float) -> Activity:
    return Activity("spin_kernel(long)", 0, 7, int(start_ms * MS), int(end_ms * MS))


def at(start_ms: float, end_ms: float, *, stream: int = 7, device: int = 0, name: str = "gemm") -> Activity:
    return Activity(name, device, stream, int(start_ms * MS), int(end_ms * MS))


def traced(*work: Activity) -> dict[str, Any]:
    """A call between a hold of 10 ms and a marker that follows when the timed stream is done."""
    done_ms = max((each.end_ns / MS for each in work if each.stream == 7), default=10.0)
    return {
        "trace": TraceFacts(
            traced=read_trace([spin(0, 10), *work, spin(done_ms + 0.003, done_ms + 0.004)]), span_ms=None
        )
    }


def joined(*work: Activity) -> dict[str, Any]:
    """The same, with the marker behind everything."""
    done_ms = max(each.end_ns / MS for each in work)
    return {
        "trace": TraceFacts(
            traced=read_trace([spin(0, 10), *work, spin(done_ms + 0.003, done_ms + 0.004)]), span_ms=None
        )
    }


def test_what_waits_for_the_end_of_a_hold_of_all_ranks_is_not_busy_and_a_kernel_by_its_name_is() -> None:
    hold = replace(at(0, 100), name=cuda.HOLD_KERNEL)
    work = [at(100.01, 100.5), at(100.1, 100.7, stream=13)]
    told = read_trace([hold, *work, spin(100.8, 100.9)])
    assert (told.activities, told.early, told.late) == (2, [], []) and told.busy_ms == pytest.approx(0.69)
    early = read_trace([hold, at(60, 70, stream=13), *work, spin(100.8, 100.9)])
    assert len(early.early) == 1
    named = replace(at(100.1, 140.0, stream=13), name=cuda.HOLD_KERNEL)
    assert read_trace([hold, at(100.01, 100.5), named, spin(141, 142)]).busy_ms == pytest.approx(39.99)


def test_what_the_gpu_did_for_a_call_lies_between_two_readings_of_its_counters() -> None:
    def sample(*work: Activity) -> list[Activity]:
        first, last = min(each.start_ns for each in work) / MS, max(each.end_ns for each in work) / MS
        marks = [(first - 0.02, first - 0.01), (last + 0.01, last + 0.02)]
        return [*work, *(at(*mark, name=cuda.READ_KERNEL) for mark in marks)]

    one = sample(at(1.0, 1.5), at(1.2, 2.0, stream=13))
    two = sample(at(11.0, 11.4, name="Memset"))
    flush = at(5.0, 8.0, name="fill")  # what makes ready stands before the reading
    assert cuda.spans_ms([*two, flush, *one]) == [pytest.approx(1.0), pytest.approx(0.4)]
    nothing = [at(start, start + 0.01, name=cuda.READ_KERNEL) for start in (1.0, 1.1)]
    assert cuda.spans_ms(nothing) == [0.0]
    assert cuda.span_ms([]) is None


def test_samples_that_were_not_held_are_no_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    at_ms = iter(range(0, 10_000, 100))
    recording = SimpleNamespace(activities=[])
    discarded = iter([2, 2, *[0] * 50])

    def sample_once() -> Any:
        """A call of 3 ms where the host was too late for the hold, else of 1 ms."""
        start, left = next(at_ms), next(discarded)
        marks = [at(start, start + 0.01, name=cuda.READ_KERNEL), at(start + 50, start + 51, name=cuda.READ_KERNEL)]
        recording.activities += [*marks, at(start + 10, start + 13 if left else start + 11)]
        return SimpleNamespace(discarded=left)

    def launch_once() -> None:
        recording.activities += [spin(0, 10), at(10, 11), spin(12, 12.1)]

    reader = SimpleNamespace(recorded=lambda: nullcontext(recording))
    monkeypatch.setattr(cupti, "opened", lambda: reader)
    for name in ("synchronize", "_sleep"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    site = Site("cuda", GALLERY, TARGET, TARGET.rung("optimized"), frozenset())
    site.launch_once, site.sample_once = launch_once, sample_once
    sensor = cuda.Trace(site)

    def read(activities: Any, *, cost_ms: float) -> None:
        recording.activities = []

    monkeypatch.setattr(cuda, "read_trace", read)
    sensor.alone()
    assert sensor.facts().span_ms == pytest.approx(1.0)
    assert len(recording.activities) == 3 * (2 + cuda.SAMPLES)


def test_launches_of_a_call_are_its_kernels_and_neither_copies_nor_fills() -> None:
    one, three = (
        Sensed(traced(at(10.01, 10.02, name="Memset (Device)"), at(10.03, 10.04, name="Memcpy DtoD"), *kernels))
        for kernels in ([at(10.1, 10.2)], [at(10.1, 10.2), at(10.2, 10.3), at(10.3, 10.4)])
    )
    assert cuda.launches([one]) == 1
    assert cuda.launches([one, three]) == 3  # a replica of three
    assert cuda.launches([Sensed(traced())]) == 0
    assert cuda.launches([Sensed({"trace": TraceFacts(traced=None, span_ms=None)}), Sensed({})]) is None


def test_a_call_on_the_timed_stream_lies_between_the_marks() -> None:
    facts = traced(at(10.01, 11.4), at(11.4, 11.5))
    status, evidence = cuda.streams(arm_of(facts), RUN)
    assert (status, evidence) == (
        Status.PASSED,
        "2 kernels and copies on 1 streams, all of them between the two events",
    )
    assert facts["trace"].traced.busy_ms == pytest.approx(1.49)


def test_a_side_stream_that_is_joined_is_honest() -> None:
    facts = joined(at(10.01, 10.5), at(10.02, 11.4, stream=13))
    assert cuda.streams(arm_of(facts, facts), RUN)[0] is Status.PASSED
    assert facts["trace"].traced.busy_ms == pytest.approx(1.39)  # what overlaps counts once


def test_work_that_ends_after_the_timed_stream_is_caught() -> None:
    facts = traced(at(10.01, 10.02), at(10.02, 11.4, stream=13, name="Memcpy DtoH (Device -> Pinned)"))
    status, evidence = cuda.streams(arm_of(facts, facts), RUN)
    assert (status, evidence) == (
        Status.CAUGHT,
        "ends after the timed stream: Memcpy DtoH (Device -> Pinned) on stream 13 by 1.38 ms",
    )
    quiet = joined(at(10.01, 10.5))
    assert cuda.streams(arm_of(facts, quiet), RUN)[0] is Status.PASSED  # not in every replica


def test_a_copy_that_runs_while_the_launches_are_held_back_is_caught() -> None:
    facts = joined(at(0.2, 1.5, stream=13, name="Memcpy HtoD (Pinned -> Device)"), at(10.01, 10.2))
    status, evidence = cuda.streams(arm_of(facts), RUN)
    assert (status, "starts before the clock" in evidence, "stream 13" in evidence) == (Status.CAUGHT, True, True)
    # Not held: the clock starts with the first launch, so that nothing is before it.
    assert cuda.streams(arm_of(facts, timing=Timing.COLD_SYNC), RUN)[0] is Status.PASSED


def test_a_gpu_that_is_busy_beside_the_timed_stream_for_longer_than_is_claimed_is_caught() -> None:
    facts = traced(at(10.01, 10.02), at(10.02, 13.01, stream=13, name="parent"))
    assert cuda.kernel_time(arm_of(facts, median_ms=2.5), RUN)[0] is Status.PASSED
    status, evidence = cuda.kernel_time(arm_of(facts, facts, median_ms=0.01), RUN)
    assert (status, evidence) == (
        Status.CAUGHT,
        "0.01 ms by the samples, the GPU was busy for 3 ms with one call",
    )
    quiet = traced(at(10.01, 10.02), at(10.01, 10.02, stream=13))
    assert cuda.kernel_time(arm_of(facts, quiet, median_ms=0.01), RUN)[0] is Status.PASSED


def test_work_on_the_timed_stream_alone_cannot_hide_however_long_a_traced_call_takes() -> None:
    """It stands between the two events; a call under CUPTI comes after a pause, at a lower clock."""
    facts = traced(at(10.01, 13.01))
    assert cuda.kernel_time(arm_of(facts, median_ms=1.0), RUN)[0] is Status.PASSED


def test_a_trace_without_its_marks_says_nothing() -> None:
    with pytest.raises(ValueError, match="CUPTI saw 1 of the 2 kernels"):
        read_trace([spin(0, 10), at(10, 11)])
    with pytest.raises(Unavailable, match="no call was traced"):
        cuda.streams(arm_of({"trace": TraceFacts(traced=None, span_ms=None)}), RUN)
    assert cuda.streams(arm_of(timing=Timing.NONE), RUN)[0] is Status.NOT_APPLICABLE


def test_a_rung_that_was_not_timed_is_not_traced() -> None:
    sensor = cuda.Trace(Site("cuda", TARGET.folder, TARGET, TARGET.rung("optimized"), frozenset()))
    sensor.alone()
    assert sensor.facts() == TraceFacts(traced=None, span_ms=None)


# -- devices, contexts, managed memory ---------------------------------------------------------------------------------


def places(**facts: Any) -> dict[str, Any]:
    return {"places": {"gpus": 2, "elsewhere": [], "moved": {}, "managed": []} | facts}


def test_a_second_gpu_is_caught_where_the_target_declares_one() -> None:
    assert cuda.devices(arm_of(places()), RUN)[0] is Status.PASSED
    status, evidence = cuda.devices(arm_of(places(elsewhere=[1])), RUN)
    assert (status, "has used cuda:1 as well" in evidence) == (Status.CAUGHT, True)
    seen = places() | joined(at(10.01, 10.5), at(10.02, 10.4, device=1, stream=20))
    assert cuda.devices(arm_of(seen), RUN)[0] is Status.CAUGHT
    two = replace(TARGET, needs=Needs(sm=80, gpus=2))
    assert cuda.devices(arm_of(places(elsewhere=[1])), run_of(target=two))[0] is Status.NOT_APPLICABLE
    assert cuda.devices(arm_of(places(gpus=1)), RUN)[0] is Status.NOT_APPLICABLE


def test_another_current_stream_left_behind_is_caught() -> None:
    assert cuda.contexts(arm_of(places()), RUN)[0] is Status.PASSED
    status, evidence = cuda.contexts(arm_of(places(), places(moved={"stream": "by a call"})), RUN)
    assert (status, "the current stream (by a call)" in evidence) == (Status.CAUGHT, True)


def test_other_processes_on_the_gpu_are_told_and_are_not_the_rungs_fault() -> None:
    run = run_of(before={"gpu_processes": [11, 12]}, after={"gpu_processes": []})
    status, evidence = cuda.contexts(arm_of(places()), run)
    assert (status, "2 other processes" in evidence) == (Status.PASSED, True)


def test_the_sensor_notices_what_a_call_leaves_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    here = {"device": 0, "stream": 0}
    used = {0}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name, function in (
        ("_cuda_hasPrimaryContext", lambda index: index in used),
        ("_cuda_getDevice", lambda: here["device"]),
        ("_cuda_getCurrentRawStream", lambda index: here["stream"]),
    ):
        monkeypatch.setattr(torch._C, name, function, raising=False)
    monkeypatch.setattr(cuda, "_current_context", lambda: 5)
    sensor = cuda.Places(Site("cuda", TARGET.folder, TARGET, TARGET.rung("optimized"), frozenset()))
    sensor.before_import()
    sensor.after_import()
    verified = Call("verify", TARGET.case("default"), [[]], [()])
    sensor.after_call(verified)
    assert plain(sensor.facts()) == {"gpus": 2, "elsewhere": [], "moved": {}, "managed": []}
    here["stream"] = 99
    used.add(1)
    sensor.after_call(verified)
    assert plain(sensor.facts()) == {"gpus": 2, "elsewhere": [1], "moved": {"stream": "by a call"}, "managed": []}


def test_an_output_in_managed_memory_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    asked: list[int] = []

    def attribute(which: object, address: int) -> tuple[object, int]:
        assert which == driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED
        asked.append(address)
        return driver.CUresult.CUDA_SUCCESS, int(address == 0x2000)

    monkeypatch.setattr(driver, "cuPointerGetAttribute", attribute)

    def tensor(address: int) -> Any:
        return SimpleNamespace(is_cuda=True, numel=lambda: 4, data_ptr=lambda: address)

    assert cuda._managed([(tensor(0x1000), tensor(0x2000))]) == ["output 1"]
    assert asked == [0x1000, 0x2000]
    status, evidence = cuda.managed(arm_of(places(managed=["output 1"])), RUN)
    assert (status, "output 1" in evidence) == (Status.CAUGHT, True)
    assert cuda.managed(arm_of(places()), RUN)[0] is Status.PASSED


def test_pages_that_move_during_a_call_are_suspect() -> None:
    facts = places() | traced(at(10.01, 10.02), at(10.02, 10.03, name="Unified Memory GPU page fault"))
    status, evidence = cuda.managed(arm_of(facts), RUN)
    assert (status, evidence.startswith("1 migrations")) == (Status.SUSPECT, True)


# -- the host's share --------------------------------------------------------------------------------------------------


def base_of(median_ms: float, per_call_ms: float) -> ArmFacts:
    return arm_of(name="baseline", median_ms=median_ms, sustained=(Sustained(per_call_ms, median_ms, 0.02, 100),) * 2)


def rung_of(median_ms: float, per_call_ms: float, **facts: Any) -> ArmFacts:
    return arm_of(median_ms=median_ms, sustained=(Sustained(per_call_ms, median_ms, per_call_ms, 100),) * 2, **facts)


@pytest.mark.parametrize(
    ("base", "rung"),
    [
        ((1.4, 1.4), (0.7, 0.7)),
        ((0.040, 0.041), (0.020, 0.060)),  # a launch that costs more than the kernel
        ((0.6, 0.6), (0.3, 1.2)),  # an eager rung, slow to launch by less than a millisecond
        ((3.0, 8.0), (1.0, 8.5)),  # both are bound by the host alike
        ((1.0, 1.0), (1.0, 5.0)),  # claims nothing
    ],
)
def test_launching_slowly_is_honest(base: tuple[float, float], rung: tuple[float, float]) -> None:
    baseline, arm = base_of(*base), rung_of(*rung)
    assert cuda.host_time(arm, run_of(baseline, arm))[0] is Status.PASSED


def test_work_that_the_host_does_behind_the_hold_is_caught() -> None:
    baseline, arm = base_of(0.63, 0.65), rung_of(0.004, 4.2)
    status, evidence = cuda.host_time(arm, run_of(baseline, arm))
    assert (status, "4.2 ms against 0.65 ms by the engine's clock" in evidence) == (Status.CAUGHT, True)
    assert cuda.host_time(baseline, run_of(baseline, arm))[0] is Status.NOT_APPLICABLE
    with_host = rung_of(0.004, 4.2, timing=Timing.COLD_SYNC)
    assert cuda.host_time(with_host, run_of(baseline, with_host))[0] is Status.NOT_APPLICABLE
    assert cuda.host_time(arm_of(), run_of(arm_of(name="baseline")))[0] is Status.UNAVAILABLE


# -- the gallery -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda folder: folder.name)
def test_a_fixture_is_a_target_with_a_cheat_and_an_honest_twin(folder: Path) -> None:
    target = target_of(folder)
    names = [rung.name for rung in target.rungs]
    assert [name for name in names if name.startswith("cheat")]
    assert target.rung("optimized").summary.startswith("twin: ")
    assert all(rung.summary for rung in target.rungs)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_entry_of_every_source_compiles(path: Path, arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    entries = ENTRY.findall(path.read_text())
    assert len(entries) >= 2
    for entry in entries:
        cubin, _ = compiler.compile_cubin(compiler.load(path, entry), arch)
        assert cubin[:4] == b"\x7fELF"


def test_every_issue_is_answered_by_a_check_or_by_the_design() -> None:
    answered = {issue for check in (*cuda.CHECKS, *timing.CHECKS) for issue in check.issues}
    by_design = {"cuda.workspace_pre_compute"}  # output.values refuses what was computed from other values
    assert {issue.id for issue in cuda.ISSUES} - answered == by_design
    for issue in cuda.ISSUES:
        assert bool(issue.fixture) or "tests/checks/test_cuda.py" in issue.answer, issue.id
        assert not issue.fixture or (GALLERY / issue.fixture / "lesson.md").is_file()


def test_only_what_needs_a_gpu_is_asked_here() -> None:
    assert all(Need.GPU in check.needs for check in cuda.CHECKS)
