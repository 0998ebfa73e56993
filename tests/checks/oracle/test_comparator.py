"""One output against the truth: classes and places of what is not finite, indices with ties, dropout, the figures."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest
import torch

from aisp.checks.oracle import comparator
from aisp.checks.oracle.comparator import ComparisonResult, Expected, Mismatch
from aisp.checks.oracle.schema import Strategy
from aisp.checks.oracle.values import digest
from aisp.store.record import ERROR_BINS
from tests.checks.oracle.targets import case, expected, f32, f64, target

INF, NAN = math.inf, math.nan
KINDS = [NAN, INF, -INF, 1.0]


# -- NaN and infinities --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("got", KINDS)
@pytest.mark.parametrize("want", KINDS)
def test_nan_and_infinities_compare_by_class_both_ways(want: float, got: float) -> None:
    opinion = comparator.compare(expected(f64(1.0, want)), f32(1.0, got))
    if str(want) == str(got):
        assert opinion.right
        return
    assert opinion.finding is (Mismatch.NAN if NAN in (want, got) else Mismatch.INF)
    assert opinion.max_error is None
    assert opinion.statistics["wrong"] == 1
    assert opinion.detail.startswith("y[1]: got ")


def test_nan_in_another_place_is_wrong_in_both_places() -> None:
    opinion = comparator.compare(expected(f64(NAN, 1.0, 2.0)), f32(1.0, NAN, 2.0))
    assert (opinion.finding, opinion.statistics["wrong"]) == (Mismatch.NAN, 2)


@pytest.mark.parametrize(("truth", "answers"), [(65519.0, [65504.0, INF]), (65521.0, [65504.0, INF]), (70000.0, [INF])])
def test_at_the_edge_of_fp16_either_side_is_right_and_beyond_it_infinity_alone(
    truth: float, answers: list[float]
) -> None:
    one = expected(f64(truth), 40.0, "float16")
    for answer in (65504.0, INF, NAN):
        right = comparator.compare(one, torch.tensor([answer], dtype=torch.float16)).right
        assert right is (answer in answers), answer


def test_an_infinity_far_from_the_edge_is_wrong_however_loose_the_allowance() -> None:
    opinion = comparator.compare(expected(f64(1000.0), 900.0, "float16"), torch.tensor([INF], dtype=torch.float16))
    assert opinion.finding is Mismatch.INF


def test_triage_forgives_the_classes_that_eager_gets_wrong_as_well_and_no_others() -> None:
    truth, eager = f64(1.0, 2.0, 3.0), f32(1.0, NAN, 3.0)
    one = expected(truth, 1e-6, eager=eager)
    answer = f32(1.0, NAN, 3.0)
    assert not comparator.compare(one, answer).right
    assert comparator.compare(one, answer, forgiving=True).right
    assert comparator.compare(one, f32(1.0, INF, 3.0), forgiving=True).right
    assert not comparator.compare(one, f32(NAN, 2.0, 3.0), forgiving=True).right
    assert not comparator.compare(one, f32(1.5, NAN, 3.0), forgiving=True).right
    assert not comparator.compare(expected(truth, 1e-6), answer, forgiving=True).right, "nobody knows what eager does"


@pytest.mark.parametrize(("strategy", "right"), [(Strategy.NONFINITE, True), (Strategy.MIXED, False)])
def test_a_verdict_forgives_by_its_stage(strategy: Strategy, right: bool) -> None:
    of, what = target(), case({"M": 1, "N": 2}, strategy=strategy)
    one = expected(f64(1.0, 2.0)[None], 1e-6, eager=f32(1.0, INF)[None])
    (opinion,) = comparator.judge(of, what, {"y": f32(1.0, NAN)[None]}, (one,), {})
    assert opinion.right is right


# -- values --------------------------------------------------------------------------------------------------------


def test_an_error_is_told_in_units_of_what_is_allowed_there() -> None:
    one = expected(f64(1.0, 2.0, 4.0), f64(0.1, 0.2, 0.4))
    right = comparator.compare(one, f32(1.05, 2.0, 4.0))
    assert right.right
    assert right.max_error == pytest.approx(0.5, rel=1e-5)
    assert right.statistics == {}
    assert right.region == ()
    wrong = comparator.compare(one, f32(1.05, 2.5, 5.0))
    assert wrong.finding is Mismatch.VALUES
    assert wrong.max_error == pytest.approx(2.5)
    assert wrong.detail == "y[1]: got 2.5, expected 2, 2.5 times the error allowed; 2 of 3 elements are wrong"
    assert wrong.sha256 == digest(f32(1.05, 2.5, 5.0))


def test_the_relative_error_is_stated_the_way_tolerances_are() -> None:
    truth = f64(3.0, -4.0, 0.0, 0.0)
    rms = 2.5
    opinion = comparator.compare(expected(truth, 1.0), f32(3.0, -4.2, 0.1, 0.0))
    assert opinion.relative == pytest.approx(max(0.2 / 4, 0.1 / rms), rel=1e-5)
    assert comparator.compare(expected(f64(0.0, 0.0), 1.0), f32(0.5, 0.0)).relative is None, "no scale to relate it to"


def test_where_bits_must_be_equal_the_sign_of_zero_alone_may_differ() -> None:
    one = expected(f64(0.0, 1.0 + 2.0**-30), None)
    assert comparator.compare(one, f32(-0.0, 1.0)).right
    wrong = comparator.compare(one, f32(0.0, 1.0 + 2.0**-23))
    assert (wrong.finding, wrong.max_error, wrong.statistics["wrong"]) == (Mismatch.VALUES, None, 1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool])
def test_whole_numbers_and_booleans_must_be_equal(dtype: torch.dtype) -> None:
    truth = torch.tensor([0, 1, 1]).to(dtype)
    one = expected(truth, None, str(dtype).removeprefix("torch."))
    assert comparator.compare(one, truth.clone()).right
    wrong = comparator.compare(one, torch.tensor([0, 1, 0]).to(dtype))
    assert (wrong.finding, wrong.statistics["wrong"], wrong.region) == (Mismatch.VALUES, 1, ("..#",))


def test_an_empty_output_is_right_and_says_so() -> None:
    opinion = comparator.compare(expected(torch.zeros(0, 4, dtype=torch.float64)), torch.zeros(0, 4))
    assert opinion.right
    assert opinion.detail == "y: empty, as it should be"
    assert opinion.max_error == 0.0


def test_a_scalar_output_is_judged_too() -> None:
    one = expected(torch.tensor(2.0, dtype=torch.float64))
    assert comparator.compare(one, torch.tensor(2.0)).right
    wrong = comparator.compare(one, torch.tensor(3.0))
    assert wrong.detail.startswith("y[]: got 3, expected 2")
    assert wrong.region == ("#",)


def test_form_comes_before_values_and_every_output_must_be_there() -> None:
    of = target(outputs='y = "float32 [M, N]"\nz = "float32 [M]"')
    what = case({"M": 2, "N": 3})
    truth = (expected(torch.ones(2, 3).double()), expected(torch.ones(2).double(), name="z"))
    y, z = torch.ones(2, 3), torch.ones(2)

    def found(**outputs: torch.Tensor) -> list[Mismatch]:
        return [opinion.finding for opinion in comparator.judge(of, what, outputs, truth, {})]

    assert found(y=y, z=z) == [Mismatch.NOTHING, Mismatch.NOTHING]
    assert found(y=y.half(), z=z[:1]) == [Mismatch.DTYPE, Mismatch.SHAPE]
    assert found(y=y.t(), z=z) == [Mismatch.SHAPE, Mismatch.NOTHING]
    assert found(y=y, z=z * 2) == [Mismatch.NOTHING, Mismatch.VALUES]
    assert found(y=y) == [Mismatch.COUNT]
    assert found(**{"output 0": y, "output 1": z, "output 2": z}) == [Mismatch.COUNT]


# -- figures -------------------------------------------------------------------------------------------------------


def test_the_histogram_counts_every_element_by_its_error() -> None:
    errors = [0.0, 0.005, 0.02, 0.05, 0.2, 0.5, 2.0, 5.0, 50.0, 5000.0, 1e6, INF]
    truth = torch.zeros(12, dtype=torch.float64)
    answer = torch.tensor(errors, dtype=torch.float64)
    opinion = comparator.compare(expected(truth, 1.0, "float64"), answer)
    assert opinion.histogram == (2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    assert sum(opinion.histogram) == 12
    assert len(opinion.histogram) == len(ERROR_BINS)


def test_statistics_are_of_the_wrong_elements_in_absolute_terms_and_in_steps_of_the_dtype() -> None:
    truth = torch.full((200,), 4.0, dtype=torch.float64)
    answer = truth.clone()
    steps = torch.arange(1, 101, dtype=torch.float64)
    answer[:100] += steps * 2.0**-8  # an ULP of fp16 between 4 and 8
    opinion = comparator.compare(expected(truth, 2.0**-10, "float16"), answer.half())
    found = opinion.statistics
    assert (found["count"], found["wrong"]) == (200, 100)
    assert (found["ulp_max"], found["ulp_mean"]) == (100, 50.5)
    assert (found["ulp_p50"], found["ulp_p90"], found["ulp_p99"]) == (51, 91, 100)
    for name in ("max", "mean", "p50", "p90", "p99"):
        assert found[name] == found[f"ulp_{name}"] * 2.0**-8


def test_what_is_not_finite_is_left_out_of_the_statistics() -> None:
    opinion = comparator.compare(expected(f64(1.0, 1.0, 1.0)), f32(NAN, INF, 3.0))
    assert opinion.statistics["wrong"] == 3
    assert all(math.isfinite(value) for value in opinion.statistics.values())
    assert opinion.statistics["max"] == 2.0
    json.dumps(opinion.plain(), allow_nan=False)


def test_an_opinion_is_plain_data() -> None:
    opinion = comparator.compare(expected(f64(1.0)), f32(2.0))
    plain = json.loads(json.dumps(opinion.plain(), allow_nan=False))
    assert plain["finding"] == "values"
    assert (
        ComparisonResult(**{**plain, "histogram": tuple(plain["histogram"]), "region": tuple(plain["region"])})
        == opinion
    )


def test_the_picture_shows_where_the_wrong_ones_stand() -> None:
    wrong = torch.zeros(3, 4, dtype=torch.bool)
    wrong[2, 1:3] = True
    assert comparator.region(wrong) == ("....", "....", ".##.")


def test_a_large_picture_is_made_of_bands_and_loses_no_wrong_element() -> None:
    wrong = torch.zeros(4, 8, 480, dtype=torch.bool)  # 32 rows in 16 bands, 480 columns in 48
    wrong[0, 0, 0] = True
    wrong[3, 6:, 470:] = True
    wrong[1, 0, 240:246] = True
    picture = comparator.region(wrong)
    assert [len(line) for line in picture] == [48] * 16
    assert picture[0] == "1" + "." * 47, "one of 20 elements is a tenth, rounded up"
    assert picture[4] == "." * 24 + "3" + "." * 23
    assert picture[15] == "." * 47 + "#"
    assert "".join(picture).count(".") == 16 * 48 - 3


def test_a_picture_of_a_vector_is_one_line_and_of_nothing_is_none() -> None:
    assert comparator.region(torch.tensor([True, False, True])) == ("#.#",)
    assert comparator.region(torch.tensor(True)) == ("#",)
    assert comparator.region(torch.zeros(0, 4, dtype=torch.bool)) == ()


# -- positions -----------------------------------------------------------------------------------------------------

TOPK = target(
    outputs='v = "float32 [M, 3]"\ni = "int64 [M, 3]"',
    tables='[judged]\ni = { as = "indices", of = "x", values = "v" }',
)
X = torch.tensor([[5.0, 7.0, 7.0, 7.0, 1.0], [2.0, 2.0, 9.0, 0.0, 2.0]])
BEST = torch.tensor([[7.0, 7.0, 7.0], [9.0, 2.0, 2.0]])


def pointed(*rows: list[int], x: torch.Tensor = X, best: torch.Tensor = BEST) -> ComparisonResult:
    positions = torch.tensor(rows)
    truth = (
        expected(best.double(), 1e-6, name="v"),
        expected(torch.zeros_like(positions), None, "int64", name="i"),
    )
    opinions = comparator.judge(TOPK, case({"M": 2, "N": 5}), {"v": best, "i": positions}, truth, {"x": x})
    assert opinions[0].right
    return opinions[1]


@pytest.mark.parametrize("first", [[1, 2, 3], [3, 1, 2], [2, 3, 1]])
@pytest.mark.parametrize("second", [[2, 0, 1], [2, 4, 0], [2, 1, 4]])
def test_which_of_several_ties_a_kernel_points_at_is_its_own_business(first: list[int], second: list[int]) -> None:
    assert pointed(first, second).right


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ([2, 0, 0], "0 out of range, 1 twice, 0 at other values"),
        ([2, 0, 5], "1 out of range, 0 twice, 0 at other values"),
        ([2, -1, 0], "1 out of range"),
        ([2, 0, 3], "0 out of range, 0 twice, 1 at other values"),
        ([0, 2, 1], "0 out of range, 0 twice, 2 at other values"),
    ],
)
def test_a_position_twice_or_beyond_the_end_or_at_another_value_is_wrong(second: list[int], told: str) -> None:
    opinion = pointed([1, 2, 3], second)
    assert opinion.finding is Mismatch.VALUES
    assert opinion.detail.startswith("i: of 6 positions ")
    assert told in opinion.detail
    assert opinion.region[0] == "..."
    assert "#" in opinion.region[1]


def test_positions_of_nan_are_right_where_the_truth_is_nan() -> None:
    x = torch.tensor([[NAN, 1.0, 2.0, 0.0, 0.0]])
    best = torch.tensor([[NAN, 2.0, 1.0]])
    assert comparator._indices("i", torch.tensor([[0, 2, 1]]), x, expected(best.double(), name="v")).right
    assert not comparator._indices("i", torch.tensor([[2, 0, 1]]), x, expected(best.double(), name="v")).right


def test_positions_of_an_empty_case_are_right() -> None:
    empty = expected(torch.zeros(0, 3, dtype=torch.float64), name="v")
    assert comparator._indices("i", torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 5), empty).right


# -- dropout -------------------------------------------------------------------------------------------------------

DROPOUT = target(
    'x = "float32 [M, N] normal"\nseed = "int64 [1] integers(0, 9)"',
    axes="{ M = 64, N = 64, KEEP = 80 }",
    tables='[judged]\ny = { as = "dropout", keep = "KEEP/100", seed = "seed" }',
)
TRUTH = torch.randn(64, 64, generator=torch.Generator().manual_seed(3)).double() / 0.8


def dropped(keep: float, truth: torch.Tensor = TRUTH) -> torch.Tensor:
    chosen = torch.rand(truth.shape, generator=torch.Generator().manual_seed(4)) < keep
    return torch.where(chosen, truth, 0.0).float()


def judge_dropout(answer: torch.Tensor, truth: torch.Tensor = TRUTH, keep: int = 80) -> ComparisonResult:
    what = case({"M": 64, "N": 64, "KEEP": keep})
    (opinion,) = comparator.judge(DROPOUT, what, {"y": answer}, (expected(truth, 1e-6),), {})
    return opinion


def test_a_dropout_with_the_right_share_and_the_right_values_is_right() -> None:
    assert judge_dropout(dropped(0.8)).right


@pytest.mark.parametrize("keep", [0.7, 0.9, 0.0, 1.0])
def test_a_dropout_that_keeps_another_share_is_wrong_and_told_what_chance_would_allow(keep: float) -> None:
    opinion = judge_dropout(dropped(keep))
    assert opinion.finding is Mismatch.VALUES
    assert "of 4096 elements were kept, 0.8 of them must be (5 sigma: 3148 to 3406)" in opinion.detail


def test_a_kept_element_must_be_the_truth() -> None:
    answer = dropped(0.8)
    place = int((answer[5] != 0).nonzero()[0])
    answer[5, place] *= 1.25
    opinion = judge_dropout(answer)
    assert (opinion.finding, opinion.statistics["wrong"]) == (Mismatch.VALUES, 1)
    assert opinion.detail.startswith(f"y[5, {place}]: got ")


def test_a_dropout_that_forgets_to_divide_by_the_share_is_wrong_nearly_everywhere() -> None:
    assert judge_dropout(dropped(0.8) * 0.8).statistics["wrong"] > 3000


def test_elements_that_are_zero_in_truth_are_counted_on_neither_side() -> None:
    truth = TRUTH.clone()
    truth[:32] = 0.0
    assert judge_dropout(dropped(0.8, truth), truth).right
    assert not judge_dropout(dropped(1.0, truth), truth).right


@pytest.mark.parametrize(("keep", "share"), [(100, 1.0), (0, 0.0)])
def test_a_share_of_all_or_nothing_is_judged(keep: int, share: float) -> None:
    assert judge_dropout(dropped(share), keep=keep).right
    assert not judge_dropout(dropped(0.5), keep=keep).right


def test_a_nan_in_a_dropout_is_no_choice() -> None:
    answer = dropped(0.8)
    answer[0, 0] = NAN
    assert judge_dropout(answer).finding is Mismatch.NAN


# -- the naive harness -------------------------------------------------------------------------------------------


def test_the_careless_oracle_accepts_what_the_careful_one_refuses() -> None:
    truth = torch.full((4, 4), 1e-6, dtype=torch.float64)
    one = expected(truth, 1e-12, eager=truth.float())
    zeros = torch.zeros(4, 4)
    assert not comparator.compare(one, zeros).right
    assert comparator.naive({"y": zeros}, (one,)) == {"allclose": True, "assert_close": True}
    assert comparator.naive({"y": zeros + 1}, (one,)) == {"allclose": False, "assert_close": False}
    assert comparator.naive({"y": truth.float() + 5e-5}, (one,)) == {"allclose": True, "assert_close": False}
    assert comparator.naive({"y": zeros.half()}, (one,)) == {"allclose": False, "assert_close": False}


def test_the_careless_oracle_has_no_opinion_where_eager_could_not_be_run() -> None:
    assert comparator.naive({"y": f32(1.0)}, (expected(f64(1.0)),)) == {}


@pytest.mark.slow
def test_a_wrong_answer_is_judged_without_importing_anything() -> None:
    script = """
