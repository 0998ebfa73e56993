"""Drawing cases: the same from the same seed, steady when a lesson grows, never outside what its author allows."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.checks.oracle import schema
from aisp.checks.oracle.fixed import Held, holding
from aisp.checks.oracle.schema import Case, Layout, Relation, Schema, SchemaError, Stage, Strategy, Values, draw
from aisp.kernels import catalog
from aisp.kernels.catalog import Target
from tests.checks.oracle.targets import target

ROOT = Path(__file__).resolve().parents[3]
LAYOUTS = 'layouts = ["transposed", "sliced", "offset", "expanded"]'
DTYPES = 'dtypes = ["float32", "float16", "bfloat16"]'
RICH = target(
    "\n".join(
        [
            'x = "float32 [M, N] normal"',
            'scale = "float32 [N] positive"',
            'gate = "float32 [M, N] uniform(0, 1)"',
            'index = "int64 [M] integers(0, N)"',
            'order = "int64 [M] permutation"',
            'mask = "bool [M, N] bernoulli(0.3)"',
            'state = "float32 [M, N] normal mutable"',
        ]
    ),
    flops="2*M*N",
    tables=f'[fuzz]\n{LAYOUTS}\n{DTYPES}\nindependent = "M"\nfinite = ["state"]',
)
DRAWN = [s for s in Strategy if s is not Strategy.HUGE]


def cases(of: Target, strategy: Strategy, count: int = 60, seed: int = 5, host: bool = True) -> list[Case]:
    drawn = Schema.of(of, host=host)
    return [draw(drawn, seed, strategy, number) for number in range(count)]


# -- the same from the same seed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", DRAWN)
def test_the_same_seed_draws_the_same_cases_and_another_seed_others(strategy: Strategy) -> None:
    assert cases(RICH, strategy) == cases(RICH, strategy)
    assert cases(RICH, strategy) != cases(RICH, strategy, seed=6)


def test_a_case_does_not_depend_on_those_drawn_before_it() -> None:
    whole = Schema.of(RICH, host=True)
    assert [draw(whole, 5, Strategy.MIXED, n) for n in (9, 4)] == [cases(RICH, Strategy.MIXED)[n] for n in (9, 4)]


SHOW = """
import sys
from pathlib import Path
from aisp.checks.oracle.schema import Schema, Strategy, draw
from aisp.kernels import catalog
folder = Path(sys.argv[1])
schema = Schema.of(catalog.load_target(folder, root=folder.parent, chapter="rows"), host=True)
for number in range(12):
    print(draw(schema, 5, Strategy.MIXED, number).text)
