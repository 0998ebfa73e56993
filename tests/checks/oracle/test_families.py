"""What every run asks beyond its lesson's cases: shapes that nobody can list, values at the timed shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from aisp.checks.oracle import families, values
from aisp.checks.oracle.comparator import Mismatch
from aisp.checks.oracle.schema import Case, Schema, SchemaError, Strategy, Values, draw
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Extent, Target
from tests.checks.oracle.targets import target
from tests.replacing import replace

SEEDS = range(40)


def shapes(of: Target, seed: int) -> list[dict[str, int]]:
    return [dict(case.axes) for case in families.drawn_shapes(of, seed, of.rungs, host=True)]


def largest(of: Target, axes: dict[str, int]) -> int:
    return max(math.prod(catalog.shape(spec, axes)) for spec in (*of.inputs, *of.outputs))


# -- shapes ------------------------------------------------------------------------------------------------------


def test_shapes_are_drawn_from_the_seed_and_one_is_odd_in_every_axis() -> None:
    plain = target()
    found = [shapes(plain, seed) for seed in SEEDS]
    assert shapes(plain, 3) == found[3]
    assert len({tuple(first.values()) for first, *_ in found}) > len(SEEDS) // 2, "nobody can list them"
    assert all(n % 2 and n > 1 for first, *_ in found for n in first.values())
    assert all(1 in edge.values() for _, edge in found)


def test_few_and_small_cases_are_drawn_where_small_ones_are_allowed() -> None:
    plain = target()
    for seed in SEEDS:
        found = shapes(plain, seed)
        assert len(found) == families.GATE_CASES == 2
        assert all(largest(plain, axes) <= families.GATE_ELEMENTS for axes in found)


def test_a_fixed_axis_is_drawn_as_the_case_that_is_run() -> None:
    fixed = target('x = "float32 [N] normal"', 'y = "float32 [N]"', axes="{ N = 65536 }",
                   tables="[fuzz]\naxes = { N = [65536] }\n[[cases]]\nname = \"cpu\"\naxes = { N = 512 }")  # fmt: skip
    assert shapes(fixed, 1) == [{"N": 512}]
    assert [dict(case.axes) for case in families.drawn_shapes(fixed, 1, fixed.rungs, host=False)] == [{"N": 65536}]


def test_axes_that_admit_nothing_small_are_drawn_at_their_least() -> None:
    wide = target('x = "float32 [N] normal"', 'y = "float32 [N]"', axes="{ N = 65536 }",
                  tables="[fuzz]\naxes = { N = { least = 20000 } }")  # fmt: skip
    before = replace(Schema.of(wide, host=True), most_elements=families.GATE_ELEMENTS)
    with pytest.raises(SchemaError):
        draw(before, 0, Strategy.BOUNDARY, 0)
    for seed in SEEDS:
        found = [axes["N"] for axes in shapes(wide, seed)]
        assert 20000 in found
        assert all(20000 <= n < 20000 * families.WIDER for n in found)


@pytest.mark.parametrize(
    ("line", "admitted"),
    [
        ("N = { multiple = 8, least = 16, most = 4096 }", lambda n: n % 8 == 0 and 16 <= n <= 4096),
        ("N = [64, 128]", lambda n: n in (64, 128)),
        ("N = { most = 2 }", lambda n: n in (1, 2)),
        ("N = { multiple = 128 }", lambda n: n % 128 == 0 and n),
    ],
)
def test_what_the_author_allows_is_kept(line: str, admitted: Any) -> None:
    bound = target(axes="{ M = 8, N = 64 }", tables=f"[fuzz]\naxes = {{ {line} }}")
    assert all(admitted(axes["N"]) for seed in SEEDS for axes in shapes(bound, seed))


def test_a_rung_that_supports_none_of_the_shapes_gets_one_of_its_own() -> None:
    plain = target(axes="{ M = 8, N = 64 }")
    narrow = replace(plain.rungs[1], supports={"N": Extent(multiple=32)})
    for seed in SEEDS:
        cases = families.drawn_shapes(plain, seed, [plain.rungs[0], narrow], host=True)
        assert any(not narrow.unsupported(case.axes) for case in cases)
        assert len(cases) <= families.GATE_CASES + 1


def test_axes_that_never_fit_together_are_told_and_not_left_out_in_silence() -> None:
    impossible = target('x = "float32 [M - 9] normal"', 'y = "float32 [M - 9]"', axes="{ M = 16 }",
                        tables="[fuzz]\naxes = { M = { most = 5 } }")  # fmt: skip
    with pytest.raises(SchemaError, match=r"\[fuzz\] axes"):
        shapes(impossible, 1)


# -- values ------------------------------------------------------------------------------------------------------


def drawn(of: Target, case: Case, seed: int = 5) -> dict[str, torch.Tensor]:
    return values.inputs_of(of, replace(case, number=77), seed)


def test_two_sets_of_other_values_are_posed_at_the_timed_shape_one_of_each_stage() -> None:
    plain = target()
    promised, beyond = families.value_sets(plain, plain.cases[0])
    assert families.VALUE_SETS == 2
    assert families.gating(promised) and not families.gating(beyond)
    assert promised.axes == beyond.axes == plain.cases[0].axes
    assert promised.values == {"x": Values.ROWS}
    assert beyond.values == {"x": Values.FAR}


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("float32 [M, N] normal", [Values.ROWS, Values.FAR]),
        ("float32 [M, N] positive", [Values.ROWS, Values.FAR]),
        ("float32 [M, N] uniform(0.5, 2)", [Values.ROWS, Values.ROWS]),  # bounds are never left
        ("float32 [M, N] normal static", []),
        ("int64 [M, N] integers(0, 9)", [*families.WHOLE_SETS]),
        ("int64 [M, N] integers(0, 9) static", []),
    ],
)
def test_values_stay_within_what_an_input_is_declared_to_hold(line: str, kinds: list[Values]) -> None:
    of = target(f'x = "{line}"', 'y = "float32 [M, N]"')
    found = families.value_sets(of, of.cases[0])
    assert [case.values["x"] for case in found] == kinds
    for case in found:
        x = drawn(of, case)["x"].double()
        assert bool(torch.isfinite(x).all())
        if "positive" in line:
            assert float(x.min()) > 0
        if "uniform" in line:
            assert float(x.min()) >= 0.5 and float(x.max()) <= 2
        if "integers" in line:
            assert float(x.min()) >= 0 and float(x.max()) <= 8


def test_a_lossy_task_is_asked_for_its_declared_values_alone() -> None:
    exact, lossy = (target(more=f"tolerance = {{ float32 = {figure} }}") for figure in (0.01, 0.5))
    kinds = [[case.values["x"] for case in families.value_sets(of, of.cases[0])] for of in (exact, lossy)]
    assert kinds == [[Values.ROWS, Values.FAR], []]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float16", "bfloat16", "float64"])
def test_every_floating_dtype_has_such_rows(dtype: str) -> None:
    of = target(f'x = "{dtype} [M, N] normal"', f'y = "{dtype} [M, N]"', axes="{ M = 12, N = 64 }")
    for case in families.value_sets(of, of.cases[0]):
        x = drawn(of, case)["x"]
        assert str(x.dtype) == f"torch.{dtype}"
        assert bool(torch.isfinite(x.double()).all())


def test_rows_of_every_family_are_among_them_and_none_is_larger_than_usual() -> None:
    of = target(axes="{ M = 24, N = 512 }")
    promised, beyond = families.value_sets(of, of.cases[0])
    x = drawn(of, promised)["x"]
    steps = x.diff(dim=1)
    constant, up, down = (steps == 0).all(1), (steps > 0).all(1), (steps < 0).all(1)
    flat = (x.abs().amax(1) < 1.74) & ~constant
    assert [int(mask.sum()) for mask in (constant, up | down, flat)] == [4, 4, 4]
    assert int(up.sum()) == int(down.sum()) == 2
    assert float(x.abs().max()) < 6
    y = drawn(of, beyond)["x"]
    assert int((y.mean(1).abs() > 3).sum()) == 6
    assert int((y.abs().amax(1) > 12).sum()) >= 5
    assert float(y.square().mean().sqrt()) < 4, "outliers leave a scale"


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_tensor_of_few_rows_has_other_families_and_none_as_declared(rows: int) -> None:
    of = target(axes=f"{{ M = {rows}, N = 256 }}")
    promised = families.value_sets(of, of.cases[0])[0]
    declared = drawn(of, replace(promised, values={}))["x"]
    assert not any(torch.equal(a, b) for a, b in zip(drawn(of, promised)["x"], declared, strict=True))


def test_static_inputs_and_whole_numbers_are_those_of_the_run() -> None:
    of = target('x = "float32 [M, N] normal"\nw = "float32 [N] normal static"', 'y = "float32 [M, N]"')
    promised = families.value_sets(of, of.cases[0])[0]
    one, other = (values.inputs_of(of, replace(promised, number=number), 5) for number in (77, 78))
    assert torch.equal(one["w"], other["w"])
    assert not torch.equal(one["x"], other["x"])


# -- judging -----------------------------------------------------------------------------------------------------


class Counted:
    """A reference that counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return torch.softmax(x, dim=1)


