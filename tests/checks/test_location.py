"""Location: work in other processes, after the last call and on the host is seen; threads that are joined are fine."""

from __future__ import annotations

import ctypes
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aisp.checks import location, registry
from aisp.checks.registry import ArmFacts, Call, Need, RunFacts, Site, Status
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State, Timing
from tests.checks.sensed import plain, replica
from tests.replacing import replace

ROOT = Path(location.__file__).parents[2]
GALLERY = ROOT / "checks" / "gallery"


def fixture(name: str) -> Target:
    loaded = catalog.load_target(GALLERY / name, root=GALLERY, chapter=name.partition("/")[0])
    assert isinstance(loaded, Target), loaded
    return loaded


TARGET = fixture("location/background_thread")
ON_HOST = fixture("location/setup_pre_computation")
PINNED = fixture("location/cpu_spillover")


def arm(*replicas: dict[str, Any], sensor: str, target: Target = TARGET, timing: Timing = Timing.COLD) -> ArmFacts:
    return ArmFacts(
        arm="cheat",
        rung=target.rung("cheat"),
        device="cuda",
        ended_well=True,
        state=State.OK,
        timing=timing,
        sensed=tuple(replica(**{sensor: facts}) for facts in replicas),
    )


def run_of(target: Target, *arms: ArmFacts, device: str = "cuda") -> RunFacts:
    return RunFacts(target, target.cases[0], device, quick=True, arms=arms)


def site(target: Target = TARGET) -> Site:
    return Site("cpu", target.folder, target, target.rung("cheat"), frozenset())


def timed(device_ms: float = 0.1, host_ms: float = 0.1) -> Call:
    sample = SimpleNamespace(device_ms=device_ms, host_ms=host_ms)
    return Call("timed", TARGET.cases[0], [()], [()], sample)


# -- the lists ---------------------------------------------------------------------------------------------------------


def test_every_row_of_the_category_is_answered_by_a_fixture_with_a_cheat_and_a_twin() -> None:
    rows = {issue.id for issue in location.ISSUES if issue.listed}
    assert rows == {
        f"location.{name}"
        for name in (
            "cpu_spillover",
            "setup_pre_computation",
            "graph_capture_cheat",
            "warmup_computation",
            "background_thread",
            "lazy_evaluation_skip",
            "jit_compilation_timing",
        )
    }
    for issue in location.ISSUES:
        rungs = {rung.name: rung for rung in fixture(issue.fixture).rungs}
        assert "cheat" in rungs and rungs["optimized"].summary.startswith("twin: ")


# -- other processes ---------------------------------------------------------------------------------------------------


def test_a_process_that_works_beside_the_clock_is_caught_and_one_that_works_inside_is_not() -> None:
    cheat = {"samples": 30, "outside_ms": 4.0, "claimed_ms": 0.2, "processes": 1}
    honest = {"samples": 30, "outside_ms": 0.1, "claimed_ms": 5.0, "processes": 4}
    of_cheat = arm(cheat, cheat, sensor="elsewhere")
    status, evidence = location.processes(of_cheat, run_of(TARGET, of_cheat))
    assert status is Status.CAUGHT and "4 ms per sample" in evidence and "0.2 ms" in evidence
    of_twin = arm(honest, honest, sensor="elsewhere")
    assert location.processes(of_twin, run_of(TARGET, of_twin))[0] is Status.PASSED
    once = arm(cheat, honest, sensor="elsewhere")  # another replica does not agree
    assert location.processes(once, run_of(TARGET, once))[0] is Status.PASSED


def test_the_sensor_adds_up_what_a_child_does_between_two_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location.Elsewhere, "before_import", lambda self: None)
    sensor = location.Elsewhere(site())
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        for _ in range(3):
            sensor.before_call(timed())
            time.sleep(0.3)
            sensor.after_call(timed())
        facts = plain(sensor.facts())
    finally:
        child.kill()
        child.wait()
    assert facts["samples"] == 3 and facts["processes"] >= 1
    assert facts["outside_ms"] > 5.0
    assert location.processes(arm(facts, sensor="elsewhere"), run_of(TARGET))[0] is Status.CAUGHT


def test_a_process_without_children_is_told_apart_by_one_call() -> None:
    code = "from aisp.checks import location as l; import os; print(l.has_children(), l.descendants(os.getpid()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == ["False", "[]\n"]


def test_a_process_whose_name_is_no_utf_8_is_seen() -> None:
    name = r"import ctypes, time; ctypes.CDLL(None).prctl(15, b'\xff', 0, 0, 0); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", name], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline()
            assert child.pid in location.descendants(os.getpid())
            assert location.turns_of(str(child.pid), str(child.pid)).count > 0
        finally:
            child.kill()


def test_helpers_of_the_compiler_are_nobodys_accomplices() -> None:
    path = f"/somewhere/{location.COMPILE_WORKER}"
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", path])
    plain = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        deadline = time.monotonic() + 60
        while plain.pid not in (found := location.descendants(os.getpid())) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert plain.pid in found and child.pid not in found
    finally:
        for process in (child, plain):
            process.kill()
            process.wait()


