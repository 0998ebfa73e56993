"""Relations: rungs whose every value is right and which are wrong all the same, found by a second call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from aisp.checks.oracle import relations
from aisp.checks.oracle.calling import attempt, keys_before
from aisp.checks.oracle.comparator import ComparisonResult, Mismatch
from aisp.checks.oracle.examiner import Examiner
from aisp.checks.oracle.schema import Case, Layout, Relation, Values
from aisp.kernels.catalog import Target
from tests.checks.oracle.targets import case, expected, target

Run = Callable[..., Any]
DOUBLED = target(
    tables='[fuzz]\nindependent = "M"\nlinear = ["x"]\n[rungs.optimized_atomic]\ninexact = true',
    rungs=("baseline", "optimized", "optimized_atomic"),
)
SOFTMAX = target(tables='[fuzz]\nindependent = "M"\nshift = ["x"]')


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


def related(of: Target, reference: Run, run: Run, what: Case, rung: str = "optimized") -> ComparisonResult | str | None:
    """What a second call contradicts, None where nothing; the reason where the case has no such relation.

    The first call must be right: a rung that is refused for its values would need no relation.
    """
    examiner = Examiner(of, reference, None, "cpu")
    first = examiner.pose(what, 7)
    outputs = attempt(of, run, None, what, keys_before(of, what, 7), first.inputs, {}, "cpu")
    opinions = examiner.judge(what, 7, rung, outputs)
    assert all(opinion.right for opinion in opinions), opinions[0].detail
    second = examiner.pose(what, 7, changed=True)
    if second.impossible:
        return second.impossible
    outputs = attempt(of, run, None, what, keys_before(of, what, 7), second.inputs, {}, "cpu")
    found = examiner.judge(what, 7, rung, outputs, changed=True)
    return found[0] if found else None


def broken(found: ComparisonResult | str | None, told: str) -> ComparisonResult:
    assert isinstance(found, ComparisonResult)
    assert found.finding is Mismatch.RELATION
    assert told in found.detail
    assert "#" in "".join(found.region)
    assert len(found.sha256) == 64
    return found


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("relation", [Relation.AGAIN, Relation.SLICE, Relation.PERMUTE, Relation.DOUBLE])
def test_a_right_rung_keeps_every_relation(relation: Relation, number: int) -> None:
    what = case({"M": 5, "N": 33}, relation=relation, number=number)
    assert related(DOUBLED, twice, twice, what) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_right_softmax_does_not_move_when_a_constant_is_added(dtype: str) -> None:
    half = target(tables='[fuzz]\nshift = ["x"]\ndtypes = ["float32", "float16", "bfloat16"]')
    exact = {"x": Values.INTEGERS}
    what = case({"M": 5, "N": 33}, relation=Relation.SHIFT, dtype=dtype, held=exact)
    assert related(half, softmax, softmax, what) is None


# -- broken rungs whose values are all right -----------------------------------------------------------------------


def test_a_race_shows_when_the_same_call_gives_other_bits() -> None:
    calls = itertools.count()

    def racing(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[0, 0] *= 1 + 2.0**-22 * (next(calls) % 2)
        return y

    what = case({"M": 5, "N": 33}, relation=Relation.AGAIN)
    found = broken(related(DOUBLED, twice, racing, what), "the same call gave other bits (declare `inexact = true`")
    assert "1 of 165 elements" in found.detail
    assert related(DOUBLED, twice, racing, what, rung="optimized_atomic") is None, "it says so itself"


def test_a_row_that_looks_at_its_neighbours_shows_when_one_of_them_changes() -> None:
    def leaking(x: torch.Tensor) -> torch.Tensor:
        return x * 2 * (1 + 5e-7 * torch.sin(x.sum() * 10))

    what = case({"M": 5, "N": 33}, relation=Relation.SLICE, number=2)
    broken(related(DOUBLED, twice, leaking, what), "a change of one slice of the inputs reached other slices")


def test_a_row_that_knows_its_place_shows_when_rows_are_reordered() -> None:
    def placed(x: torch.Tensor) -> torch.Tensor:
        return x * 2 * (1 + 2.0**-22 * (torch.arange(x.shape[0]) % 2)[:, None])

    what = case({"M": 5, "N": 33}, relation=Relation.PERMUTE)
    broken(related(DOUBLED, twice, placed, what), "reordering the inputs' slices did not just reorder the outputs'")


def test_a_term_that_should_not_be_there_shows_when_a_linear_input_is_doubled() -> None:
    def with_epsilon(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1e-7

    what = case({"M": 5, "N": 33}, relation=Relation.DOUBLE)
    broken(related(DOUBLED, twice, with_epsilon, what), "doubling a linear input did not double it exactly")


def test_a_bound_that_is_never_reached_shows_when_a_constant_is_added() -> None:
    def bounded(x: torch.Tensor) -> torch.Tensor:
        return softmax(x.clamp(max=4.5))

    what = case({"M": 5, "N": 33}, relation=Relation.SHIFT)
    broken(related(SOFTMAX, softmax, bounded, what), "adding a constant to the input moved it")


DROPOUT = target(
    'x = "float32 [M, N] normal"\nseed = "int64 [1] integers(0, 9)"',
    tables='[judged]\ny = { as = "dropout", keep = "0.5", seed = "seed" }',
)


def drop(x: torch.Tensor, seed: int) -> torch.Tensor:
    chosen = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    return torch.where(chosen, x * 2, 0.0)


def test_a_dropout_that_ignores_its_seed_shows_when_it_gets_another() -> None:
    def kept(x: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
        return x * 2

    what = case({"M": 8, "N": 64}, relation=Relation.RESEED)
    found = related(DROPOUT, kept, lambda x, seed: drop(x, 1), what)
    assert isinstance(found, ComparisonResult)
    assert found.detail == "y: another seed made the same choice"
    assert related(DROPOUT, kept, lambda x, seed: drop(x, int(seed)), what) is None


# -- when a case does not have the relation ------------------------------------------------------------------------


@pytest.mark.parametrize("relation", [Relation.SLICE, Relation.PERMUTE])
@pytest.mark.parametrize("m", [0, 1])
def test_one_slice_has_no_neighbours(m: int, relation: Relation) -> None:
    what = case({"M": m, "N": 4}, relation=relation)
    assert related(DOUBLED, twice, twice, what) == "there is one slice at most"


def test_what_would_overflow_is_not_doubled() -> None:
    what = case({"M": 2, "N": 2}, relation=Relation.DOUBLE)
    huge = {"x": torch.full((2, 2), 3e38)}
    assert relations.changed(DOUBLED, what, 7, huge) == "doubling would overflow"


def test_a_target_without_a_floating_input_along_the_axis_has_no_slice_to_change() -> None:
    whole = target('x = "int64 [M, N] integers(0, 9)"', 'y = "int64 [M, N]"', tables='[fuzz]\nindependent = "M"')
    what = case({"M": 3, "N": 2}, relation=Relation.SLICE)
    assert relations.changed(whole, what, 7, {"x": torch.ones(3, 2).long()}) == (
        "no floating input has slices of its own along the axis"
    )


# -- what the second call gets -------------------------------------------------------------------------------------


def second(
    of: Target, relation: Relation, inputs: Mapping[str, torch.Tensor], number: int = 1
) -> dict[str, torch.Tensor]:
    m, n = inputs["x"].shape
    found = relations.changed(of, case({"M": m, "N": n}, relation=relation, number=number), 7, inputs)
    assert not isinstance(found, str)
    return found


def test_the_second_call_differs_in_what_the_relation_names_alone() -> None:
    x = torch.arange(1.0, 13.0).reshape(4, 3)
    assert torch.equal(second(DOUBLED, Relation.AGAIN, {"x": x})["x"], x)
    assert torch.equal(second(DOUBLED, Relation.DOUBLE, {"x": x})["x"], x * 2)
    assert torch.equal(second(SOFTMAX, Relation.SHIFT, {"x": x})["x"], x + 4)
    moved = second(DOUBLED, Relation.PERMUTE, {"x": x})["x"]
    assert not torch.equal(moved, x)
    assert torch.equal(moved.sort(dim=0).values, x)
    changed = (second(DOUBLED, Relation.SLICE, {"x": x})["x"] != x).any(dim=1)
    assert int(changed.sum()) == 1
    assert torch.equal(x, torch.arange(1.0, 13.0).reshape(4, 3)), "the first call's inputs stay"


def test_every_slice_and_every_linear_input_has_its_turn() -> None:
    x = torch.ones(3, 4)
    places = {int((second(DOUBLED, Relation.SLICE, {"x": x}, n)["x"] != x).any(dim=1).nonzero()) for n in range(30)}
    assert places == {0, 1, 2}
    both = target('x = "float32 [M, N] normal"\nw = "float32 [N] normal"', tables='[fuzz]\nlinear = ["x", "w"]')
    inputs = {"x": x, "w": torch.ones(4)}
    doubled = [
        {name for name, t in second(both, Relation.DOUBLE, inputs, n).items() if bool((t == 2).all())} for n in (0, 1)
    ]
    assert doubled == [{"x"}, {"w"}]


def test_outputs_without_the_axis_and_positions_are_left_alone() -> None:
    of = target(
        outputs='y = "float32 [M, N]"\ntotal = "float32 []"\ni = "int64 [M]"',
        tables='[fuzz]\nindependent = "M"\n[judged]\ni = { as = "indices", of = "x", values = "y" }',
    )
    names = ("y", "total", "i")
    before = {"y": torch.ones(3, 2), "total": torch.tensor(6.0), "i": torch.tensor([0, 1, 0])}
    after = before | {"total": torch.tensor(5.0), "i": torch.tensor([1, 0, 1])}
    truth = tuple(expected(before[name].double(), name=name) for name in names)
    what = case({"M": 3, "N": 2}, relation=Relation.SLICE)
    assert relations.judge(of, what, 7, before, after, truth, inexact=False) is None
    after["y"] = torch.ones(3, 2) * 2
    found = relations.judge(of, what, 7, before, after, truth, inexact=False)
    assert found is not None
    assert "4 of 6 elements" in found.detail, "the changed slice may change"


@pytest.mark.parametrize("layout", [Layout.TRANSPOSED, Layout.SLICED, Layout.OFFSET])
@pytest.mark.parametrize("relation", [Relation.SLICE, Relation.PERMUTE, Relation.DOUBLE])
def test_relations_hold_in_every_layout_that_has_a_place_for_each_value(relation: Relation, layout: Layout) -> None:
    for number in range(4):
        what = case({"M": 3, "N": 33}, relation=relation, layouts={"x": layout}, number=number)
        assert related(DOUBLED, twice, twice, what) is None