def posed(of: Target, which: int) -> tuple[families.ValueFamily, Counted]:
    case, reference = families.value_sets(of, of.cases[0])[which], Counted()
    return families.ValueFamily(of, reference, "cpu", case, drawn(of, case), {}), reference


@pytest.mark.parametrize("which", [0, 1])
def test_a_right_answer_costs_one_run_of_the_reference(which: int) -> None:
    family, reference = posed(target(axes="{ M = 24, N = 512 }"), which)
    right = torch.softmax(family.inputs["x"], dim=1)
    assert all(opinion.right for opinion in family.judge({"y": right}))
    assert all(opinion.right for opinion in family.judge({"y": right}))
    assert reference.runs == 1


@pytest.mark.parametrize("which", [0, 1])
def test_an_answer_that_is_wrong_beside_the_outliers_is_refused(which: int) -> None:
    family, _ = posed(target(axes="{ M = 24, N = 512 }"), which)
    wrong = torch.softmax(family.inputs["x"], dim=1)
    wrong[wrong < wrong.median()] *= 1.01
    assert not all(opinion.right for opinion in family.judge({"y": wrong}))


def test_answers_of_another_form_or_with_nan_are_refused() -> None:
    family, _ = posed(target(), 0)
    right = torch.softmax(family.inputs["x"], dim=1)
    assert family.judge({"y": right.double()})[0].finding is Mismatch.DTYPE
    assert family.judge({"y": right[:1]})[0].finding is Mismatch.SHAPE
    assert family.judge({"z": right})[0].finding is Mismatch.COUNT
    assert family.judge({"y": torch.full_like(right, math.nan)})[0].finding is Mismatch.NAN


