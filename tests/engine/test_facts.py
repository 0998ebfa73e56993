"""From findings to what a run says: validity, and which speed-ups may be told."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from aisp.checks import registry
from aisp.engine import facts
from aisp.engine.protocol import reports
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Validity, Verdict
from aisp.store.record import Arm, Comparison, Finding, Quarantine
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target

TIMED = Arm(
    rung="optimized",
    state=State.OK,
    correctness=Correctness.CORRECT,
    timing=Timing.HOST,
    median_ms=1.0,
    sample_count=9,
)


def finding(status: FindingStatus, arm: str = "optimized") -> Finding:
    return Finding("timing.wall_clock", arm, status, "0.1 ms by events, 9 ms by the engine's clock")


def faster(rung: str, baseline: str = "baseline") -> Comparison:
    return Comparison(rung, baseline, Verdict.FASTER, speedup=2.0, low=1.9, high=2.1, floor=0.01)


@pytest.mark.parametrize(
    ("statuses", "left_out", "wanted"),
    [
        (("passed", "not_applicable", "unavailable"), False, Validity.VALID),
        (("passed", "suspect"), False, Validity.SUSPECT),
        (("suspect", "caught"), False, Validity.CAUGHT),
        (("passed",), True, Validity.SUSPECT),
        (("caught",), True, Validity.CAUGHT),
    ],
)
def test_the_gravest_finding_decides_and_what_was_left_out_is_doubt(
    statuses: tuple[str, ...], left_out: bool, wanted: Validity
) -> None:
    found = [finding(FindingStatus(status)) for status in statuses]
    assert facts.overall(found, [TIMED], left_out=left_out) is wanted


def test_a_run_without_a_time_is_neither_valid_nor_suspect() -> None:
    untimed = Arm(rung="optimized", state=State.UNAVAILABLE, reason="needs a GPU")
    assert facts.overall([finding(FindingStatus.PASSED)], [untimed], left_out=False) is Validity.UNKNOWN


def test_no_speed_up_of_a_caught_rung_is_told_and_that_of_its_siblings_is() -> None:
    doubted = facts.doubted([finding(FindingStatus.CAUGHT, "optimized")], {}, "code")
    told = facts.without_doubted([faster("optimized"), faster("optimized_tiled")], doubted)
    assert [c.speedup for c in told] == [None, 2.0]
    assert told[0].verdict is Verdict.NONE
    assert told[0].note.startswith("caught by timing.wall_clock: 0.1 ms by events")


def test_a_caught_baseline_takes_every_comparison_with_it() -> None:
    doubted = facts.doubted([finding(FindingStatus.CAUGHT, "baseline")], {}, "code")
    told = facts.without_doubted([faster("optimized"), faster("optimized", "baseline_compiled")], doubted)
    assert [c.speedup for c in told] == [None, 2.0]


def test_what_is_caught_of_the_run_as_a_whole_doubts_all() -> None:
    doubted = facts.doubted([finding(FindingStatus.CAUGHT, "")], {}, "code")
    assert [c.speedup for c in facts.without_doubted([faster("optimized"), faster("other")], doubted)] == [None, None]


def test_a_suspect_rung_keeps_its_figures() -> None:
    assert facts.doubted([finding(FindingStatus.SUSPECT)], {}, "code") == {}


def test_a_quarantined_rung_that_is_not_caught_this_time_stays_silent_until_its_code_changes() -> None:
    mark = Quarantine("t", b"/t", "optimized", "code", "RUN", "output.values", "y[0]: got 1, expected 2", "now")
    same = facts.without_doubted([faster("optimized")], facts.doubted([], {"optimized": mark}, "code"))
    other = facts.without_doubted([faster("optimized")], facts.doubted([], {"optimized": mark}, "other code"))
    assert same[0].speedup is None
    assert same[0].note == "quarantined: output.values: y[0]: got 1, expected 2"
    assert other[0].speedup == 2.0


GOOD = {"samples": 9, "total_ms": 1.0, "lag_ms": None, "usual_lag_ms": None, "beside_ms": 0.0, "left_ms": 0.0}
TOLD = {
    "optimized_misspelt": {**{name: value for name, value in GOOD.items() if name != "left_ms"}, "left_msec": 0.0},
    "optimized_missing": {"samples": 9},
    "optimized_mistyped": {**GOOD, "samples": "9"},
    "optimized_no_number": {**GOOD, "beside_ms": math.nan},
}
TELLS = """
import sys
from math import nan

sys.modules["aisp.checks.timing"].Idle.facts = lambda self: {told}

def run(x):
    return x * 2
"""


@pytest.mark.slow
async def test_a_worker_that_sends_facts_of_another_form_passes_nothing_with_them(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    rungs = {f"{name}.py": TELLS.format(told=repr(told)) for name, told in TOLD.items()}
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 16 }\n'
    target = write_target(tmp_path / "mine", rungs, needs="{ gpus = 0 }", cases=cases)
    result = await shared.run(tmp_path / "mine", target.id, device="cpu", quick=True)
    found = {f.arm: f for f in result.record.findings if f.check == "timing.device_idle"}
    assert {found[arm].status for arm in ("baseline", "optimized")} == {FindingStatus.PASSED}
    for arm in TOLD:
        assert found[arm].status is FindingStatus.SUSPECT, found[arm]
        assert "idle: " in found[arm].evidence
    assert "left_msec" in found["optimized_misspelt"].evidence
    channel = {f.arm: f.status for f in result.record.findings if f.check == "evaluation.result_channel"}
    assert [channel[arm] for arm in ("optimized", *TOLD)] == [
        FindingStatus.PASSED,
        *[FindingStatus.SUSPECT] * len(TOLD),
    ]


@pytest.mark.parametrize("told", [0, 2, 3])
def test_a_report_of_other_processes_than_there_are_says_nothing_of_any(told: int) -> None:
    failed = reports.Sensed(failed={"idle": "after_call: no device"})
    assert facts.sensed(reports.Inspected(sensed=[failed]), 1, 3) == [registry.Sensed(failed=failed.failed, replica=3)]
    assert facts.sensed(reports.Inspected(sensed=[failed] * told), 1, 3) == [registry.Sensed(replica=3)]
