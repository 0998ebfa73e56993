"""Is an output right by a stated tolerance? What must pass passes, what must not does not, and a sentence says why."""

from __future__ import annotations

import ast
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aisp.checks.oracle import comparator
from aisp.checks.oracle.comparator import ComparisonResult, Expected, Mismatch
from aisp.kernels.catalog.model import Target
from tests.checks.oracle.targets import case, f32, f64, target

INF, NAN = math.inf, math.nan
HALVES = [torch.float16, torch.bfloat16]


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def judge(actual: torch.Tensor, expected: torch.Tensor, tolerance: float, *, full: bool = False) -> ComparisonResult:
    dtype = str(actual.dtype).removeprefix("torch.")
    of = replace(target(), tolerance={dtype: tolerance})
    truth = comparator.stated(of, [Expected("y", expected, dtype, None)])
    (opinion,) = comparator.judge(of, case({"M": 8, "N": 64}), {"y": actual}, truth, {}, full=full)
    return opinion


def wrong(opinion: ComparisonResult) -> tuple[int, int]:
    """How many elements are wrong, and of how many."""
    return int(opinion.statistics["wrong"]), int(opinion.statistics["count"])


def worst(opinion: ComparisonResult) -> tuple[int, ...]:
    """Where the worst one stands, by the sentence."""
    return tuple(ast.literal_eval(opinion.detail.removeprefix("y").partition(":")[0]))


# -- where none is stated ----------------------------------------------------------------------------------------------


def test_what_another_order_of_the_same_sums_is_off_is_right_where_no_tolerance_is_stated() -> None:
    a, b = (normal(64, 1 << 16, seed=seed).float() for seed in (1, 2))
    truth = a.double() @ b.double().T
    tight = replace(target(), tolerance={"float32": 1e-6})  # as the usual one is of longer sums than these
    known = comparator.stated(tight, [Expected("y", truth, "float32", None)])
    lenient = replace(known[0], eager=a @ b.T)
    other = torch.stack([part @ other.T for part, other in zip(a.split(4096, 1), b.split(4096, 1), strict=True)]).sum(0)

    def right(of: Target, actual: torch.Tensor) -> bool:
        assert lenient.allowed is not None
        allowed = replace(lenient, allowed=lenient.allowed * comparator.rounding(of, lenient))
        return comparator.judge(of, case({"M": 64, "N": 64}), {"y": actual}, [allowed], {}, full=False)[0].right

    assert right(tight, a @ b.T) and right(tight, other)
    assert not right(replace(tight, stated=frozenset({"float32"})), a @ b.T), "what is stated stands"
    assert not right(tight, other.half().float())
    assert not right(tight, torch.zeros(64, 64))
    assert comparator.rounding(tight, replace(lenient, eager=torch.zeros(64, 64))) == comparator.MOST_ROUNDED
    assert comparator.rounding(tight, replace(lenient, eager=truth.float())) == 1.0


# -- tolerance is relative to the output's own scale -------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 1e6, 1e30])
@pytest.mark.parametrize("tolerance", [1e-5, 1e-2, 0.5])
def test_zeros_never_pass_however_small_the_outputs(scale: float, tolerance: float) -> None:
    """A softmax over many columns has outputs of 1e-6: an absolute tolerance would let zeros pass."""
    expected = normal(64, 64) * scale
    judged = judge(torch.zeros(64, 64, dtype=torch.float64), expected, tolerance)
    assert judged.finding is Mismatch.VALUES
    assert judged.max_error is not None
    assert judged.max_error == pytest.approx(1 / tolerance, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 1e6])
def test_the_verdict_does_not_depend_on_the_unit_of_the_output(scale: float) -> None:
    expected = normal(1000)
    near, far = expected * (1 + 0.9e-3), expected * (1 + 1.1e-3)
    rms = float(expected.square().mean().sqrt())
    assert float(expected.abs().max()) > rms  # so that one element is judged relative to itself
    assert judge(near * scale, expected * scale, 1e-3).right
    assert not judge(far * scale, expected * scale, 1e-3).right


