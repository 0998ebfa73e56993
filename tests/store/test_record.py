"""The record itself: what it refuses, what it cleans, and how a run that goes on becomes the next one."""

from __future__ import annotations

import json

import msgspec
import pytest

from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Verdict
from aisp.store.record import (
    Arm,
    Comparison,
    ContradictionError,
    Finding,
    Fuzz,
    Naive,
    Quarantine,
    Run,
    Step,
    unplanned,
)
from aisp.tui.cli.schema import schema
from tests.store.examples import RECORDS, caught, examined, fuzz_of, measured, planned

EVIL = "a\x1b[2J\u202e b\n"
CLEAN = "a␛[2J\\u202e b"


def test_texts_of_a_record_are_clean_whatever_they_came_from() -> None:
    arm = Arm(EVIL, State.USER_ERROR, reason=EVIL, detail=EVIL)
    assert (arm.rung, arm.reason, arm.detail) == (CLEAN, CLEAN, CLEAN + "\n")
    ratio = Comparison(EVIL, EVIL, Verdict.NONE, note=EVIL)
    assert (ratio.rung, ratio.baseline, ratio.note) == (CLEAN, CLEAN, CLEAN)
    found = Finding(EVIL, EVIL, FindingStatus.SUSPECT, EVIL)
    assert (found.check, found.arm, found.evidence) == (CLEAN, CLEAN, CLEAN)
    step = Step(EVIL, EVIL, 0, detail=EVIL)
    assert (step.name, step.arm, step.detail) == (CLEAN, CLEAN, CLEAN)
    held = Quarantine(EVIL, b"/f", EVIL, "c0de", "01", EVIL, EVIL, EVIL)
    assert {held.target, held.rung, held.check, held.evidence, held.wall} == {CLEAN}
    assert Naive(note=EVIL).note == CLEAN
    run = msgspec.structs.replace(planned(), target=EVIL, title=EVIL, case=EVIL, flags=(EVIL,))
    assert {run.target, run.title, run.case, *run.flags} == {CLEAN}


@pytest.mark.parametrize("one", RECORDS.values(), ids=lambda one: type(one).__name__)
def test_every_record_travels_and_comes_back_equal(one: msgspec.Struct) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=type(one)) == one


def test_a_record_that_contradicts_itself_or_has_an_unknown_word_is_not_decoded() -> None:
    body = msgspec.msgpack.decode(msgspec.msgpack.encode(measured(planned())))
    for name, value in (("correctness", "wrong"), ("state", "dreaming"), ("verdict", 7)):
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode({**body, name: value}), type=Run)


def test_an_arm_has_its_role_as_a_field_and_a_name_of_no_role_gives_none() -> None:
    roles = {name: Arm(name, State.PLANNED) for name in ("baseline_slow", "optimized", "cheat", "softmax")}
    assert [arm.role for arm in roles.values()] == [Role.BASELINE, Role.OPTIMIZED, Role.CHEAT, None]
    assert Arm("softmax", State.PLANNED, role=Role.PEER).role is Role.PEER
    twin = Arm("baseline (A/A)", State.PLANNED)
    assert (twin.role, twin.twin, roles["baseline_slow"].twin) == (Role.BASELINE, True, False)


def test_a_run_is_announced_without_what_would_let_anybody_foresee_its_inputs() -> None:
    plan = {"surprise": 17, "code": "c0de", "validity": "portable", "without": ["a.b"]}
    run = msgspec.structs.replace(planned(), manifest=plan)
    told = run.announced([Arm("baseline", State.PLANNED)])
    assert (run.seed is None, told.seed) == (False, None)
    assert "surprise" not in told.manifest
    assert (told.code, told.policy, told.without, told.arms[0].rung) == ("c0de", "portable", ("a.b",), "baseline")


def test_what_is_known_of_a_run_takes_the_place_of_what_was_known() -> None:
    run = unplanned("01").with_arm(Arm("a", State.RUNNING)).with_arm(Arm("b", State.RUNNING))
    run = run.with_arm(Arm("a", State.OK, Correctness.CORRECT))
    assert [(arm.rung, arm.state) for arm in run.arms] == [("a", State.OK), ("b", State.RUNNING)]
    for verdict in (Verdict.UNDECIDED, Verdict.NONE):
        run = run.with_comparison(Comparison("b", "a", verdict))
    assert [item.verdict for item in run.comparisons] == [Verdict.NONE]
    run = (
        run.with_step(Step("compile", "a", 5)).with_step(Step("compile", "a", 5, 2.0)).with_step(Step("verify", "a", 9))
    )
    assert [(step.name, step.duration_ms) for step in run.steps] == [("compile", 2.0), ("verify", None)]
    lost = run.lost("the engine ended")
    assert (lost.state, [arm.state for arm in lost.arms]) == (State.ENGINE_LOST, [State.OK, State.ENGINE_LOST])


def test_what_must_not_be_true_of_a_run_that_goes_on() -> None:
    with pytest.raises(ContradictionError, match="results before its end"):
        msgspec.structs.replace(planned(), findings=examined(planned()).findings)
    with pytest.raises(ContradictionError, match="which was caught"):
        run = caught(planned())
        faster = Comparison("optimized", "baseline", Verdict.FASTER, 2.0, 1.9, 2.1)
        msgspec.structs.replace(run, comparisons=(faster,))
    with pytest.raises(ContradictionError, match="a time for outputs that were not found correct"):
        Arm("a", State.RUNNING, timing=Timing.HOST, median_ms=1.0, sample_count=3)


def test_a_fuzz_is_the_same_as_plain_data() -> None:
    fuzz, failures = fuzz_of()
    assert Fuzz.of(json.loads(json.dumps(fuzz.plain()))) == fuzz
    assert [type(failure).of(json.loads(json.dumps(failure.plain()))) for failure in failures] == failures


def test_the_schema_is_made_of_the_records() -> None:
    found = schema()
    assert found["$defs"]["Run"]["properties"].keys() == set(Run.__struct_fields__)
    assert found["$defs"]["Arm"]["properties"].keys() == set(Arm.__struct_fields__)
    assert found["$defs"]["Run"]["properties"]["folder"] == {"type": "string"}
    assert "optimized" in found["$defs"]["Role"]["enum"]