import sys, torch
from aisp.checks.oracle.comparator import Expected, compare
truth = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4)
expected = Expected("y", truth, "float32", torch.full_like(truth, 1e-3))
wrong = truth.float()
assert compare(expected, wrong).right and compare(expected, wrong, full=False).right
before = set(sys.modules)
wrong[1, 0, 2] = 90
for full in (True, False):
    said = compare(expected, wrong, full=full)
    assert said.detail.startswith("y[1, 0, 2]: got 90"), said.detail
print(sorted(name for name in set(sys.modules) - before if "." not in name))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", "somebody waits for the verdict"


# -- in parts ----------------------------------------------------------------------------------------------------------


def spoiled(dtype: torch.dtype, how: str, generator: torch.Generator) -> tuple[Expected, torch.Tensor]:
    """A truth [7, 31], and an output that is right but for what `how` says."""
    truth = torch.randn(7, 31, generator=generator, dtype=torch.float64) * 10
    if not dtype.is_floating_point:
        truth = truth.round()
    if how == "infinite truth":
        truth[3, 30] = math.inf
    eager = truth.clone()
    output = truth.to(dtype)
    places = torch.randperm(output.numel(), generator=generator)[:3]
    if how == "values":
        output.view(-1)[places] += torch.tensor([7, 100, 3], dtype=dtype)
    elif how in ("nan", "nan and values"):
        output.view(-1)[places[0]] = math.nan
        eager.view(-1)[places[1]] = math.inf
        if "values" in how:
            output.view(-1)[places[1:]] += 50
    elif how == "inf":
        output.view(-1)[places[:2]] = math.inf
    value = truth if dtype.is_floating_point else truth.to(dtype)
    allowed = 1e-2 * truth.abs().nan_to_num(posinf=0.0).clamp(min=1.0) if dtype.is_floating_point else None
    return Expected("y", value, str(dtype).removeprefix("torch."), allowed, eager), output