def test_a_small_element_is_judged_by_the_scale_of_the_whole() -> None:
    expected = f64(1.0, 1.0, 1.0, 1e-9)
    rms = math.sqrt(3 / 4)
    assert judge(f64(1.0, 1.0, 1.0, 0.99e-3 * rms), expected, 1e-3).right
    assert not judge(f64(1.0, 1.0, 1.0, 1.01e-3 * rms), expected, 1e-3).right


def test_a_large_element_is_judged_by_its_own_scale() -> None:
    expected = f64(*[1.0] * 9_999, 1e6)  # RMS 1e4
    for error, right in ((0.99e-3, True), (1.01e-3, False)):
        actual = expected.clone()
        actual[-1] *= 1 + error
        assert judge(actual, expected, 1e-3).right is right


def test_the_mean_does_not_pass_for_the_values() -> None:
    expected = normal(4096) + 5
    judged = judge(torch.full_like(expected, float(expected.mean())), expected, 1e-2)
    assert judged.finding is Mismatch.VALUES
    assert wrong(judged)[0] > 3800


def test_an_output_that_must_be_all_zeros_may_be_nothing_else() -> None:
    expected = f64(0, 0, 0)
    assert judge(f64(0, -0.0, 0), expected, 1e-2).right
    judged = judge(f64(0, 1e-300, 0), expected, 1e-2)
    assert judged.finding is Mismatch.VALUES
    assert worst(judged) == (1,)


def test_values_whose_squares_overflow_do_not_make_everything_right() -> None:
    """An RMS of inf would allow any error."""
    expected = f64(1e200, 2e200, -3e200)
    assert judge(expected.clone(), expected, 1e-3).right
    assert judge(f64(0, 0, 0), expected, 1e-3).finding is Mismatch.VALUES


def test_values_whose_squares_vanish_are_still_judged() -> None:
    expected = f64(1e-200, 2e-200)
    assert judge(expected * (1 + 1e-4), expected, 1e-3).right
    assert judge(f64(0, 0), expected, 1e-3).finding is Mismatch.VALUES


def test_the_error_is_given_in_units_of_what_is_allowed() -> None:
    expected = f64(1.0, 1.0, 1.0, 1.0)
    judged = judge(f64(1.0, 1.0, 1.0, 1.004), expected, 1e-2)
    assert judged.right
    assert judged.max_error == pytest.approx(0.4)
    judged = judge(f64(1.0, 1.0, 1.0, 1.03), expected, 1e-2)
    assert judged.max_error == pytest.approx(3.0)
    assert wrong(judged)[0] == 1
    assert wrong(judged)[1] == 4