# -- sums in sequence, and narrower formats ----------------------------------------------------------------------


def refused(of: Target, reference: Any, answer: Any, which: int) -> bool:
    """Whether a set of other values finds an answer wrong."""
    case = families.value_sets(of, of.cases[0])[which]
    family = families.ValueFamily(of, reference, "cpu", case, drawn(of, case), {})
    return not all(opinion.right for opinion in family.judge({"y": answer(dict(family.inputs))}))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("rows", [4096, 65536])
def test_the_sum_of_a_column_in_sequence_in_fp32_is_right_at_any_length(rows: int, which: int) -> None:
    of = target('x = "float32 [M, N] normal"', 'y = "float32 [N]"', axes=f"{{ M = {rows}, N = 64 }}")
    assert not refused(of, lambda x: x.sum(0), lambda held: torch.from_numpy(in_sequence(held["x"].numpy())), which)


def in_sequence(x: Any) -> Any:
    """Sums along the first axis, one addition after the other in the array's own dtype."""
    return np.cumsum(x, axis=0, dtype=x.dtype)[-1]


@pytest.mark.parametrize("kind", ["normal", "sorted", "constant"])
def test_the_sum_of_a_sorted_or_constant_row_in_sequence_is_right(kind: str) -> None:
    of = target('x = "float32 [M, N] normal"', 'y = "float32 [M]"', axes="{ M = 24, N = 65536 }")
    case = families.value_sets(of, of.cases[0])[0]
    x = drawn(of, replace(case, values={}))["x"]
    x = x.sort(dim=1).values if kind == "sorted" else x[:, :1].expand(x.shape).contiguous() if kind == "constant" else x
    family = families.ValueFamily(of, lambda x: x.sum(1), "cpu", case, {"x": x}, {})
    summed = torch.from_numpy(in_sequence(x.T.numpy()))
    assert all(opinion.right for opinion in family.judge({"y": summed})), kind
    assert not all(opinion.right for opinion in family.judge({"y": summed * 1.02})), "two per cent are none of rounding"