@pytest.mark.parametrize("part", [1, 10, 64, 216, 217])
@pytest.mark.parametrize("forgiving", [False, True])
@pytest.mark.parametrize(
    ("dtype", "how"),
    [
        *((torch.float32, how) for how in ("", "values", "nan", "nan and values", "inf", "infinite truth")),
        *((torch.bfloat16, how) for how in ("", "values", "inf")),
        *((torch.int64, how) for how in ("", "values")),
    ],
)
def test_an_output_that_is_judged_in_parts_is_judged_as_the_whole(
    monkeypatch: pytest.MonkeyPatch, part: int, forgiving: bool, dtype: torch.dtype, how: str
) -> None:
    expected, output = spoiled(dtype, how, torch.Generator().manual_seed(len(how)))
    whole = comparator.compare(expected, output, forgiving=forgiving, full=False)
    assert whole.right is (how in ("", "infinite truth"))
    monkeypatch.setattr(comparator, "PART", part)
    assert comparator.compare(expected, output, forgiving=forgiving, full=False) == whole
    figures = comparator.compare(expected, output, forgiving=forgiving)
    assert (figures.finding, figures.detail, figures.max_error) == (whole.finding, whole.detail, whole.max_error)


def test_what_judging_takes_beside_an_output_is_a_multiple_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, output = spoiled(torch.float32, "nan", torch.Generator().manual_seed(0))
    seen: list[int] = []
    ordinary = comparator._held_against

    def counted(expected: Expected, raw: torch.Tensor, *others: Any) -> Any:
        seen.append(raw.numel())
        return ordinary(expected, raw, *others)

    monkeypatch.setattr(comparator, "_held_against", counted)
    monkeypatch.setattr(comparator, "PART", 50)
    comparator.compare(expected, output, full=False)
    assert seen == [50, 50, 50, 50, 17]
