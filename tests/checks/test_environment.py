"""What the machine did to a run: judges on facts that are made up, sensors on this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from aisp.checks import environment, registry
from aisp.checks.registry import ArmFacts, Call, RunFacts, Site, Status
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State, Timing
from aisp.store.record import Finding, Quality
from tests.checks.sensed import replica
from tests.replacing import replace

GALLERY = Path(environment.__file__).parent / "gallery"
CORES = [1, 2, 3]
START = {"nice": 0, "policy": 0, "threads": 3, "cores": CORES, "device": 0}
GPU = {
    "uuid": "GPU-1",
    "driver": "580.65.06",
    "most_sm_clock_mhz": 1980,
    "most_memory_clock_mhz": 2619,
    "application_sm_clock_mhz": 1980,
    "application_memory_clock_mhz": 2619,
    "power_limit_w": 700.0,
    "enforced_power_limit_w": 700.0,
    "default_power_limit_w": 700.0,
    "ecc": True,
    "mig": False,
    "persistence": True,
    "compute_mode": "default",
}
BEFORE: dict[str, Any] = {
    "at_ns": 0,
    "wall_us": 1_000_000,
    "gpu": GPU,
    "gpu_count": 1,
    "gpu_processes": [],
    "gpu_pids_are_ours": True,
    "mps": None,
    "driver_module": "580.65.06",
    "kernel": "6.8.0",
    "allowed_cores": "0-3",
    "governors": {"performance": "0-3"},
    "cpu_most_khz": {"3500000": "0-3"},
    "turbo": True,
    "smt": False,
    "numa": {"0": "0-3"},
    "overcommit": "heuristic",
    "swapped_in_pages": 100,
    "oom_kills": 0,
    "memory_available_bytes": 10**10,
    "limits": {"cpus": 2.0, "memory_bytes": None, "cores": "0-3", "periods": 0, "throttled_periods": 0,
               "throttled_s": 0.0},
    "virtual": {"hypervisor": True, "vendor": "Amazon EC2", "product": None, "type": None},
    "container": None,
    "busy_s": 100.0,
    "idle_s": 900.0,
    "steal_s": 1.0,
}  # fmt: skip


def after(**changes: Any) -> dict[str, Any]:
    """The second observation, ten seconds later; `gpu=` and `limits=` change single entries of these."""
    found = {**BEFORE, "at_ns": 10 * 10**9, "busy_s": 120.0, "idle_s": 920.0}
    for name, value in changes.items():
        found[name] = {**BEFORE[name], **value} if name in ("gpu", "limits") else value
    return found


@pytest.fixture(scope="module")
def target() -> Target:
    loaded = catalog.load_target(GALLERY / "environment/priority_elevation", root=GALLERY, chapter="environment")
    assert isinstance(loaded, Target)
    return loaded


def standing(
    *seen: Mapping[str, Any],
    start: Mapping[str, Any] | None = None,
    cores: list[int] | None = None,
    uuid: str = "GPU-1",
    versions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the sensor tells: standings seen at calls, as what differs from the start."""
    first = {**START, **(start or {})}
    return {
        "start": first,
        "seen": [{**first, **one, "calls": 10} for one in seen or ({},)],
        "given": first["cores"],
        "cores": cores or first["cores"],
        "uuid": uuid,
        "versions": versions or {"torch": "2.11.0", "cuda": "13.0"},
        "asked": first["threads"],
    }


def arm(target: Target, name: str, *told: Mapping[str, Any], device: str = "cuda", **fields: Any) -> ArmFacts:
    sensed = tuple(replica(standing=facts) for facts in told)
    return ArmFacts(name, target.rung(name), device, True, State.OK, Timing.HOST, sensed=sensed, **fields)


def run(target: Target, *arms: ArmFacts, **fields: Any) -> RunFacts:
    fields = {"before": BEFORE, "after": after(), **fields}
    return RunFacts(target, target.cases[0], "cuda", False, arms, **fields)


