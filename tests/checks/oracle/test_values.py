"""What inputs hold: the same bytes everywhere, and what the name of the kind says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from aisp.checks.oracle import values
from aisp.checks.oracle.schema import WHOLE, Case, Layout, Strategy, Values
from tests.checks.oracle.targets import case, target

DTYPES = ["float32", "float16", "bfloat16"]
INF = math.inf


def one(
    line: str, kind: Values, dtype: str = "", number: int = 1, seed: int = 7, m: int = 37, n: int = 129
) -> torch.Tensor:
    """The input x = `line` of a case whose x holds `kind`."""
    of = target(f'x = "{line}"')
    return values.inputs_of(of, case({"M": m, "N": n}, dtype=dtype, number=number, held={"x": kind}), seed)["x"]


def normal(kind: Values, dtype: str = "float32") -> torch.Tensor:
    return one("float32 [M, N] normal", kind, dtype)


# -- the same bytes ------------------------------------------------------------------------------------------------

PINNED = {
    ("declared", "float32"): "64a4fdb3943f83bd",
    ("declared", "float16"): "ac22728273ece893",
    ("declared", "bfloat16"): "abd6a680c2297d57",
    ("uniform", "float32"): "3a35a40c041e153a",
    ("integers", "float16"): "d804cb6b38c11170",
    ("large", "float32"): "fa214f9d73544afc",
    ("large", "float16"): "bacba7f4b65f88f0",
    ("tiny", "float32"): "ccf569a2c8b458a6",
    ("tiny", "float16"): "e05c3075359cd5d4",
    ("constant", "float32"): "f8372f5059ffc968",
    ("sorted", "bfloat16"): "42ac4cbe3fb7e99c",
    ("ties", "float32"): "05204de32c3c89c4",
    ("outliers", "float16"): "65ded78e05e10533",
    ("nonfinite", "float32"): "fc8c03447a593a77",
}


@pytest.mark.parametrize(("kind", "dtype"), PINNED)
def test_values_have_the_bytes_that_every_kept_failure_counts_on(kind: str, dtype: str) -> None:
    """A change here makes every stored failure impossible to replay: it is for a new version, not for tidying."""
    assert values.digest(normal(Values(kind), dtype))[:16] == PINNED[kind, dtype]


@pytest.mark.parametrize(
    ("line", "pinned"),
    [
        ("float32 [M, N] uniform(2, 3)", "faaf135598d6eddd"),
        ("float32 [M, N] positive", "0741d9f15f97fb83"),
        ("int64 [M, N] integers(0, N)", "e2e1bb43692f5964"),
        ("bool [M, N] bernoulli(0.3)", "1a8d8aca8ae14ad2"),
    ],
)
def test_other_distributions_have_pinned_bytes_too(line: str, pinned: str) -> None:
    assert values.digest(one(line, Values.EXTREMES if "integers" in line else Values.SORTED))[:16] == pinned


def test_seed_strategy_number_and_name_each_change_the_values_and_a_layout_does_not() -> None:
    of = target('x = "float32 [M, N] normal"\nw = "float32 [M, N] normal"')
    plain = case({"M": 5, "N": 9})

    def drawn(what: Case, seed: int = 7) -> torch.Tensor:
        return values.inputs_of(of, what, seed)["x"]

    first = drawn(plain)
    assert torch.equal(first, drawn(plain))
    assert not torch.equal(first, values.inputs_of(of, plain, 7)["w"])
    assert not torch.equal(first, drawn(plain, 8))
    assert not torch.equal(first, drawn(case({"M": 5, "N": 9}, number=2)))
    assert not torch.equal(first, drawn(case({"M": 5, "N": 9}, strategy=Strategy.MIXED)))
    assert torch.equal(first, drawn(case({"M": 5, "N": 9}, layouts={"x": Layout.SLICED})))


def test_a_further_input_leaves_the_values_of_the_others() -> None:
    small = target()
    grown = target('a = "float32 [N] normal"\nx = "float32 [M, N] normal"')
    what = case({"M": 5, "N": 9})
    assert torch.equal(values.inputs_of(small, what, 7)["x"], values.inputs_of(grown, what, 7)["x"])


# -- each kind holds what it says ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [k for k in Values if k not in (Values.NONFINITE, Values.EXTREMES, *WHOLE)])
def test_every_kind_is_finite_of_the_right_form_and_not_all_zeros(kind: Values, dtype: str) -> None:
    found = normal(kind, dtype)
    assert (found.shape, found.dtype) == ((37, 129), getattr(torch, dtype))
    assert found.is_contiguous()
    assert bool(torch.isfinite(found).all())
    assert bool((found != 0).any())


def test_uniform_is_flat_and_scaled_as_declared() -> None:
    found = one("float32 [M, N] normal(10, 0.5)", Values.UNIFORM).double()
    assert 9.5 <= float(found.min()) < 9.51
    assert 10.49 < float(found.max()) < 10.5
    assert float(found.std()) == pytest.approx(0.5 / math.sqrt(3), rel=0.05)
    positive = one("float32 [M, N] positive", Values.UNIFORM)
    assert 0.001 <= float(positive.min()) < float(positive.max()) < 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_are_small_and_whole_so_that_sums_and_products_are_exact(dtype: str) -> None:
    assert set(normal(Values.INTEGERS, dtype).unique().tolist()) == set(range(-4, 5))


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_and_outliers_are_the_declared_values_scaled(dtype: str) -> None:
    declared, large = normal(Values.DECLARED, dtype).double(), normal(Values.LARGE, dtype).double()
    factor = 2.0**9 if dtype == "float16" else 2.0**13
    assert torch.equal(large, declared * factor)
    spread = normal(Values.OUTLIERS, dtype).double()
    moved = spread != declared
    assert torch.equal(spread[moved], declared[moved] * (2.0**6 if dtype == "float16" else 2.0**10))


def test_outliers_stand_in_every_row_and_none_among_its_first_elements() -> None:
    moved = normal(Values.OUTLIERS) != normal(Values.DECLARED)
    assert bool(moved.any(dim=1).all())
    assert not bool(moved[:, :64].any())
    assert int(moved.sum(dim=1).max()) <= 2


@pytest.mark.parametrize(("dtype", "mantissa"), [("float32", 23), ("float16", 10), ("bfloat16", 7)])
def test_tiny_reaches_from_normal_numbers_to_the_least_subnormal_one(dtype: str, mantissa: int) -> None:
    found = normal(Values.TINY, dtype).double()
    least = torch.finfo(getattr(torch, dtype)).tiny
    size = found.abs()
    assert float(size.max()) == least * 1024
    assert float(size.min()) == least * 2.0 ** (1 - mantissa)
    assert bool((size < least).any())
    assert torch.equal(found < 0, normal(Values.DECLARED, dtype) < 0)


def test_constant_ties_and_sorted_do_what_they_say() -> None:
    declared = normal(Values.DECLARED)
    assert torch.equal(normal(Values.CONSTANT), declared.flatten()[0].expand(37, 129))
    ties = normal(Values.TIES)
    assert set(ties.unique().tolist()) == set(declared.flatten()[:3].tolist())
    assert torch.equal(normal(Values.SORTED), declared.sort(dim=-1).values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonfinite_has_one_to_three_places_and_is_as_declared_elsewhere(dtype: str) -> None:
    kinds: set[str] = set()
    for number in range(1, 13):
        declared = one("float32 [M, N] normal", Values.DECLARED, dtype, number)
        found = one("float32 [M, N] normal", Values.NONFINITE, dtype, number)
        odd = ~torch.isfinite(found)
        assert 1 <= int(odd.sum()) <= 3
        assert torch.equal(found[~odd], declared[~odd])
        kinds |= {str(value) for value in found[odd].tolist()}
    assert kinds == {"nan", "inf", "-inf"}


def test_extremes_are_the_first_and_the_last_index() -> None:
    found = one("int64 [M, N] integers(2, N)", Values.EXTREMES)
    assert set(found.unique().tolist()) == {2, 128}


@pytest.mark.parametrize("kind", [Values.CONSTANT, Values.SORTED, Values.TIES])
@pytest.mark.parametrize(
    ("line", "low", "high"),
    [
        ("float32 [M, N] uniform(2, 3)", 2, 3),
        ("float32 [M, N] positive", 1e-3, 9),
        ("int64 [M, N] integers(5, 9)", 5, 8),
    ],
)
def test_no_kind_leaves_the_declared_bounds(line: str, low: float, high: float, kind: Values) -> None:
    found = one(line, kind)
    assert low <= float(found.min()) <= float(found.max()) <= high


@pytest.mark.parametrize("kind", [k for k in Values if k not in (Values.EXTREMES, *WHOLE)])
@pytest.mark.parametrize(("m", "n"), [(0, 4), (4, 0), (1, 1)])
def test_empty_and_single_inputs_have_every_kind(kind: Values, m: int, n: int) -> None:
    assert one("float32 [M, N] normal", kind, m=m, n=n).shape == (m, n)


@pytest.mark.parametrize("kind", [k for k in Values if k not in (Values.EXTREMES, *WHOLE)])
def test_a_scalar_input_has_every_kind(kind: Values) -> None:
    assert one("float32 [] normal", kind).shape == ()


def test_an_expanded_input_has_equal_slices_before_it_is_laid_out() -> None:
    found = values.inputs_of(target(), case({"M": 4, "N": 9}, layouts={"x": Layout.EXPANDED}), 7)["x"]
    plain = values.inputs_of(target(), case({"M": 4, "N": 9}), 7)["x"]
    assert torch.equal(found, plain[:1].expand(4, 9))
    assert found.is_contiguous()


def test_values_that_a_dtype_cannot_hold_are_refused() -> None:
    of = target()
    whole = replace(of, inputs=(replace(of.inputs[0], dtype="int64"),))
    with pytest.raises(values.InputsError, match="normal gives fractions"):
        values.inputs_of(whole, case({"M": 2, "N": 2}), 7)


# -- gradients and digests -----------------------------------------------------------------------------------------


def test_gradients_are_normal_in_the_dtype_of_their_output_and_only_floating_outputs_have_one() -> None:
    of = target(outputs='y = "float32 [M, N]"\ni = "int64 [M]"')
    found = values.gradients_of(of, case({"M": 40, "N": 50}, dtype="float16"), 7, {"y": (40, 50), "i": (40,)})
    assert set(found) == {"g_y"}
    assert (found["g_y"].dtype, found["g_y"].shape) == (torch.float16, (40, 50))
    assert float(found["g_y"].double().std()) == pytest.approx(1, rel=0.1)


def test_a_digest_sees_values_dtype_and_shape_and_not_the_layout() -> None:
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert values.digest(tensor) == values.digest(tensor.t().contiguous().t())
    others = [tensor + 1, tensor.reshape(3, 2), tensor.to(torch.float16), -tensor, tensor.view(torch.int32)]
    assert len({values.digest(other) for other in (tensor, *others)}) == 6
    assert values.digest(torch.tensor(0.0)) != values.digest(torch.tensor(-0.0)), "bits count"
    assert values.digest(torch.zeros(0, 4)) != values.digest(torch.zeros(4, 0))


@pytest.mark.parametrize(
    ("line", "low", "high"),
    [
        ("uint8 [M, N] integers(0, 256)", 0, 255),
        ("int64 [M, N] integers(5, 9)", 5, 8),
        ("int16 [M, N] integers(-300, -100)", -300, -101),
        ("int64 [M, N] integers(-9223372036854775808, 9223372036854775807)", -(2**63), 2**63 - 2),
    ],
)
def test_whole_numbers_far_from_even_stay_within_their_bounds(line: str, low: int, high: int) -> None:
    lowest, highest, dominant, upper, powers = (one(line, kind) for kind in WHOLE)
    assert set(lowest.unique().tolist()) == {low}
    assert set(highest.unique().tolist()) == {high}
    assert 0.85 < float((dominant == dominant.mode().values.mode().values).double().mean()) < 0.99
    assert high - int(upper.min()) <= max(1, (high - low + 1) // 4)
    for found in (dominant, upper, powers):
        assert low <= int(found.min()) <= int(found.max()) <= high
    assert {abs(n).bit_count() for n in powers.unique().tolist()} == {1}


def test_bounds_without_a_power_of_two_leave_the_declared_values() -> None:
    line = "int64 [M, N] integers(5, 8)"
    assert torch.equal(one(line, Values.POWERS), one(line, Values.DECLARED))
