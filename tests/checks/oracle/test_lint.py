"""The linter: what it makes of facts, and which facts it finds on a task that a careless kernel would pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

from aisp.checks.oracle import lint
from aisp.checks.oracle.examiner import Examiner
from aisp.checks.oracle.fixed import Held
from aisp.kernels.catalog import Target
from tests.checks.oracle.targets import case, target

TWO = target('x = "float32 [M, N] normal"\nw = "float32 [N] normal"\nunit = "float32 [N] ones"')
FACT: dict[str, Any] = {"elements": 64, "zeros": False, "constant": False, "half": False, "lower": False, "ignored": []}


def items(
    *facts: Mapping[str, Any],
    of: Target = TWO,
    errors: Mapping[str, Sequence[float]] | None = None,
    drawn: Sequence[str] = ("M", "N"),
    held: Sequence[Held] = (),
) -> dict[str, lint.Item]:
    gathered = [{**FACT, **fact} for fact in facts]
    return {item.name: item for item in lint.items(of, gathered, errors or {}, drawn, held)}


# -- sentences from facts ------------------------------------------------------------------------------------------


def test_a_task_that_refuses_every_careless_answer_is_ok_in_every_item() -> None:
    found = items({}, {}, {})
    assert [(item.name, item.status) for item in found.values()] == [
        ("zeros", "ok"),
        ("constant", "ok"),
        ("half", "ok"),
        ("lower", "ok"),
        ("axes", "ok"),
        ("inputs", "ok"),
    ]
    assert found["zeros"].detail == "an output of zeros would be refused in 3 of 3 cases"
    assert found["inputs"].detail == "every input matters: x, w", "one that is always ones cannot"


@pytest.mark.parametrize("name", ["zeros", "constant", "half", "lower"])
def test_an_answer_that_passes_in_every_case_is_weak_and_in_all_but_one_is_not(name: str) -> None:
    assert items({name: True}, {name: True})[name].status == "weak"
    assert "would pass in all 2 cases; give other values" in items({name: True}, {name: True})[name].detail
    assert items({name: True}, {})[name].detail.endswith("would be refused in 1 of 2 cases")
    assert items({name: True}, {})[name].status == "ok"


def test_cases_of_a_few_elements_prove_nothing() -> None:
    found = items({"elements": 1, "zeros": True}, {"elements": 15, "zeros": True})
    assert found["zeros"].status == "unknown"
    assert found["zeros"].detail == "no case could tell whether an output of zeros would pass"
    assert items({"elements": 1, "zeros": True}, {"elements": 16})["zeros"].detail.endswith("in 1 of 1 cases")


def test_without_a_posed_case_everything_is_unknown() -> None:
    assert {item.status for item in items().values()} == {"unknown"}


def test_a_dtype_that_has_no_narrower_one_leaves_that_unknown() -> None:
    exact = {name: value for name, value in FACT.items() if name != "lower"}
    found = {item.name: item for item in lint.items(TWO, [exact], {}, (), ())}
    assert (found["lower"].status, found["zeros"].status) == ("unknown", "ok")


def test_an_axis_that_the_code_holds_fixed_is_named_with_what_says_so() -> None:
    held = [Held("K", (8,), "the reference refuses K=5: k is larger than the axis")]
    assert items({}, drawn=["M"], held=held)["axes"].detail == (
        "K is fixed (the reference refuses K=5: k is larger than the axis); sizes that vary: M"
    )
    assert items({}, drawn=(), held=held)["axes"].detail.endswith("; no size varies")
    assert items({})["axes"].detail == "sizes that vary: M, N"


def test_an_input_is_ignored_only_if_no_case_changes_with_it() -> None:
    assert items({"ignored": ["w"]}, {"ignored": ["w", "x"]})["inputs"] == lint.Item(
        "inputs", "weak", "the reference ignores w: no case changed with it"
    )
    assert items({"ignored": ["w"]}, {"ignored": ["x"]})["inputs"].status == "ok"


STATED = target(more="tolerance = { float32 = 1e-4, float16 = 1e-3 }")


@pytest.mark.parametrize(
    ("errors", "status", "told"),
    [
        ([1e-5] * 100, "weak", "0.0001 is stated, 1.5e-05 is calibrated over 100 right answers"),
        ([5e-5] * 100, "ok", "7.5e-05 is calibrated"),
        ([1e-9] * 94 + [5e-5] * 6, "ok", "7.5e-05 is calibrated"),
        ([1e-9] * 96 + [5e-5] * 4, "weak", "1.5e-09 is calibrated"),
        ([1e-9] * 7, "unknown", "7 right cases are too few to calibrate 0.0001"),
        ([], "unknown", "0 right cases are too few"),
    ],
)
def test_a_stated_tolerance_is_held_against_what_right_rungs_need(errors: list[float], status: str, told: str) -> None:
    item = items({}, of=STATED, errors={"float32": errors})["tolerance float32"]
    assert item.status == status
    assert told in item.detail


def test_tolerances_that_nobody_stated_and_dtypes_of_no_output_are_no_item() -> None:
    assert "tolerance float16" not in items({}, of=STATED, errors={"float16": [1e-9] * 9})
    assert not any(name.startswith("tolerance") for name in items({}, errors={"float32": [1e-9] * 9}))


def test_a_tolerance_of_zero_cannot_be_loose() -> None:
    exact = target(more="tolerance = { float32 = 0 }")
    assert items({}, of=exact)["tolerance float32"] == lint.Item("tolerance float32", "ok", "bit-equal is asked for")


def test_an_item_is_plain_data() -> None:
    assert lint.Item("zeros", "ok", "said").plain() == {"name": "zeros", "status": "ok", "detail": "said"}


# -- facts from a task ---------------------------------------------------------------------------------------------


def facts(of: Target, run: Callable[..., Any], m: int = 8, n: int = 64) -> dict[str, Any]:
    what = case({"M": m, "N": n})
    examiner = Examiner(of, run, None, "cpu")
    examiner.pose(what, 7)
    return lint.facts(examiner, of, what, 7)


def test_a_sound_task_refuses_zeros_constant_half_and_a_narrower_dtype() -> None:
    plain = target('x = "float32 [M, N] normal"\nw = "float32 [N] normal"')
    assert facts(plain, lambda x, w: x * w) == FACT | {"elements": 512}


def test_a_loose_tolerance_lets_a_narrower_dtype_pass() -> None:
    loose = target(more="tolerance = { float32 = 1e-2 }")
    found = facts(loose, lambda x: x * 2)
    assert (found["lower"], found["zeros"]) == (True, False)


def test_a_task_whose_outputs_are_all_alike_accepts_a_constant() -> None:
    found = facts(target('x = "float32 [M, N] ones"'), lambda x: x * 2)
    assert (found["constant"], found["zeros"], found["half"]) == (True, False, False)


def test_a_task_whose_truth_is_zero_accepts_everything() -> None:
    found = facts(target(), lambda x: x - x)
    assert (found["zeros"], found["constant"], found["half"]) == (True, True, True)
    assert found["ignored"] == ["x"]


def test_a_task_whose_last_rows_are_zero_accepts_half_of_them() -> None:
    found = facts(target(), lambda x: torch.cat([x[:4], x[4:] * 0]))
    assert (found["half"], found["zeros"]) == (True, False)


def test_an_input_that_the_reference_ignores_is_named() -> None:
    plain = target('x = "float32 [M, N] normal"\nw = "float32 [N] normal"')
    assert facts(plain, lambda x, w: x * 2)["ignored"] == ["w"]


def test_whole_numbers_have_no_narrower_dtype() -> None:
    found = facts(target(outputs='i = "int64 [M]"'), lambda x: x.argmax(-1))
    assert "lower" not in found
    assert found["zeros"] is False