# -- after the last call -----------------------------------------------------------------------------------------------


def watched(monkeypatch: pytest.MonkeyPatch, work: Any, target: Target = TARGET) -> dict[str, Any]:
    """What the sensor says of one thread that a lesson started."""
    monkeypatch.setattr(location, "MOST_WINDOWS", 8)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(prctl=lambda *_: 0))
    sensor = location.StillRunning(site(target))
    sensor.before_import()
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), daemon=True)
    thread.start()
    time.sleep(0.01)  # until it has its name
    try:
        sensor.after_timing()
    finally:
        stop.set()
        thread.join()
    return plain(sensor.facts())


PR_SET_TIMERSLACK = 29
prctl = ctypes.CDLL(None).prctl  # taken before `watched` replaces it


def duty(work_us: int, nap_s: float, slack_ns: int = 50_000) -> Callable[[threading.Event], None]:
    """A thread that takes so much processor time, sleeps, and so on; the kernel may add `slack_ns` to each sleep."""

    def work(stop: threading.Event) -> None:
        prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0)
        while not stop.is_set():
            until_ns = time.thread_time_ns() + work_us * 1000
            while time.thread_time_ns() < until_ns and not stop.is_set():
                pass
            time.sleep(nap_s)

    return work


def relay(stop: threading.Event) -> None:
    """Threads of 10 ms each, of which every one starts the next."""
    until_s = time.monotonic() + 0.01
    while time.monotonic() < until_s:
        pass
    if not stop.is_set():
        threading.Thread(target=relay, args=(stop,), daemon=True).start()


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(duty(10**6, 0), id="never sleeps"),
        pytest.param(duty(1500, 0.002), id="a part of a core"),
        pytest.param(duty(300, 0.005), id="a few per cent of a core"),
        pytest.param(duty(0, 0, slack_ns=1), id="polls without a pause"),
        pytest.param(duty(0, 0, slack_ns=10**6), id="polls without a pause, on a kernel that makes one of 1 ms"),
        pytest.param(duty(0, 0.002, slack_ns=1), id="polls every 2 ms"),
        pytest.param(duty(0, 0.002, slack_ns=10**6), id="polls every 2 ms, on a kernel that makes 3 of them"),
        pytest.param(relay, id="threads that end as the next begins"),
    ],
)
def test_a_thread_that_works_or_looks_for_work_is_found_when_the_worker_sleeps(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[threading.Event], None]
) -> None:
    facts = watched(monkeypatch, work)
    assert facts["windows"] == 8 and any(name.startswith("thread") for name in facts["busy_s"])
    of = arm(facts, sensor="still_running")
    status, evidence = location.still_running(of, run_of(TARGET, of))
    assert status is Status.CAUGHT and "thread" in evidence and " turns" in evidence


def test_a_thread_that_ends_between_the_list_and_the_look_may_have_begun_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended(process: str, tid: int) -> location.Turns:
        raise ProcessLookupError(process, tid)

    monkeypatch.setattr(location, "turns_of", ended)
    facts = watched(monkeypatch, lambda stop: stop.wait(30))
    assert facts["windows"] == 8
    assert list(facts["busy_s"]) == [location.BEGUN]


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda stop: stop.wait(30), id="sleeps until it is woken"),
        pytest.param(duty(0, 0.2), id="looks five times a second"),
    ],
)
def test_a_thread_that_waits_for_work_is_not_at_work(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[threading.Event], None]
) -> None:
    facts = watched(monkeypatch, work)
    assert facts["busy_s"] == {}
    of = arm(facts, sensor="still_running")
    assert location.still_running(of, run_of(TARGET, of))[0] is Status.PASSED


PR_SET_NAME = 15


def loop_of_a_group(stop: threading.Event, *, named: bool) -> None:
    """What gloo does while no peer has anything to say."""
    if named:
        prctl(PR_SET_NAME, location.GLOO_LOOP.encode(), 0, 0, 0)
    with select.epoll() as peers:
        while not stop.is_set():
            peers.poll(0.01)


@pytest.mark.parametrize("named", [True, False])  # torch 2.11 gives the thread no name
@pytest.mark.parametrize(("ranks", "caught"), [(1, True), (2, False)])
def test_the_loop_of_a_process_group_is_idle_in_a_lesson_of_several_ranks_alone(
    monkeypatch: pytest.MonkeyPatch, ranks: int, caught: bool, named: bool
) -> None:
    target = replace(TARGET, ranks=ranks)
    of = arm(watched(monkeypatch, partial(loop_of_a_group, named=named), target), sensor="still_running")
    assert (location.still_running(of, run_of(target, of))[0] is Status.CAUGHT) is caught