assert "torch" not in sys.modules
"""


def test_another_process_draws_the_same_case_and_needs_no_torch() -> None:
    """Neither hash randomization nor the order of a set may reach a case; a frontend may draw one to show it."""
    folder = ROOT / "checks" / "oracle" / "corpus" / "rows" / "softmax"
    softmax = catalog.load_target(folder, root=folder.parent, chapter="rows")
    assert isinstance(softmax, Target)
    said = subprocess.run(
        [sys.executable, "-c", SHOW, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77", "PYTHONPATH": str(ROOT)},
    ).stdout
    assert said.splitlines() == [case.text for case in cases(softmax, Strategy.MIXED, 12)]


@pytest.mark.parametrize("strategy", DRAWN)
def test_a_new_axis_shifts_no_other_choice(strategy: Strategy) -> None:
    small = target(tables=f"[fuzz]\n{LAYOUTS}\n{DTYPES}")
    grown = target(
        outputs='y = "float32 [M, N]"\nz = "float32 [K]"',
        axes="{ K = 4, M = 8, N = 64 }",
        tables=f"[fuzz]\n{LAYOUTS}\n{DTYPES}",
    )
    for one, two in zip(cases(small, strategy), cases(grown, strategy), strict=True):
        assert {**two.axes, "K": 0} == {**one.axes, "K": 0}
        assert (one.dtype, one.layouts, one.values) == (two.dtype, two.layouts, two.values)


@pytest.mark.parametrize("strategy", [Strategy.BOUNDARY, Strategy.REGULAR, Strategy.MIXED])
def test_a_new_input_shifts_no_other_choice(strategy: Strategy) -> None:
    small = target(tables=f"[fuzz]\n{LAYOUTS}\n{DTYPES}")
    grown = target('a = "float32 [M, N] normal"\nx = "float32 [M, N] normal"', tables=f"[fuzz]\n{LAYOUTS}\n{DTYPES}")
    for one, two in zip(cases(small, strategy), cases(grown, strategy), strict=True):
        assert (one.axes, one.dtype, one.relation) == (two.axes, two.dtype, two.relation)
        assert one.layouts.get("x") == two.layouts.get("x")
        assert one.values.get("x") == two.values.get("x")


# -- what each strategy draws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("strategy", DRAWN)
def test_every_case_is_within_its_budget_and_domain(strategy: Strategy, host: bool) -> None:
    most = schema.MOST_ELEMENTS_HOST if host else schema.MOST_ELEMENTS
    for case in cases(RICH, strategy, host=host):
        for spec in (*RICH.inputs, *RICH.outputs):
            assert math.prod(catalog.shape(spec, case.axes)) <= most
        for name, kind in case.values.items():
            spec = next(s for s in RICH.inputs if s.name == name)
            assert schema.takes(RICH, spec, kind)
        assert case.axes["M"] * case.axes["N"] * 2 <= schema.MOST_FLOPS_HOST or not host


def test_a_budget_of_operations_holds_on_a_cpu() -> None:
    product = target(
        'a = "float32 [M, K] normal"\nb = "float32 [K, N] normal"',
        axes="{ M = 64, N = 64, K = 64 }",
        flops="2*M*N*K",
    )
    seen = [2 * math.prod(case.axes.values()) for s in DRAWN for case in cases(product, s)]
    assert max(seen) <= schema.MOST_FLOPS_HOST
    assert max(seen) > 2**18, "a budget that leaves only trifles would be met as well"


def test_boundary_cases_have_the_sizes_at_which_tiles_end_and_regular_ones_have_not() -> None:
    plain = target('x = "float32 [N] normal"', 'y = "float32 [N]"', axes="{ N = 100 }")
    edges = {case.axes["N"] for case in cases(plain, Strategy.BOUNDARY, 400)}
    even = {case.axes["N"] for case in cases(plain, Strategy.REGULAR, 200)}
    assert edges == {100, *schema.EDGES}
    assert even == {100, *schema.ROUND}
    assert all(not case.layouts and not case.values for case in cases(RICH, Strategy.BOUNDARY))


def test_mixed_cases_have_every_layout_that_is_declared_and_tame_values_alone() -> None:
    seen = cases(RICH, Strategy.MIXED, 150)
    assert {layout for case in seen for layout in case.layouts.values()} == {*Layout} - {Layout.CONTIGUOUS}
    assert {kind for case in seen for kind in case.values.values()} <= {*schema.TAME, Values.EXTREMES, *schema.WHOLE}
    assert {case.dtype for case in seen} == {"float32", "float16", "bfloat16"}


@pytest.mark.parametrize(("strategy", "kinds"), [("adversarial", schema.HARD), ("nonfinite", [Values.NONFINITE])])
def test_hard_strategies_always_find_somebody_to_be_hard(strategy: str, kinds: list[Values]) -> None:
    seen = cases(RICH, Strategy(strategy), 150)
    assert all(case.values for case in seen)
    assert {kind for case in seen for kind in case.values.values()} == set(kinds)


def test_layouts_that_an_input_cannot_have_are_never_drawn() -> None:
    for case in cases(RICH, Strategy.MIXED, 200):
        assert "state" not in case.layouts, "a mutable input is restored in place"
        assert case.layouts.get("scale") not in (Layout.TRANSPOSED, Layout.EXPANDED), "it has one dimension"
        assert case.layouts.get("order") is not Layout.EXPANDED, "a permutation has no two equal values"


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("x", {*Values} - {Values.EXTREMES, *schema.WHOLE}),
        ("state", {*Values} - {Values.EXTREMES, Values.NONFINITE, *schema.WHOLE}),
        (
            "scale",
            {
                *(Values.DECLARED, Values.CONSTANT, Values.SORTED, Values.TIES, Values.LARGE),
                *(Values.OUTLIERS, Values.UNIFORM, Values.ROWS, Values.FAR),
            },
        ),
        ("gate", {Values.DECLARED, Values.CONSTANT, Values.SORTED, Values.TIES, Values.ROWS}),
        (
            "index",
            {Values.DECLARED, Values.CONSTANT, Values.SORTED, Values.TIES, Values.EXTREMES, *schema.WHOLE},
        ),
        ("order", {Values.DECLARED}),
        ("mask", {Values.DECLARED, Values.CONSTANT, Values.SORTED}),
    ],
)
def test_an_input_takes_the_values_that_its_declaration_admits(name: str, allowed: set[Values]) -> None:
    spec = next(s for s in RICH.inputs if s.name == name)
    taken = {kind for kind in Values if kind is Values.DECLARED or schema.takes(RICH, spec, kind)}
    assert taken == allowed


def test_relations_are_drawn_for_gate_cases_alone_and_every_declared_one_is() -> None:
    linear = target(tables='[fuzz]\nindependent = "M"\nlinear = ["x"]\nshift = ["x"]')
    gate = [c.relation for s in (Strategy.BOUNDARY, Strategy.REGULAR, Strategy.MIXED) for c in cases(linear, s, 200)]
    assert set(gate) == {"", "again", "slice", "permute", "double", "shift"}
    triage = [c.relation for s in (Strategy.ADVERSARIAL, Strategy.NONFINITE) for c in cases(linear, s, 200)]
    assert set(triage) == {""}
    dropout = target(
        'x = "float32 [M, N] normal"\nseed = "int64 [1] integers(0, 9)"',
        tables='[judged]\ny = { as = "dropout", keep = "0.5", seed = "seed" }',
    )
    assert schema.relations(dropout) == (Relation.AGAIN, Relation.RESEED)


def test_gate_and_triage_are_what_a_failure_is_worth() -> None:
    assert {s for s in Strategy if s.stage is Stage.TRIAGE} == {Strategy.ADVERSARIAL, Strategy.NONFINITE}


# -- what the author declares --------------------------------------------------------------------------------------


def test_declared_extents_and_parameters_are_kept_to() -> None:
    head = target(
        'x = "float32 [M, D] normal"',
        'y = "float32 [M, D]"',
        axes="{ M = 64, D = 64, WINDOW = 5, LEFT = 3 }",
        tables="[fuzz]\naxes = { D = [32, 64], M = { multiple = 16, least = 16, most = 512 }, LEFT = { most = 3 } }",
    )
    seen = [case.axes for s in DRAWN for case in cases(head, s, 100)]
    assert {axes["D"] for axes in seen} == {32, 64}
    assert all(axes["M"] % 16 == 0 and 16 <= axes["M"] <= 512 for axes in seen)
    assert {axes["M"] for axes in seen} >= {16, 48, 256, 512}
    assert {axes["WINDOW"] for axes in seen} == {5}, "no tensor has it: only its author knows what it may be"
    assert {axes["LEFT"] for axes in seen} == {1, 2, 3}, "its author said"


def test_the_empty_axis_is_drawn_only_where_the_author_allows_it() -> None:
    with_empty = target(tables="[fuzz]\naxes = { M = { least = 0 } }")
    without = target(tables="[fuzz]\naxes = { M = { least = 1 } }")
    assert 0 in {case.axes["M"] for case in cases(with_empty, Strategy.BOUNDARY, 100)}
    assert 0 not in {case.axes["M"] for case in cases(without, Strategy.BOUNDARY, 200)}


def test_dimensions_that_depend_on_one_another_fit_in_every_case() -> None:
    odd = target('x = "float32 [M, N - 16] normal"', 'y = "float32 [M, N - 16]"')
    assert all(case.axes["N"] >= 16 for s in DRAWN for case in cases(odd, s))


def test_axes_that_never_fit_are_told_with_what_would_help() -> None:
    big = target(tables="[fuzz]\naxes = { M = [1024], N = [4096] }")
    with pytest.raises(SchemaError, match=r"no axes fit together within 65536 elements, not even M=1024, N=4096"):
        cases(big, Strategy.BOUNDARY, 1)
    nothing = target(tables="[fuzz]\naxes = { M = { least = 5000, most = 5001 } }")
    with pytest.raises(SchemaError, match=r"\[fuzz\] allows no value of M; list some"):
        Schema.of(nothing, host=True)


def test_a_rung_is_excused_from_what_it_does_not_support_and_from_nothing_else() -> None:
    whole = target(tables="[rungs.optimized]\nsupports = { N = { multiple = 16, most = 512 }, M = [1, 8] }")
    rung = whole.rung("optimized")

    def said(m: int, n: int) -> str:
        return rung.unsupported({"M": m, "N": n})

    assert said(8, 64) == ""
    assert said(8, 63) == "optimized supports N multiples of 16, at least 1, at most 512, not N = 63"
    assert said(3, 64) == "optimized supports M of 1, 8, not M = 3"
    assert said(8, 528).endswith("not N = 528")
    assert whole.rung("baseline").unsupported({"M": 3, "N": 63}) == ""


@pytest.mark.parametrize(("shape", "each"), [("[N]", 1), ("[2, N]", 2), ("[1024, N]", 1024), ("[3, N, 5]", 15)])
def test_a_huge_case_has_a_tensor_that_32_bits_cannot_address(shape: str, each: int) -> None:
    wide = target(f'x = "float32 {shape} normal"', f'y = "float32 {shape}"', axes="{ N = 64 }")
    (found,) = cases(wide, Strategy.HUGE, 1)
    assert 2**31 < found.axes["N"] * each < 2**32


@pytest.mark.parametrize("fuzz", ["axes = { N = { most = 4096 } }", "axes = { N = [64, 2147483649] }"])
def test_no_huge_case_is_drawn_against_what_the_author_allows(fuzz: str) -> None:
    bounded = target('x = "float32 [N] normal"', 'y = "float32 [N]"', axes="{ N = 64 }", tables=f"[fuzz]\n{fuzz}")
    with pytest.raises(SchemaError, match=r"no axis makes a tensor of more than 2\*\*31 elements"):
        cases(bounded, Strategy.HUGE, 1)


def test_no_huge_case_stretches_an_axis_that_is_held() -> None:
    held = holding(Schema.of(target(), host=False), [Held("N", (64,), "")])
    assert draw(held, 1, Strategy.HUGE, 0).axes["N"] == 64
    with pytest.raises(SchemaError, match="no axis makes a tensor"):
        draw(holding(held, [Held("M", (8,), "")]), 1, Strategy.HUGE, 0)


def test_a_dtype_takes_the_place_of_the_main_one_alone() -> None:
    mixed = target(
        'x = "float16 [M, N] normal"\nw = "float32 [N] normal"\ni = "int64 [M] integers(0, 2)"',
        'y = "float16 [M, N]"\ns = "float32 [M]"',
    )
    retyped = [schema.retyped(mixed, spec, "bfloat16") for spec in (*mixed.inputs, *mixed.outputs)]
    assert retyped == ["bfloat16", "float32", "int64", "bfloat16", "float32"]
    assert [schema.retyped(mixed, spec, "") for spec in mixed.inputs] == ["float16", "float32", "int64"]
    whole = target('i = "int64 [M] integers(0, 2)"', 'j = "int64 [M]"')
    assert schema.main_dtype(whole) == ""


def test_the_page_names_every_strategy_with_its_stage_every_kind_layout_and_relation() -> None:
    page = (ROOT / "docs" / "oracle.md").read_text(encoding="utf-8")
    stages = dict(re.findall(r"^\| `(\w+)` \| (gate|triage) \|", page, re.MULTILINE))
    assert stages == {strategy.value: strategy.stage.value for strategy in Strategy}
    words = [*Values, *(layout for layout in Layout if layout is not Layout.CONTIGUOUS), *Relation]
    assert [word.value for word in words if f"`{word.value}`" not in page] == []


# -- a case as data ------------------------------------------------------------------------------------------------

NAMES = st.text(min_size=1, max_size=6)
CASES = st.builds(
    Case,
    number=st.integers(0, 2**31),
    strategy=st.sampled_from(list(Strategy)),
    axes=st.dictionaries(NAMES, st.integers(0, 2**40), max_size=4),
    dtype=st.sampled_from(["", "float32", "float16", "bfloat16", "float8_e4m3fn"]),
    layouts=st.dictionaries(NAMES, st.sampled_from(list(Layout)), max_size=3),
    values=st.dictionaries(NAMES, st.sampled_from(list(Values)), max_size=3),
    relation=st.sampled_from(["", *map(str, Relation)]),
)


@settings(max_examples=150, deadline=None)
@given(CASES)
def test_a_case_survives_json(case: Case) -> None:
    back = Case.of(json.loads(json.dumps(case.plain())))
    assert back == case
    assert (back.text, type(back.strategy)) == (case.text, Strategy)
    assert list(back.axes) == list(case.axes), "the order of axes is that of the text"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "'number'"),
        ({"number": 1, "strategy": "lucky", "axes": {}}, "'lucky' is not a valid Strategy"),
        ({"number": 1, "strategy": "mixed", "axes": [1]}, "axes|items"),
        ({"number": "x", "strategy": "mixed", "axes": {}}, "invalid literal"),
        ({"number": 1, "strategy": "mixed", "axes": {}, "layouts": {"x": "spiral"}}, "spiral"),
        ({"number": 1, "strategy": "mixed", "axes": {}, "values": {"x": "nice"}}, "nice"),
        ({"number": 1, "strategy": "mixed", "axes": {}, "relation": "friend"}, "friend"),
    ],
)
def test_what_is_no_case_of_this_version_is_refused(data: dict[str, object], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        Case.of(data)


def test_what_a_case_leaves_out_is_plain() -> None:
    assert Case.of({"number": 3, "strategy": "mixed", "axes": {"N": 2}}) == Case(3, Strategy.MIXED, {"N": 2})


def test_a_case_reads_as_one_line() -> None:
    case = Case(
        *(4, Strategy.MIXED, {"M": 3, "N": 129}, "float16"),
        layouts={"x": Layout.TRANSPOSED},
        values={"x": Values.LARGE, "w": Values.TIES},
        relation="slice",
    )
    assert case.text == "M=3 N=129 float16 x:transposed,large w:ties (slice)"


def test_a_counter_is_asked_for_long_inputs_that_are_far_from_even() -> None:
    counts = target('x = "uint8 [N] integers(0, 256)"', 'y = "int64 [256]"', axes="{ N = 4096 }")
    seen = [case for case in cases(counts, Strategy.MIXED, 60) if case.values.get("x") in schema.WHOLE]
    assert max(case.axes["N"] for case in seen) > 32768
    assert all(schema.fits(schema.Schema.of(counts, host=True), case.axes) for case in seen)
