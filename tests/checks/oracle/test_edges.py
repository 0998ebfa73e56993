"""Where an oracle is easily fooled, or fools itself: inputs that are written to, NaN that is right, the edge of a
dtype's range, slices that are one."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from aisp.checks.oracle import comparator, report, values
from aisp.checks.oracle.schema import Case, Layout, Relation, Schema, Strategy, Values
from aisp.checks.oracle.shrink import Shrinker
from tests.checks.oracle.targets import case, expected, f32, f64, pose, target
from tests.checks.oracle.test_relations import DOUBLED, related, twice

INF, NAN = math.inf, math.nan


def test_a_reference_that_writes_into_its_inputs_spoils_neither_truth_nor_inputs() -> None:
    def greedy(x: Any) -> Any:
        x.mul_(2)
        return x

    given, found = pose(target(), greedy, case({"M": 2, "N": 3}, number=1))
    own = values.inputs_of(target(), case({"M": 2, "N": 3}, number=1), 7)["x"]
    assert torch.equal(given["x"], own)
    assert not comparator.compare(found.outputs[0], torch.zeros(2, 3)).right


def test_backward_leaves_the_posed_inputs_without_a_gradient() -> None:
    back = target(tables="[fuzz]\nbackward = true")
    given, _ = pose(back, lambda x: x * 2, case({"M": 2, "N": 3}))
    assert not given["x"].requires_grad


def test_eager_that_is_rightly_nan_excuses_nobody() -> None:
    one = expected(f64(NAN, 1.0), 1e-6, eager=f32(NAN, 1.0))
    assert not comparator.compare(one, f32(0.0, 1.0), forgiving=True).right


@pytest.mark.parametrize("answer", [-INF, 0.0, -65504.0, 60000.0])
@pytest.mark.parametrize("truth", [65519.0, 65521.0])
def test_at_the_edge_of_the_range_only_what_is_near_is_right(truth: float, answer: float) -> None:
    one = expected(f64(truth), 40.0, "float16")
    assert not comparator.compare(one, torch.tensor([answer], dtype=torch.float16)).right


@pytest.mark.parametrize("answer", [INF, 65504.0])
def test_at_the_edge_of_the_range_rounding_to_either_side_is_right(answer: float) -> None:
    one = expected(f64(65519.0), 40.0, "float16")
    assert comparator.compare(one, torch.tensor([answer], dtype=torch.float16)).right


def test_a_slice_that_cannot_change_alone_is_not_asked_about() -> None:
    for number in range(4):
        what = case({"M": 3, "N": 33}, relation=Relation.SLICE, layouts={"x": Layout.EXPANDED}, number=number)
        assert related(DOUBLED, twice, twice, what) == "no floating input has slices of its own along the axis"


def test_an_answer_at_the_end_of_the_shrinkers_budget_counts() -> None:
    schema = Schema.of(target(), host=False)
    search = Shrinker(schema, Case(1, Strategy.MIXED, {"M": 129, "N": 512}, values={"x": Values.LARGE}), 1)
    smaller = search.propose()
    search.answer(True)
    assert search.propose() is None
    assert search.best == smaller


@pytest.mark.parametrize(
    ("name", "detail"), [("mine:one", "\x00"), ("mine:one", "\udcff"), ('mine:o"""ne', ""), ("mine:o\\N{x}e", "")]
)
def test_no_text_breaks_a_script(name: str, detail: str) -> None:
    text = report.script(Path("/one"), name, "optimized", "cpu", 1, Case(1, Strategy.BOUNDARY, {"N": 1}), detail)
    ast.parse(text)
    assert text.encode()


def test_every_nonfinite_input_of_a_dtype_without_infinities_holds_nan() -> None:
    for number in range(1, 13):
        what = case({"M": 37, "N": 129}, dtype="float8_e4m3fn", number=number, held={"x": Values.NONFINITE})
        assert bool(torch.isnan(values.inputs_of(target(), what, 7)["x"].float()).any())