def ask(check: str, facts: RunFacts, whose: str = "") -> Finding:
    (found,) = [f for f in registry.examine(facts) if f.check == check and f.arm == whose]
    return found


# -- priority, placement, device ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "seen", "words"),
    [
        ("environment.priority", {"nice": -5}, "nice -5 in 10 of 20 calls, 0 at the start"),
        ("environment.priority", {"policy": 1}, "SCHED_FIFO"),
        ("environment.priority", {"threads": 4}, "4 in 10 of 20 calls, 3 at the start"),
        ("environment.placement", {"cores": [0, 1, 2, 3]}, "core 0, outside of the 3"),
        ("environment.device", {"device": 1}, "made GPU 1 the current one in 10 of 20 calls"),
    ],
)
def test_an_arm_that_takes_more_than_it_was_given_is_caught(
    target: Target, check: str, seen: dict[str, Any], words: str
) -> None:
    facts = run(target, arm(target, "baseline", standing()), arm(target, "cheat", standing(), standing({}, seen)))
    found = ask(check, facts, "cheat")
    assert found.status is Status.CAUGHT
    assert words in found.evidence
    assert ask(check, facts, "baseline").status is Status.PASSED
    portable = replace(facts, validity="portable")
    assert ask(check, portable, "cheat").status is Status.CAUGHT  # a cheat is one in any mode


@pytest.mark.parametrize(
    ("check", "seen"),
    [
        ("environment.priority", {"nice": 5}),
        ("environment.priority", {"policy": 3}),
        ("environment.priority", {"threads": 1}),
        ("environment.placement", {"cores": [2]}),
    ],
)
def test_an_arm_may_take_less_than_it_was_given(target: Target, check: str, seen: dict[str, Any]) -> None:
    facts = run(target, arm(target, "baseline", standing()), arm(target, "optimized", standing(seen)))
    assert ask(check, facts, "optimized").status is Status.PASSED


def test_a_thread_on_a_core_that_was_kept_back_is_caught_on_a_cpu(target: Target) -> None:
    cheat = arm(target, "cheat", standing(cores=[0, 1, 2, 3]), device="cpu")
    found = ask("environment.placement", run(target, cheat), "cheat")
    assert (found.status, "core 0" in found.evidence) == (Status.CAUGHT, True)


def test_a_negative_nice_value_is_told_where_all_have_it_and_suspect_where_one_has(target: Target) -> None:
    low = standing(start={"nice": -5})
    alike = run(target, arm(target, "baseline", low), arm(target, "optimized", low))
    assert ask("environment.priority", alike, "optimized").status is Status.PASSED
    assert "nice -5" in ask("environment.priority", alike, "optimized").evidence
    one = run(target, arm(target, "baseline", standing()), arm(target, "optimized", low))
    assert ask("environment.priority", one, "optimized").status is Status.SUSPECT


def test_a_gpu_that_is_not_the_watched_one_is_said_and_not_suspected(target: Target) -> None:
    found = ask("environment.device", run(target, arm(target, "baseline", standing(uuid="GPU-7"))), "baseline")
    assert found.status is Status.UNAVAILABLE
    assert "GPU-7" in found.evidence


def test_a_process_that_told_nothing_is_unavailable_and_never_passes(target: Target) -> None:
    facts = run(target, arm(target, "baseline"))
    for check in ("environment.priority", "environment.placement", "environment.device", "environment.libraries"):
        whose = "" if check == "environment.libraries" else "baseline"
        assert ask(check, facts, whose).status is Status.UNAVAILABLE, check


