"""Compile: code for values, modes that move and autotuners that disagree are told; code for shapes is not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from aisp.checks import compile as compiling
from aisp.checks import registry
from aisp.checks.registry import ArmFacts, Call, RunFacts, Site, Status
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State, Timing
from aisp.store.samples import Samples
from tests import imported
from tests.checks.sensed import plain, replica
from tests.replacing import replace

ROOT = Path(compiling.__file__).parents[2]
GALLERY = ROOT / "checks" / "gallery"


def fixture(name: str) -> Target:
    loaded = catalog.load_target(GALLERY / name, root=GALLERY, chapter=name.partition("/")[0])
    assert isinstance(loaded, Target), loaded
    return loaded


TARGET = fixture("compile/guard_failure_hidden")
SITE = Site("cpu", TARGET.folder, TARGET, TARGET.rung("cheat"), frozenset())


def arm(sensor: str, *replicas: dict[str, Any]) -> ArmFacts:
    sensed = tuple(replica(**{sensor: facts}) for facts in replicas)
    return ArmFacts("cheat", TARGET.rung("cheat"), "cpu", True, State.OK, Timing.HOST, sensed=sensed)


RUN = RunFacts(TARGET, TARGET.cases[0], "cpu", quick=True, arms=())


def call(stage: str, device_ms: float = 1.0) -> Call:
    return Call(stage, TARGET.cases[0], [()], [()], SimpleNamespace(device_ms=device_ms))


def test_every_row_has_a_fixture_or_says_which_test_proves_its_answer() -> None:
    rows = {issue.id.partition(".")[2] for issue in compiling.ISSUES if issue.listed}
    assert rows == {
        "compilation_cache_hit",
        "trace_reuse",
        "mode_inconsistency",
        "inductor_asymmetry",
        "guard_failure_hidden",
        "autotuning_variance",
        "symbolic_shape_exploit",
    }
    for issue in compiling.ISSUES:
        if issue.fixture:
            rungs = {rung.name: rung for rung in fixture(issue.fixture).rungs}
            assert "cheat" in rungs and rungs["optimized"].summary.startswith("twin: ")
        else:
            assert "test_compile.py" in issue.answer


# -- switches ----------------------------------------------------------------------------------------------------------


def switched(change: Any) -> dict[str, Any]:
    sensor = compiling.Switches(SITE)
    sensor.before_import()
    before = torch.get_float32_matmul_precision()
    try:
        sensor.after_call(call("verify"))
        for number in range(20):
            change(number)
            sensor.after_call(call("timed"))
        sensor.after_timing()
    finally:
        torch.set_float32_matmul_precision(before)
    return plain(sensor.facts())


def test_a_switch_that_moves_after_the_verification_is_caught_with_both_values() -> None:
    was = torch.get_float32_matmul_precision()
    facts = switched(lambda number: torch.set_float32_matmul_precision("medium") if number > 10 else None)
    assert facts["moved"] == {"float32_matmul_precision": (was, "medium")}
    status, evidence = compiling.mode(arm("switches", facts), RUN)
    assert status is Status.CAUGHT and f"was {was}, then medium" in evidence


def test_switches_that_stay_pass() -> None:
    facts = switched(lambda number: None)
    assert facts["moved"] == {} and facts["looks"] > 3
    assert compiling.mode(arm("switches", facts), RUN)[0] is Status.PASSED


def test_every_switch_that_is_watched_can_be_read() -> None:
    found = compiling.switches(torch)
    assert found["default_dtype"] == "torch.float32" and found["flush_denormal"] == "False"
    assert len(found) >= 14


@pytest.mark.slow
def test_settings_that_one_process_changes_do_not_reach_another() -> None:
    """The baseline's process is another one than the rung's: engine.spawner starts one for each arm."""
    change = "import torch; torch.set_float32_matmul_precision('medium'); torch.use_deterministic_algorithms(True)"
    read = "import torch; from aisp.checks.compile import switches; print(sorted(switches(torch).items()))"

    def said(code: str) -> str:
        done = imported.python(code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = said(read)
    assert said(f"{change}; {read}") != first
    assert said(read) == first


# -- autotuners --------------------------------------------------------------------------------------------------------


Process = tuple[str | None, float, float | None]  # what it chose, its samples and the judge's time, in ms


def timed(*processes: Process, first: int = 0, rung: str = "cheat") -> ArmFacts:
    """An arm of these processes, numbered from the first one on; None is one without an autotuner."""
    numbers = np.arange(first, first + len(processes))
    facts = [{"tuners": int(way is not None), "chosen": {"cheat.tuner": way} if way else {}} for way, _, _ in processes]
    sensed = tuple(replace(replica(choices=each), replica=int(n)) for n, each in zip(numbers, facts, strict=True))
    ms, none = np.array([ms for _, ms, _ in processes]), np.zeros(len(processes), np.int64)
    samples = Samples(ms, ms, none, none, numbers, none, none, np.full(len(ms), np.nan))
    judged = tuple((int(n), each) for n, (_, _, each) in zip(numbers, processes, strict=True) if each is not None)
    known = ArmFacts(rung, TARGET.rung(rung), "cpu", True, State.OK, Timing.HOST, sensed=sensed[::-1])
    return replace(known, samples=samples, judged_ms=judged)


def flat(*base_ms: float, first: int = 0) -> ArmFacts:
    """A baseline that takes so long in each replica, by both clocks."""
    return timed(*((None, ms, ms) for ms in base_ms), first=first, rung="baseline")


@pytest.mark.parametrize(
    ("processes", "base_ms", "status"),
    [
        ([("4", 1.0, 1.0), ("1024", 3.0, 3.0)], [5, 5], Status.CAUGHT),
        ([("4", 1.0, 1.0), ("1024", 3.0, 3.0), ("4", 1.1, 1.2), ("64", 1.0, 1.0)], [5] * 4, Status.CAUGHT),
        ([("4", 1.0, None), ("1024", 3.0, None)], [5, 5], Status.CAUGHT),  # judged inside: its samples alone
        ([("4", 1.0, 1.0), ("1024", 1.2, 1.2)], [5, 5], Status.PASSED),  # either is as good
        ([("4", 1.0, 1.0), ("4", 3.0, 3.0)], [5, 5], Status.PASSED),  # the machine, not the choice
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.0)], [5, 5], Status.PASSED),  # the judge saw no such process
        ([("4", 1.0, 1.0), ("1024", 1.0, 1.6)], [5, 5], Status.PASSED),  # nor had it such samples
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.7)], [5, 8], Status.PASSED),  # the neighbour met the baseline too
        ([("4", 1.0, 1.0), ("1024", 3.0, 3.0), ("1024", 1.0, 1.0)], [5] * 3, Status.PASSED),  # so it is not the choice
        ([("4", 1.0, 1.0)], [5], Status.NOT_APPLICABLE),
        ([(None, 1.0, 1.0), (None, 9.0, 9.0)], [5, 5], Status.NOT_APPLICABLE),
        ([], [], Status.UNAVAILABLE),
    ],
)
def test_autotuners_must_agree_where_it_matters(processes: list[Process], base_ms: list[float], status: Status) -> None:
    rung = replace(
        timed(*processes), sensed=timed(*processes).sensed or (replica(choices={"tuners": 1, "chosen": {}}),)
    )
    assert compiling.choice(rung, replace(RUN, arms=(flat(*base_ms), rung)))[0] is status


@pytest.mark.parametrize(
    ("before", "fresh", "status"),
    [
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.6)], ("1024", 1.0, 1.0), Status.PASSED),
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.6)], ("4", 1.0, 1.0), Status.PASSED),  # one alone was slow, of three
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.6)], ("4", 1.6, 1.6), Status.PASSED),  # whatever it chooses it may be slow
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.6)], ("1024", 1.7, 1.7), Status.CAUGHT),
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.6)], ("64", 1.7, 1.7), Status.CAUGHT),  # it draws lots
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.6), ("1024", 1.6, 1.6)], ("4", 1.0, 1.0), Status.CAUGHT),
        ([("4", 1.0, 1.0), ("1024", 1.6, 1.6)], (None, 1.0, 1.0), Status.PASSED),
    ],
)
def test_one_slow_process_among_all_is_no_lottery_when_it_is_asked_again(
    before: list[Process], fresh: Process, status: Status
) -> None:
    """A fresh process is one replica, and alone it chooses once: what those before chose is held against it."""
    last = len(before)
    rung, again = timed(*before), timed(fresh, first=last)
    earlier = (flat(*[5.0] * last), rung)
    assert compiling.choice(rung, replace(RUN, arms=earlier))[0] is Status.CAUGHT
    asked = replace(RUN, arms=(flat(5.0, first=last), again), earlier=earlier)
    assert compiling.choice(again, asked)[0] is status


def test_the_choice_is_read_from_the_lessons_own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("made")
    module.__file__ = str(TARGET.folder / "made.py")
    vars(module).update(tuner=SimpleNamespace(best_config="BLOCK=64", configs=[1, 2]), other=SimpleNamespace(a=1))
    monkeypatch.setitem(sys.modules, "made", module)
    sensor = compiling.Choices(SITE)
    sensor.after_timing()
    assert plain(sensor.facts()) == {"tuners": 1, "chosen": {"made.tuner": "BLOCK=64"}}


@pytest.mark.parametrize("check", compiling.CHECKS, ids=lambda check: check.id)
def test_a_judge_says_when_it_has_nothing_to_judge_and_when_its_sensor_failed(check: registry.Check) -> None:
    assert check.arm is not None and check.sensor is not None
    untimed = replace(arm(check.sensor.name), timing=Timing.NONE)
    assert check.arm(untimed, RUN)[0] is Status.NOT_APPLICABLE
    failed = arm(check.sensor.name, {"failed": "it stumbled"})
    found = registry.examine(replace(RUN, arms=(failed,)))
    mine = next(finding for finding in found if finding.check == check.id)
    assert (mine.status, mine.evidence) == (Status.UNAVAILABLE, "it stumbled")
