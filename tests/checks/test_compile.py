"""Compile: code for values, modes that move and autotuners that disagree are told; code for shapes is not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from aisp.checks import compile as compiling
from aisp.checks import registry
from aisp.checks.registry import ArmFacts, Call, RunFacts, Site, Status
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State, Timing
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


RUN = RunFacts(TARGET, TARGET.cases[0], "cpu", quick=True, replicas=1, arms=())


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


def chosen(config: str, median_ms: float, tuners: int = 1) -> dict[str, Any]:
    return {"tuners": tuners, "chosen": {"cheat.tuner": config} if tuners else {}, "median_ms": median_ms}


@pytest.mark.parametrize(
    ("replicas", "status"),
    [
        ([chosen("4", 1.0), chosen("1024", 3.0)], Status.CAUGHT),
        ([chosen("4", 1.0), chosen("1024", 1.2)], Status.PASSED),  # either is as good
        ([chosen("4", 1.0), chosen("4", 3.0)], Status.PASSED),  # the machine, not the choice
        ([chosen("4", 1.0)], Status.NOT_APPLICABLE),
        ([chosen("", 1.0, tuners=0), chosen("", 9.0, tuners=0)], Status.NOT_APPLICABLE),
    ],
)
def test_autotuners_must_agree_where_it_matters(replicas: list[dict[str, Any]], status: Status) -> None:
    assert compiling.choice(arm("choices", *replicas), RUN)[0] is status


def test_the_choice_is_read_from_the_lessons_own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("made")
    module.__file__ = str(TARGET.folder / "made.py")
    vars(module).update(tuner=SimpleNamespace(best_config="BLOCK=64", configs=[1, 2]), other=SimpleNamespace(a=1))
    monkeypatch.setitem(sys.modules, "made", module)
    sensor = compiling.Choices(SITE)
    for device_ms in (1.0, 2.0, 4.0):
        sensor.after_call(call("timed", device_ms))
    sensor.after_timing()
    assert plain(sensor.facts()) == {"tuners": 1, "chosen": {"made.tuner": "BLOCK=64"}, "median_ms": 2.0}


@pytest.mark.parametrize("check", compiling.CHECKS, ids=lambda check: check.id)
def test_a_judge_says_when_it_has_nothing_to_judge_and_when_its_sensor_failed(check: registry.Check) -> None:
    assert check.arm is not None and check.sensor is not None
    untimed = replace(arm(check.sensor.name), timing=Timing.NONE)
    assert check.arm(untimed, RUN)[0] is Status.NOT_APPLICABLE
    failed = arm(check.sensor.name, {"failed": "it stumbled"})
    found = registry.examine(replace(RUN, arms=(failed,)))
    mine = next(finding for finding in found if finding.check == check.id)
    assert (mine.status, mine.evidence) == (Status.UNAVAILABLE, "it stumbled")