# -- one element among many --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 517_003, 999_999])
def test_one_wrong_element_in_a_million_is_found_and_placed(place: int) -> None:
    expected = normal(1000, 1000)
    actual = expected.to(torch.float32)
    actual.view(-1)[place] += 0.01
    judged = judge(actual, expected, 1e-5)
    assert judged.finding is Mismatch.VALUES
    assert wrong(judged) == (1, 1_000_000)
    assert worst(judged) == (place // 1000, place % 1000)


def test_the_worst_element_is_the_one_that_is_named() -> None:
    judged = judge(f32(1, 2.5, 3, 9), f64(1, 2, 3, 4), 1e-3)
    assert worst(judged) == (3,)
    assert wrong(judged)[0] == 2


# -- bit-equal ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_with_tolerance_zero_the_rounded_reference_is_the_only_answer(dtype: torch.dtype) -> None:
    expected = normal(257)
    exact = expected.to(dtype)
    judged = judge(exact, expected, 0)
    assert judged.right
    assert judged.max_error == 0
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    off = exact.clone().view(whole)
    off[100] ^= 1  # the last bit
    judged = judge(off.view(dtype), expected, 0)
    assert judged.finding is Mismatch.VALUES
    assert judged.max_error is None
    assert (wrong(judged)[0], worst(judged)) == (1, (100,))


def test_bit_equal_does_not_mind_the_sign_of_zero() -> None:
    assert judge(f32(-0.0, 0.0), f64(0.0, -0.0), 0).right


@pytest.mark.parametrize("dtype", HALVES)
def test_rounding_to_half_precision_passes_the_usual_tolerance(dtype: torch.dtype) -> None:
    from aisp.kernels.catalog import DEFAULT_TOLERANCE

    expected = normal(100_000) * 37
    tolerance = DEFAULT_TOLERANCE[str(dtype).removeprefix("torch.")]
    judged = judge(expected.to(dtype), expected, tolerance)
    assert judged.right
    assert judged.max_error is not None
    assert 0 < judged.max_error < 0.5  # a tolerance that rounding alone would exhaust tells nothing


def test_a_sum_that_was_kept_in_bfloat16_does_not_pass() -> None:
    actual = torch.zeros(8, dtype=torch.bfloat16)
    for _ in range(4096):
        actual = actual + torch.ones(8, dtype=torch.bfloat16)  # it stops growing at 256
    judged = judge(actual, torch.full((8,), 4096.0, dtype=torch.float64), 2e-2)
    assert judged.finding is Mismatch.VALUES
    assert wrong(judged)[0] == 8


# -- NaN and infinities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [0, 1e-3, 0.5])
@pytest.mark.parametrize(
    ("actual", "expected", "finding"),
    [
        ((NAN, 1.0), (NAN, 1.0), Mismatch.NOTHING),
        ((NAN, 1.0), (1.0, 1.0), Mismatch.NAN),
        ((1.0, 1.0), (NAN, 1.0), Mismatch.NAN),
        ((0.0, 1.0), (NAN, 1.0), Mismatch.NAN),
        ((1.0, NAN), (NAN, 1.0), Mismatch.NAN),
        ((INF, 1.0), (NAN, 1.0), Mismatch.NAN),
        ((INF, 1.0), (INF, 1.0), Mismatch.NOTHING),
        ((-INF, 1.0), (-INF, 1.0), Mismatch.NOTHING),
        ((INF, 1.0), (-INF, 1.0), Mismatch.INF),
        ((1e38, 1.0), (INF, 1.0), Mismatch.INF),
        ((INF, 1.0), (1.0, 1.0), Mismatch.INF),
        ((-INF, 1.0), (1.0, 1.0), Mismatch.INF),
        ((NAN, NAN), (NAN, NAN), Mismatch.NOTHING),
        ((INF, 2.0), (INF, 1.0), Mismatch.VALUES),
        ((NAN, 2.0), (NAN, 1.0), Mismatch.VALUES),
    ],
)
def test_what_is_not_finite_must_stand_where_it_stands_in_the_truth(
    actual: tuple[float, ...], expected: tuple[float, ...], finding: Mismatch, tolerance: float
) -> None:
    judged = judge(f32(*actual), f64(*expected), tolerance)
    assert judged.finding is finding
    if finding in (Mismatch.NAN, Mismatch.INF):
        assert judged.max_error is None
        assert wrong(judged)[0] >= 1


def test_one_nan_in_the_truth_does_not_switch_the_comparison_off() -> None:
    expected = normal(1000)
    expected[7] = NAN
    actual = torch.zeros(1000, dtype=torch.float32)
    actual[7] = NAN
    judged = judge(actual, expected, 1e-2)
    assert judged.finding is Mismatch.VALUES
    assert wrong(judged)[0] > 900


def test_an_infinity_in_the_truth_does_not_stretch_the_scale() -> None:
    expected = f64(INF, 1e-3, 2e-3)
    assert judge(f32(INF, 1e-3, 2e-3), expected, 1e-4).right
    assert not judge(f32(INF, 0.0, 0.0), expected, 1e-4).right


@pytest.mark.parametrize("tolerance", [0, 4e-3])
def test_a_truth_beyond_the_range_of_the_dtype_is_answered_by_infinity_alone(tolerance: float) -> None:
    expected = f64(1e6, -1e6, 1.0)  # float16 ends at 65504
    assert judge(expected.to(torch.float16), expected, tolerance).right
    judged = judge(torch.tensor([65504.0, -65504.0, 1.0], dtype=torch.float16), expected, tolerance)
    assert judged.finding is Mismatch.INF
    assert wrong(judged)[0] == 2


def test_values_beyond_the_dtype_do_not_stretch_the_scale_of_the_others() -> None:
    expected = f64(1e300, 1.0, 1.0)
    judged = judge(f32(INF, 0.0, 0.0), expected, 1e-3)
    assert judged.finding is Mismatch.VALUES
    assert wrong(judged)[0] == 2


# -- integers and booleans ---------------------------------------------------------------------------------------------


def test_integers_must_be_equal_whatever_the_tolerance() -> None:
    expected = torch.arange(1000)
    assert judge(expected.to(torch.int32), expected, 0.5).right
    actual = expected.clone()
    actual[999] += 1
    judged = judge(actual, expected, 0.5)
    assert judged.finding is Mismatch.VALUES
    assert (wrong(judged)[0], worst(judged), judged.max_error) == (1, (999,), None)


def test_integers_are_compared_exactly_beyond_the_bits_of_a_double() -> None:
    judged = judge(torch.tensor([2**60 + 1]), torch.tensor([2**60]), 0)
    assert judged.finding is Mismatch.VALUES
    assert f"got {2**60 + 1}, expected {2**60}" in judged.detail


def test_an_integer_truth_in_fp64_is_compared_by_value() -> None:
    assert judge(torch.tensor([3, -4], dtype=torch.int8), f64(3, -4), 0).right
    assert not judge(torch.tensor([3, -4], dtype=torch.int8), f64(3, -5), 0).right


def test_a_value_that_wrapped_around_is_not_the_truth() -> None:
    assert not judge(torch.tensor([44], dtype=torch.uint8), torch.tensor([300]), 0).right


@pytest.mark.parametrize(("actual", "right"), [((True, False), True), ((True, True), False)])
def test_booleans(actual: tuple[bool, ...], right: bool) -> None:
    assert judge(torch.tensor(actual), torch.tensor([True, False]), 0).right is right


# -- shapes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_the_empty_output_is_right_and_so_is_a_right_scalar(dtype: torch.dtype) -> None:
    judged = judge(torch.empty(0, 5, dtype=dtype), torch.empty(0, 5, dtype=torch.float64), 0)
    assert judged.right
    assert "empty" in judged.detail
    assert judge(torch.tensor(1, dtype=dtype), torch.tensor(1.0, dtype=torch.float64), 0).right


def test_a_wrong_scalar_has_an_empty_index() -> None:
    judged = judge(torch.tensor(2.0), torch.tensor(1.0, dtype=torch.float64), 1e-3)
    assert worst(judged) == ()
    assert judged.detail.startswith("y[]: got 2, expected 1, 1e+03 times the error allowed")


def test_another_shape_is_not_broadcast() -> None:
    judged = judge(torch.ones(3, 1), torch.ones(3, 3, dtype=torch.float64), 0.5)
    assert judged.finding is Mismatch.SHAPE
    assert judged.detail == "y: shape [3, 1], the lesson declares [3, 3]"
    assert judged.max_error is None


def test_an_empty_output_does_not_pass_for_a_full_one() -> None:
    assert judge(torch.empty(0), torch.ones(3, dtype=torch.float64), 0.5).finding is Mismatch.SHAPE


def test_a_strided_output_is_judged_where_its_elements_are() -> None:
    expected = normal(6, 4)
    actual = expected.t().contiguous().t().to(torch.float32)
    assert not actual.is_contiguous()
    assert judge(actual, expected, 1e-6).right
    actual[4, 1] += 1
    assert worst(judge(actual, expected, 1e-6)) == (4, 1)


def test_form_names_what_was_given_and_what_is_declared() -> None:
    given = torch.zeros(2, 3)
    assert comparator.form("y", given, (2, 3), "float32") is None
    shape = comparator.form("y", given.t(), (2, 3), "float32")
    assert shape == ComparisonResult("y", Mismatch.SHAPE, "y: shape [3, 2], the lesson declares [2, 3]")
    dtype = comparator.form("y", given.half(), (2, 3), "float32")
    assert dtype == ComparisonResult("y", Mismatch.DTYPE, "y: dtype float16, the lesson declares float32")


# -- the sentence ------------------------------------------------------------------------------------------------------


def test_the_sentence_names_the_place_the_value_the_truth_and_how_many() -> None:
    expected = f64(1, 2, 3, 4).reshape(2, 2)
    judged = judge(f32(1, 2, 3, 4.5).reshape(2, 2), expected, 1e-2)
    assert judged.detail == "y[1, 1]: got 4.5, expected 4, 12.5 times the error allowed; 1 of 4 elements are wrong"


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16])
def test_narrow_dtypes_have_a_sentence_too(dtype: torch.dtype) -> None:
    judged = judge(torch.tensor([1.0, 4.0]).to(dtype), f64(1, 2), 1e-2)
    assert "y[1]: got 4, expected 2" in judged.detail