# -- before and after --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "changes", "words"),
    [
        ("environment.clocks", {"gpu": {"most_sm_clock_mhz": 1410}}, "1980 before, 1410 after"),
        ("environment.clocks", {"gpu": {"application_sm_clock_mhz": 1200}}, "1980 before, 1200 after"),
        ("environment.power_limit", {"gpu": {"power_limit_w": 350.0}}, "700.0 before, 350.0 after"),
        ("environment.gpu_settings", {"gpu": {"ecc": False}}, "ecc True before, False after"),
        ("environment.gpu_settings", {"gpu": {"mig": True}}, "mig False before, True after"),
        ("environment.gpu_settings", {"gpu": {"compute_mode": "prohibited"}}, "compute mode"),
        ("environment.driver", {"gpu": {"driver": "590.1"}}, "580.65.06 before, 590.1 after"),
        ("environment.governor", {"governors": {"powersave": "0-3"}}, "powersave"),
        ("environment.governor", {"turbo": False}, "turbo True before, False after"),
        ("environment.numa", {"allowed_cores": "0-1"}, "0-1"),
        ("environment.limits", {"limits": {"cpus": 1.0}}, "cpus 2.0 before, 1.0 after"),
        ("environment.swap", {"swapped_in_pages": 100 + (1 << 30) // os.sysconf("SC_PAGE_SIZE")}, "1074 MB"),
        ("environment.limits", {"limits": {"periods": 100, "throttled_periods": 30, "throttled_s": 4.0}}, "30.0%"),
        ("environment.virtualisation", {"steal_s": 11.0}, "20.0% of the processors' time"),
    ],
)
def test_what_changed_or_stepped_in_during_the_run_is_suspect_and_in_portable_mode_a_warning(
    target: Target, check: str, changes: dict[str, Any], words: str
) -> None:
    quiet = run(target, arm(target, "baseline", standing()))
    assert ask(check, quiet).status is Status.PASSED
    facts = run(target, arm(target, "baseline", standing()), after=after(**changes))
    found = ask(check, facts)
    assert found.status is Status.SUSPECT
    assert words in found.evidence
    portable = ask(check, replace(facts, validity="portable"))
    assert portable.status is Status.PASSED
    assert portable.evidence.startswith("warning")
    assert words in portable.evidence


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"limits": {"periods": 100, "throttled_periods": 4, "throttled_s": 4.0}}, "environment.limits"),
        ({"limits": {"periods": 100, "throttled_periods": 90, "throttled_s": 0.1}}, "environment.limits"),
        ({"swapped_in_pages": 400}, "environment.swap"),
        ({"steal_s": 1.5}, "environment.virtualisation"),
        ({"oom_kills": 2}, "environment.swap"),
    ],
)
def test_a_trifle_is_told_and_no_more(target: Target, changes: dict[str, Any], check: str) -> None:
    assert ask(check, run(target, arm(target, "baseline", standing()), after=after(**changes))).status is Status.PASSED


def test_a_container_that_tells_nothing_is_never_suspect(target: Target) -> None:
    """No driver, no frequency driver, no limits, unknown counters: nothing of it is held against a run."""
    bare = {"at_ns": 1, "wall_us": 1, "gpu": {}, "gpu_processes": None, "virtual": {"hypervisor": True}, "kernel": "6"}
    facts = run(target, arm(target, "baseline", standing()), before=bare, after=dict(bare))
    found = [f for f in registry.examine(facts) if f.check.startswith("environment.") and f.arm == ""]
    assert {f.status for f in found} <= {Status.PASSED, Status.UNAVAILABLE, Status.NOT_APPLICABLE}
    unknown = {f.check for f in found if f.status is Status.UNAVAILABLE}
    assert {"environment.clocks", "environment.governor", "environment.power_limit", "environment.swap"} <= unknown


# -- telemetry ---------------------------------------------------------------------------------------------------------


def telemetry(throttle: list[int], clock: float = 1900.0) -> SimpleNamespace:
    count = len(throttle)
    return SimpleNamespace(
        throttle=np.array(throttle), sm_clock_mhz=np.full(count, clock), temperature_c=np.full(count, 70.0)
    )