def narrowed(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Rounded to the nearest number with so many bits behind the first one: 10 in tf32, 7 in bf16."""
    whole = x.view(torch.int32)
    drop = 23 - bits
    return ((whole + (1 << (drop - 1))) & ~((1 << drop) - 1)).view(torch.float32)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("bits", [10, 7])
def test_a_product_of_narrower_numbers_is_refused_and_one_of_fp32_is_not(bits: int, which: int) -> None:
    of = target('a = "float32 [M, K] normal"\nb = "float32 [K, N] normal"', 'y = "float32 [M, N]"',
                axes="{ M = 96, N = 64, K = 4096 }")  # fmt: skip
    assert refused(of, lambda a, b: a @ b, lambda held: narrowed(held["a"], bits) @ narrowed(held["b"], bits), which)
    assert not refused(of, lambda a, b: a @ b, lambda held: held["a"] @ held["b"], which)


def test_the_terms_of_a_sum_are_the_dimensions_that_no_output_has() -> None:
    product = target('a = "float32 [M, K] normal"\nb = "float32 [K, N] normal"', 'y = "float32 [M, N]"',
                     axes="{ M = 96, N = 64, K = 4096 }")  # fmt: skip
    assert families.terms(product, product.cases[0].axes, {}) == 4096
    plain = target(axes="{ M = 8, N = 64 }")
    assert families.terms(plain, plain.cases[0].axes, {}) == 64


# -- what it costs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", ["{ M = 2048, N = 2048 }", "{ M = 2, N = 2097152 }", "{ M = 2097152, N = 2 }"])
def test_no_more_is_drawn_or_sent_for_a_larger_shape(axes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = target(axes=axes)
    shape = catalog.shape(of.inputs[0], of.cases[0].axes)
    count, made = 0, values.drawn

    def counted(*given: Any) -> torch.Tensor:
        nonlocal count
        found = made(*given)
        count += found.numel()
        return found

    monkeypatch.setattr(values, "drawn", counted)
    for case in families.value_sets(of, of.cases[0]):
        count = 0
        (change,) = values.changes_of(of, replace(case, number=77), 5).values()
        assert values.MOST_CHANGED // 2 <= change.rows.numel() <= values.MOST_CHANGED
        assert len(change.at) >= values.FEWEST_ROWS
        assert count <= 2 * values.MOST_CHANGED, "the rows, and uniform ones in their place"
        first, last = int(change.at[0]), int(change.at[-1])
        assert first == 0 and last + change.rows.shape[1] == math.prod(shape)
        assert bool((change.at.diff() >= change.rows.shape[1]).all()), "no stretch lies over another"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "float64"])
@pytest.mark.parametrize("axes", ["{ M = 5000, N = 77 }", "{ M = 1, N = 333333 }"])
def test_stretches_are_laid_where_they_belong_and_the_rest_stays(dtype: str, axes: str) -> None:
    of = target(f'x = "{dtype} [M, N] normal"', f'y = "{dtype} [M, N]"', axes=axes)
    case = families.value_sets(of, of.cases[0])[0]
    (change,) = values.changes_of(of, replace(case, number=77), 5).values()
    before = values.inputs_of(of, Case.of_set(of.cases[0]), 5)["x"]
    after = drawn(of, case)["x"]
    flat, told, untouched = after.view(-1).double(), before.view(-1).double().clone(), 0
    for at, row in zip(change.at.tolist(), change.rows, strict=True):
        assert torch.equal(flat[at : at + len(row)], row.double())
        told[at : at + len(row)] = math.nan
    untouched = ~torch.isnan(told)
    assert bool(untouched.any())
    assert torch.equal(flat[untouched], told[untouched])


def test_a_rung_of_large_sizes_alone_gets_the_least_that_it_supports() -> None:
    plain = target(axes="{ M = 8, N = 64 }")
    supports = {"M": Extent(least=300, multiple=4), "N": Extent(least=512, multiple=256)}
    narrow = replace(plain.rungs[1], supports=supports)
    for seed in SEEDS:
        own = [case for case in families.drawn_shapes(plain, seed, [narrow], host=True)
               if not narrow.unsupported(case.axes)]  # fmt: skip
        assert [dict(case.axes) for case in own] == [{"M": 300, "N": 512}]


# -- whole numbers -------------------------------------------------------------------------------------------------

COUNTED = ('x = "uint8 [N] integers(0, 256)"', 'y = "int64 [256]"')


def refused_whole(of: Target, reference: Any, rung: Any) -> dict[Values, bool]:
    """Of each set of whole numbers, whether a rung is wrong there; without those on which nobody could be right."""
    found = {}
    for case in families.value_sets(of, of.cases[0]):
        inputs = drawn(of, case)
        family = families.ValueFamily(of, reference, "cpu", case, inputs, {})
        if not family.impossible:
            found[case.values["x"]] = not family.judge({"y": rung(inputs["x"])})[0].right
    return found


def counts(x: torch.Tensor) -> torch.Tensor:
    return torch.bincount(x, minlength=256)


@pytest.mark.parametrize(
    "wrong",
    [lambda x: counts(x).to(torch.int16).long(), lambda x: counts(x).clamp(max=32767)],
    ids=["wraps at 32768", "clamped"],
)
def test_counts_that_wrap_or_are_clamped_are_right_on_even_draws_and_refused_at_the_timed_shape(wrong: Any) -> None:
    of = target(*COUNTED, axes="{ N = 262144 }")
    declared = values.inputs_of(of, Case.of_set(of.cases[0]), 9)["x"]
    assert torch.equal(wrong(declared), counts(declared))
    found = refused_whole(of, counts, wrong)
    assert found[Values.LOWEST] and found[Values.HIGHEST] and found[Values.DOMINANT]
    assert set(refused_whole(of, counts, counts).values()) == {False}, "an honest one is right on all of them"
    assert all(families.gating(case) for case in families.value_sets(of, of.cases[0]))


def test_whole_numbers_that_hardly_ever_meet_are_sorted_alone_and_others_keep_what_they_promise() -> None:
    def kinds(line: str) -> set[Values]:
        of = target(f'x = "{line}"', 'y = "int64 [N]"', axes="{ N = 64 }")
        return {case.values["x"] for case in families.value_sets(of, of.cases[0])}

    assert kinds("int64 [N] integers(0, 1000000)") == {Values.SORTED}
    assert kinds("int64 [N] integers(0, 8)") == set(families.WHOLE_SETS)
    assert kinds("int64 [N] permutation") == set()
    assert kinds("int64 [N] integers(0, 8) static") == {Values.UPPER}
    assert kinds("int64 [N] integers(7, 8)") == set()


@pytest.mark.parametrize(("flag", "sets"), [("", len(families.WHOLE_SETS)), (" static", len(families.WHOLE_SETS) + 1)])
def test_sums_of_bytes_in_fp32_are_right_on_even_draws_and_refused_where_all_have_one_sign(
    flag: str, sets: int
) -> None:
    of = target(
        *(f'x = "int8 [M, K] integers(-128, 128)"\nw = "int8 [K, N] integers(-128, 128){flag}"', 'y = "int32 [M, N]"'),
        axes="{ M = 8, K = 2048, N = 8 }",
    )

    def right(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return inputs["x"].int() @ inputs["w"].int()

    def in_fp32(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return (inputs["x"].float() @ inputs["w"].float()).int()

    declared = values.inputs_of(of, Case.of_set(of.cases[0]), 9)
    assert torch.equal(in_fp32(declared), right(declared))
    found = families.value_sets(of, of.cases[0])
    assert len({case.number for case in found}) == len(found) == sets
    wrong = set()
    for case in found:
        inputs = values.inputs_of(of, case, 5)
        family = families.ValueFamily(of, lambda x, w: x.int() @ w.int(), "cpu", case, inputs, {})
        assert not family.impossible
        assert family.judge({"y": right(inputs)})[0].right
        if not family.judge({"y": in_fp32(inputs)})[0].right:
            wrong.add((case.values.get("w"), families.prepared_anew(of, case)))
    assert (Values.UPPER, bool(flag)) in wrong


def test_values_on_which_nobody_can_be_right_are_not_posed() -> None:
    of = target('x = "int32 [N] integers(-1000000, 1000000)"', 'y = "int32 []"', axes="{ N = 262144 }")
    found = refused_whole(of, lambda x: x.long().sum(), lambda x: x.long().sum().int())
    assert Values.HIGHEST not in found, "the sum is beyond int32"
    assert not any(found.values())
    mean = target('x = "int64 [N] integers(0, 2)"', 'y = "float32 []"', axes="{ N = 4096 }")
    assert Values.LOWEST not in refused_whole(mean, *[lambda x: x.sum() / (x != 0).sum()] * 2)