def test_a_process_that_looks_for_work_is_found_when_the_worker_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location, "MOST_WINDOWS", 8)
    code = "import time; print(flush=True)\nwhile True: time.sleep(0.002)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    monkeypatch.setattr(location, "descendants", lambda _: [child.pid])  # and not what other tests have started
    sensor = location.StillRunning(site())
    try:
        assert child.stdout is not None and child.stdout.readline()
        sensor.after_timing()
    finally:
        child.kill()
        child.communicate()
    assert f"process {child.pid}" in sensor.facts().busy_s


MS = 10**6


@pytest.mark.parametrize(
    ("turns", "window_ms", "at_work"),
    [
        (location.Turns(), 25, False),  # a pool that sleeps
        (location.Turns(run_ns=MS), 25, True),  # 4 % of a core, without a switch
        (location.Turns(run_ns=MS // 10, count=1), 50, False),  # 20 Hz
        (location.Turns(run_ns=MS // 10, wait_ns=10 * MS, count=1), 60, False),  # 20 Hz, on a loaded host
        (location.Turns(run_ns=MS // 10, wait_ns=40 * MS, count=1), 60, True),  # had it not stood in line, 50 Hz
        (location.Turns(run_ns=MS // 10, count=1), 25, True),
        (location.Turns(run_ns=MS // 10, count=2), 50, True),
        (location.Turns(in_line=True), 25, True),  # wants to work and does not get to it
    ],
)
def test_work_wanting_to_work_and_looking_for_it_are_told_from_an_idle_pool(
    turns: location.Turns, window_ms: int, at_work: bool
) -> None:
    assert turns.at_work(window_ms * MS) is at_work


def test_the_turns_of_a_thread_are_counted_since_it_began() -> None:
    before = location.turns_of("self", threading.get_native_id())
    for _ in range(20):
        time.sleep(0.001)
    after = location.turns_of("self", threading.get_native_id())
    assert after.in_line and after.run_ns > 0
    assert after.since(before).count >= 20
    with pytest.raises(OSError, match="task"):
        location.turns_of("self", 2**22 + 1)


# -- the host behind the GPU -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "facts", "status"),
    [
        (PINNED, {"samples": 9, "others_ms": 0.0, "host_ms": 4.0, "device_ms": 0.02}, Status.CAUGHT),
        (PINNED, {"samples": 9, "others_ms": 9.0, "host_ms": 0.2, "device_ms": 0.6}, Status.PASSED),  # a large refill
        (PINNED, {"samples": 9, "others_ms": 0.0, "host_ms": 2.0, "device_ms": 0.3}, Status.PASSED),  # many launches
        (ON_HOST, {"samples": 9, "others_ms": 30.0, "host_ms": 5.0, "device_ms": 0.02}, Status.CAUGHT),
        (ON_HOST, {"samples": 9, "others_ms": 0.1, "host_ms": 9.0, "device_ms": 0.2}, Status.PASSED),  # eager launches
    ],
)
def test_the_host_is_caught_where_it_computes_and_not_where_it_launches(
    target: Target, facts: dict[str, Any], status: Status
) -> None:
    of = arm(facts, facts, sensor="host_work", target=target)
    assert location.host_work(of, run_of(target, of))[0] is status


def test_where_the_stream_is_not_held_host_time_is_in_the_samples() -> None:
    facts = {"samples": 9, "others_ms": 0.0, "host_ms": 4.0, "device_ms": 0.02}
    of = arm(facts, sensor="host_work", target=PINNED, timing=Timing.COLD_SYNC)
    assert location.host_work(of, run_of(PINNED, of))[0] is Status.PASSED


def test_the_host_sensor_sees_threads_beside_the_main_one() -> None:
    sensor = location.Host(site())
    stop = threading.Event()
    sensor.before_call(timed())
    worker = threading.Thread(target=lambda: sum(i * i for i in range(400_000)))
    worker.start()
    worker.join()
    stop.set()
    sensor.after_call(timed(device_ms=0.5, host_ms=0.25))
    facts = sensor.facts()
    assert facts.samples == 1 and facts.others_ms > 1.0
    assert (facts.host_ms, facts.device_ms) == (0.25, 0.5)


# -- all judges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", location.CHECKS, ids=lambda check: check.id)
def test_a_judge_says_when_it_has_nothing_to_judge_and_when_its_sensor_failed(check: registry.Check) -> None:
    assert check.arm is not None and check.sensor is not None
    untimed = replace(arm(sensor=check.sensor.name), timing=Timing.NONE)
    assert check.arm(untimed, run_of(TARGET, untimed))[0] is Status.NOT_APPLICABLE
    failed = arm({"failed": "no such file"}, sensor=check.sensor.name)
    findings = registry.examine(run_of(TARGET, failed))
    mine = next(finding for finding in findings if finding.check == check.id)
    assert (mine.status, mine.evidence) == (Status.UNAVAILABLE, "no such file")
    on_cpu = registry.examine(run_of(TARGET, failed, device="cpu"))
    mine = next(finding for finding in on_cpu if finding.check == check.id)
    wanted = Status.NOT_APPLICABLE if Need.GPU in check.needs else Status.UNAVAILABLE
    assert mine.status is wanted