# -- properties --------------------------------------------------------------------------------------------------------

doubles = st.lists(
    st.floats(min_value=-(2.0**100), max_value=2.0**100, allow_nan=False, width=32), min_size=1, max_size=40
)
tolerances = st.sampled_from([0.0, 1e-6, 1e-3, 0.1])


@settings(max_examples=60, deadline=None)
@given(doubles, tolerances)
def test_the_truth_itself_is_always_right(values: list[float], tolerance: float) -> None:
    judged = judge(f32(*values), f64(*values), tolerance)
    assert judged.right
    assert judged.max_error == 0


@settings(max_examples=60, deadline=None)
@given(doubles, tolerances, st.data())
def test_an_error_beyond_the_tolerance_is_always_found(
    values: list[float], tolerance: float, data: st.DataObject
) -> None:
    expected = f64(*values)
    rms = float(expected.square().mean().sqrt())
    index = data.draw(st.integers(0, len(values) - 1))
    scale = max(rms, abs(values[index]))
    assume(scale > 1e-30)
    actual = expected.clone()
    actual[index] += scale * (2 * tolerance + 1e-9)
    judged = judge(actual, expected, tolerance)
    assert judged.finding is Mismatch.VALUES
    assert wrong(judged)[0] == 1
    assert worst(judged) == (index,)


@settings(max_examples=60, deadline=None)
@given(doubles, st.sampled_from([1e-6, 1e-3, 0.1]), st.data())
def test_an_error_within_the_tolerance_is_always_allowed(
    values: list[float], tolerance: float, data: st.DataObject
) -> None:
    expected = f64(*values)
    rms = float(expected.square().mean().sqrt())
    index = data.draw(st.integers(0, len(values) - 1))
    share = data.draw(st.floats(-0.99, 0.99))
    actual = expected.clone()
    actual[index] += share * tolerance * max(rms, abs(values[index]))
    assert judge(actual, expected, tolerance).right


@settings(max_examples=40, deadline=None)
@given(doubles, st.floats(-1e6, 1e6, allow_nan=False), st.sampled_from([1e-6, 1e-3]))
def test_a_constant_passes_only_for_a_constant(values: list[float], constant: float, tolerance: float) -> None:
    expected = f64(*values)
    scale = max(float(expected.square().mean().sqrt()), float(expected.abs().max()))
    assume(float((expected - constant).abs().max()) > 2 * tolerance * scale)
    assert not judge(torch.full_like(expected, constant), expected, tolerance).right