@pytest.mark.parametrize(
    ("throttle", "status"),
    [
        ([0] * 100, Status.PASSED),
        ([0x4] * 100, Status.PASSED),  # at the power cap: what a heavy kernel does
        ([0x40] * 4 + [0] * 96, Status.PASSED),
        ([0x40] * 6 + [0] * 94, Status.SUSPECT),
        ([0x20] * 6 + [0] * 94, Status.SUSPECT),
        ([-1] * 100, Status.UNAVAILABLE),
    ],
)
def test_heat_over_a_twentieth_of_the_time_is_suspect(target: Target, throttle: list[int], status: Status) -> None:
    facts = run(target, arm(target, "baseline", standing()), telemetry=telemetry(throttle))
    assert ask("environment.thermal", facts).status is status


def test_samples_set_aside_for_a_low_clock_are_counted(target: Target) -> None:
    hot = arm(target, "baseline", standing(), quality=SimpleNamespace(throttled_share=0.6))
    found = ask("environment.thermal", run(target, hot, telemetry=telemetry([0] * 10)))
    assert (found.status, "60% of the samples of baseline" in found.evidence) == (Status.SUSPECT, True)


def test_a_clock_above_its_limit_is_suspect(target: Target) -> None:
    facts = run(target, arm(target, "baseline", standing()), telemetry=telemetry([0] * 10, clock=2100.0))
    assert "2100 MHz, above the limit of 1980 MHz" in ask("environment.clocks", facts).evidence
    assert ask("environment.clocks", facts).status is Status.SUSPECT


# -- neighbours --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("busy_at_us", "here", "ours", "status"),
    [
        (2_000_000, True, True, Status.SUSPECT),
        (900_000, True, True, Status.PASSED),  # before the run
        (None, True, True, Status.PASSED),  # it holds memory and does nothing
        (2_000_000, False, True, Status.PASSED),  # a number of another namespace: it may be ours
        (2_000_000, True, False, Status.PASSED),  # the driver counts as the host does
    ],
)
def test_only_a_stranger_that_computed_meanwhile_spoils_a_run(
    target: Target, busy_at_us: int | None, here: bool, ours: bool, status: Status
) -> None:
    other = {"pid": 77, "here": here, "memory_bytes": 10**9, "sm_share_pct": 40, "busy_at_us": busy_at_us}
    seen = after(gpu_processes=[other], gpu_pids_are_ours=ours)
    found = ask("environment.gpu_neighbours", run(target, arm(target, "baseline", standing()), after=seen))
    assert found.status is status


# -- versions ----------------------------------------------------------------------------------------------------------


def test_processes_with_different_libraries_are_suspect(target: Target) -> None:
    other = standing(versions={"torch": "2.10.0", "cuda": "13.0"})
    facts = run(target, arm(target, "baseline", standing()), arm(target, "optimized", other))
    found = ask("environment.libraries", facts)
    assert (found.status, "2.10.0 in optimized" in found.evidence) == (Status.SUSPECT, True)
    alike = run(target, arm(target, "baseline", standing()), arm(target, "optimized", standing()))
    assert ask("environment.libraries", alike).evidence == "the same in every process: cuda 13.0, torch 2.11.0"


def test_a_driver_whose_module_is_another_waits_for_a_restart(target: Target) -> None:
    both = {"before": {**BEFORE, "driver_module": "570.1"}, "after": after(driver_module="570.1")}
    assert "waits for a restart" in ask("environment.driver", run(target, **both)).evidence


def test_a_step_of_versions_since_the_last_run_is_told_and_spoils_nothing(target: Target) -> None:
    then = {"driver": "570.1", "kernel": "6.8.0", "versions": {"torch": "2.11.0"}, "cuda": "13.0"}
    past = ({"wall": "2026-01-01", "environment": then},)
    facts = run(target, arm(target, "baseline", standing()), history=past)
    found = ask("environment.comparable", facts)
    assert found.status is Status.PASSED
    assert "driver 570.1 then, 580.65.06 now" in found.evidence
    assert "torch" not in found.evidence
    same = ({"wall": "2026-01-01", "environment": {**then, "driver": "580.65.06"}},)
    assert "not alike" not in ask("environment.comparable", replace(facts, history=same)).evidence
    assert ask("environment.comparable", replace(facts, history=())).status is Status.NOT_APPLICABLE


# -- sensors -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(target: Target) -> Site:
    return Site("cpu", target.folder, target, target.rung("cheat"), frozenset())


@pytest.fixture
def restored() -> Iterator[None]:
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    yield
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(threads)


def call(target: Target, *outputs: torch.Tensor) -> Call:
    return Call("timed", target.cases[0], [[]], [outputs])


def test_the_sensor_sees_more_threads(target: Target, site: Site, restored: None) -> None:
    sensor = environment.Standing(site)
    sensor.before_import()
    given = torch.get_num_threads()
    torch.set_num_threads(given + 2)
    sensor.after_call(call(target))
    facts = sensor.facts()
    assert (facts.start.threads, [one.threads for one in facts.seen]) == (given, [given + 2])
    told = ArmFacts("cheat", site.rung, "cpu", True, State.OK, Timing.HOST, sensed=(replica(standing=facts),))
    assert ask("environment.priority", run(target, told), "cheat").status is Status.CAUGHT


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only: there is none to be kept back")
def test_the_sensor_sees_a_helper_thread_on_another_core(target: Target, site: Site, restored: None) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    sensor = environment.Standing(site)
    sensor.before_import()
    settled, over = threading.Event(), threading.Event()

    def settle() -> None:
        os.sched_setaffinity(0, {cores[1]})
        settled.set()
        over.wait(10)

    helper = threading.Thread(target=settle)
    helper.start()
    settled.wait(10)
    sensor.after_call(call(target))
    over.set()
    helper.join()
    facts = sensor.facts()
    assert cores[1] in facts.cores
    assert facts.start.cores == [cores[0]]


# -- neighbours on the processors --------------------------------------------------------------------------------------


def test_who_waited_and_who_else_worked_is_told_and_an_arm_that_hardly_ran_is_suspect(target: Target) -> None:
    def found(waited: float | None, **fields: Any) -> Finding:
        told = arm(
            target, "optimized", device="cpu", waited_share=waited, others_cores=1.5, pressure_share=0.6, **fields
        )
        return ask("environment.cpu_neighbours", run(target, arm(target, "baseline", device="cpu"), told))

    busy = found(0.18, stolen_share=0.01)
    assert busy.status is Status.PASSED
    assert "threads of optimized stood in line for 18.0% of its turns" in busy.evidence
    assert "others kept 1.50 processors busy" in busy.evidence
    assert "the hypervisor took 1.0%" in busy.evidence
    assert "something on the machine stood in line for 60% of the time" in busy.evidence
    assert found(0.99).status is Status.SUSPECT
    assert found(None).status is Status.UNAVAILABLE


@pytest.mark.parametrize(("factor", "status"), [(6.06, Status.UNAVAILABLE), (1.01, Status.PASSED)])
def test_beside_busy_neighbours_nothing_passes_and_nobody_is_accused(
    factor: float, status: Status, target: Target
) -> None:
    """The noise floor allows for them, so that no verdict is taken away: there is no suspicion, and no answer."""
    met = Quality(busy_factor=factor, waited_share=0.835, others_cores=1.67, cores=2)
    told = arm(target, "optimized", device="cpu", waited_share=0.835, others_cores=1.67, quality=met)
    for validity in ("strict", "portable"):
        found = ask("environment.cpu_neighbours", run(target, told, validity=validity))
        assert found.status is status
        assert "threads of optimized stood in line for 83.5% of its turns" in found.evidence
    starved = run(target, replace(told, waited_share=0.99))
    assert ask("environment.cpu_neighbours", starved).status is Status.SUSPECT
    assert ask("environment.cpu_neighbours", replace(starved, validity="portable")).status is status
