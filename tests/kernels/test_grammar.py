"""Axes expressions and tensor lines: what they give, and that a bad one gives GrammarError and nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.kernels.catalog import (
    Case,
    Flag,
    GrammarError,
    TensorSpec,
    evaluate,
    itemsize,
    names,
    parse_tensor,
    shape,
)

AXES = {"M": 1023, "N": 517, "K": 64, "ZERO": 0}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2*M*N*K", 2 * 1023 * 517 * 64),
        (" M ", 1023),
        ("0", 0),
        ("ceil_div(M, 64)", 16),
        ("ceil_div(64, 64)", 1),
        ("ceil_div(ZERO, 64)", 0),
        ("min(M, N, K)", 64),
        ("max(1, ZERO)", 1),
        ("log2(K)", 6.0),
        ("-K + +N", 453),
        ("M // K * K", 960),
        ("M % K", 63),
        ("K / 128", 0.5),
        ("2**-1", 0.5),
        ("2**3**2", 512),
        ("1e9 * 3.5", 3.5e9),
        ("(M +\n\tN)", 1540),
        ("M*N//2 + 4*M*ceil_div(N, 128)", 1023 * 517 // 2 + 4 * 1023 * 5),
    ],
)
def test_an_expression_gives_its_value(expression: str, value: float) -> None:
    result = evaluate(expression, AXES)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    "expression",
    [
        *(
            "",
            " ",
            "M N",
            "2 *",
            "(M",
            "M)",
            "M; N",
            "M = 2",
            "M == 2",
            "M if N else K",
            "lambda: 1",
            "[M]",
            "(M, N)",
        ),
        *(
            "'M'",
            "True",
            "None",
            "M.real",
            "M[0]",
            "abs(M)",
            "__import__('os')",
            "min(M)",
            "ceil_div(M)",
            "log2(M, 2)",
        ),
        *(
            "min(*M)",
            "max(M, key=N)",
            "min",
            "1j",
            "0x10",
            "1or 2",
            "1e5or 2",
            "M and N",
            "not M",
            "~M",
            "M << 2",
        ),
        *("M @ N", "M\x00", "Ｍ", "μ", "1_0_", "ceil_div(1)(2)", "M // ZERO", "M % ZERO", "1 / 0", "0**-1"),
        *(
            "log2(0)",
            "log2(-1)",
            "(-1)**0.5",
            "Q",
            "9**9**9",
            "9**9**9**9",
            "2**129",
            "1e308*10",
            "1e999",
            "2**1e9",
        ),
        *(
            "10**100",
            "-(2**200)",
            "M" * 1000,
            "-" * 100 + "1",
            "(" * 150 + "1" + ")" * 150,
            "+".join("M" * 100),
        ),
    ],
)
def test_what_is_not_in_the_grammar_is_refused_with_a_fix(expression: str) -> None:
    with pytest.raises(GrammarError) as caught:
        evaluate(expression, AXES)
    assert caught.value.message
    assert caught.value.fix
    assert str(caught.value) == f"{caught.value.message}; {caught.value.fix}"


def test_a_misspelt_axis_is_told_the_nearest_one() -> None:
    with pytest.raises(GrammarError, match=r"the axis 'HEAD' is used but not defined; did you mean 'HEADS'\?"):
        evaluate("HEAD * 2", {"HEADS": 8})
    with pytest.raises(GrammarError, match=r"the axis 'm' is used but not defined; did you mean 'M'\?"):
        evaluate("m * 2", {"M": 8})
    with pytest.raises(GrammarError, match=r"define it in \[axes\] \(there is: M\)"):
        evaluate("LENGTH", {"M": 8})


def test_a_division_by_zero_says_which_axis_was_zero() -> None:
    with pytest.raises(GrammarError, match=r"divides by zero where M=3, ZERO=0; guard it with max"):
        evaluate("M / ZERO", {"M": 3, "ZERO": 0})


def test_names_are_the_axes_that_an_expression_uses() -> None:
    assert names("2*M*N + ceil_div(M, max(K, 1))") == {"M", "N", "K"}
    assert names("17") == frozenset()


def _operations(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, children, st.sampled_from(["+", "-", "*", "/", "//", "%"]), children),
        st.builds("({} ** {})".format, children, st.integers(-3, 5)),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "ceil_div"]), children, children),
        st.builds("log2({})".format, children),
        st.builds("-{}".format, children),
    )


EXPRESSIONS = st.recursive(
    st.one_of(
        st.sampled_from(sorted(AXES)),
        st.integers(0, 10**6).map(str),
        st.floats(0, 1e6, allow_nan=False).map(repr),
    ),
    _operations,
    max_leaves=10,
)


@given(EXPRESSIONS)
@settings(max_examples=300, deadline=None)
def test_a_valid_expression_gives_what_python_gives(expression: str) -> None:
    known = {
        "min": min,
        "max": max,
        "log2": math.log2,
        "ceil_div": lambda a, b: -(-a // b),
    }
    try:
        ours = evaluate(expression, AXES)
    except GrammarError:
        return
    theirs = eval(expression, {"__builtins__": {}}, {**known, **AXES})  # noqa: S307 - the oracle of this test
    assert ours == theirs
    assert type(ours) is type(theirs)


@given(EXPRESSIONS)
@settings(max_examples=200, deadline=None)
def test_a_valid_expression_of_small_numbers_is_never_refused_without_reason(expression: str) -> None:
    try:
        evaluate(expression, AXES)
    except GrammarError as error:
        reasons = ("zero", "large", "real value", "characters", "nested")
        assert any(reason in error.message for reason in reasons), error


@given(st.one_of(st.text(max_size=60), st.text(alphabet="MNK019.e+-*/%(), minaxceil_dvlog2", max_size=60)))
@settings(max_examples=500, deadline=None)
def test_any_text_gives_a_finite_number_or_a_grammar_error(text: str) -> None:
    try:
        result = evaluate(text, AXES)
    except GrammarError:
        return
    assert math.isfinite(result)


@pytest.mark.parametrize(
    ("line", "spec"),
    [
        ("float32 [M, N] normal", TensorSpec("x", "float32", ("M", "N"), "normal", ("0", "1"))),
        ("float32[M,N]normal", TensorSpec("x", "float32", ("M", "N"), "normal", ("0", "1"))),
        (
            "bfloat16 [max(M, N), 2*K] normal(0, 1/max(K, 1)) static",
            TensorSpec(
                *("x", "bfloat16", ("max(M, N)", "2*K"), "normal"),
                ("0", "1/max(K, 1)"),
                frozenset({Flag.STATIC}),
            ),
        ),
        ("float16 [] ones", TensorSpec("x", "float16", (), "ones")),
        ("float64 [N,] uniform", TensorSpec("x", "float64", ("N",), "uniform", ("0", "1"))),
        (
            "float8_e4m3fn [N] uniform(-1, 1)",
            TensorSpec("x", "float8_e4m3fn", ("N",), "uniform", ("-1", "1")),
        ),
        (
            "int64 [N] integers(0, M) cpu",
            TensorSpec("x", "int64", ("N",), "integers", ("0", "M"), frozenset({Flag.CPU})),
        ),
        ("int32 [N] permutation", TensorSpec("x", "int32", ("N",), "permutation")),
        ("bool [N] bernoulli(0.25)", TensorSpec("x", "bool", ("N",), "bernoulli", ("0.25",))),
        (
            "float32 [N] positive mutable",
            TensorSpec("x", "float32", ("N",), "positive", (), frozenset({Flag.MUTABLE})),
        ),
        (
            "float32 [N] zeros pinned, static",
            TensorSpec("x", "float32", ("N",), "zeros", (), frozenset({Flag.PINNED, Flag.CPU, Flag.STATIC})),
        ),
        ("made static", TensorSpec("x", "made", flags=frozenset({Flag.STATIC}))),
        ("made", TensorSpec("x", "made")),
        ("int64 [N] posed", TensorSpec("x", "int64", ("N",), "posed")),
        ("float32 [...] posed", TensorSpec("x", "float32", (), "posed", open=True)),
        (
            "any [...] posed mutable",
            TensorSpec("x", "any", (), "posed", (), frozenset({Flag.MUTABLE}), open=True),
        ),
    ],
)
def test_an_input_line_is_read_whole(line: str, spec: TensorSpec) -> None:
    assert parse_tensor("x", line) == spec


@pytest.mark.parametrize(
    ("line", "refilled"),
    [
        ("float32 [M] normal", True),
        ("float32 [M] posed mutable", True),
        ("float32 [M] normal static", False),
        ("made", False),
        ("made static", False),
    ],
)
def test_an_input_has_new_values_in_each_call_unless_it_is_static_or_made(line: str, refilled: bool) -> None:
    assert parse_tensor("x", line).refilled is refilled


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        ("", "the line is empty", "float32 [M, N] normal"),
        ("float23 [M] normal", "unknown dtype 'float23'", "did you mean 'float32'?"),
        ("complex64 [M] normal", "complex64 is not judged", "float32 [..., 2]: torch.view_as_real(y)"),
        ("float32 normal", "the dimensions are missing after 'float32'", "float32 [M, N] normal"),
        ("float32 [M normal", "the dimensions are not closed", "close them with ]"),
        ("float32 [M,, N] normal", "an empty place between commas", "take the extra comma out"),
        ("float32 [M]", "it does not say how its values are made", "add a distribution"),
        ("float32 [M] static", "it does not say how its values are made", "add a distribution"),
        ("float32 [M] 17", "cannot read '17'", "add a distribution"),
        ("float32 [M] gaussian", "unknown distribution 'gaussian'", "normal"),
        ("float32 [M] norml", "unknown distribution 'norml'", "did you mean 'normal'?"),
        ("float32 [M] normal(0)", "normal was given 1 arguments", "write normal or normal(mean, std)"),
        ("float32 [M] normal()", "normal was given 0 arguments", "write normal or normal(mean, std)"),
        ("float32 [M] normal(0, 1", "a parenthesis is not closed", "close it with )"),
        ("float32 [M] ones(2)", "ones was given 1 arguments", "write ones"),
        ("bool [M] bernoulli", "bernoulli was given 0 arguments", "write bernoulli(p)"),
        ("int64 [M] integers", "integers was given 0 arguments", "write integers(low, high)"),
        ("int64 [M] normal", "normal makes fractions, which int64 cannot hold", "use integers(low, high)"),
        ("bool [M] uniform", "uniform makes fractions, which bool cannot hold", "use bernoulli(0.5)"),
        ("float32 [M] integers(0, 9)", "integers makes whole numbers", "use an integer dtype"),
        ("int64 [M, N] permutation", "permutation was given 2 dimensions", "give it one"),
        ("float32 [M] normal statik", "unknown flag 'statik'", "did you mean 'static'?"),
        ("float32 [M] normal static mutable", "it is both static and mutable", "keep one"),
        ("made pinned", "a made input takes no cpu pinned", "inputs.py decides where it lives"),
        ("made [M]", "a made input has no dimensions here", "inputs.py decides"),
        ("any [M] posed", "dimensions without a dtype", "write any [...]"),
        ("float32 [...] normal", "normal needs a shape", "or posed"),
        ("float32 [M] posed(1)", "posed was given 1 arguments", "write posed"),
        ("x" * 600, "the line has 600 characters", "keep it within 500"),
    ],
)
def test_a_wrong_input_line_names_the_slip_and_the_fix(line: str, message: str, fix: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_tensor("x", line)
    assert message in caught.value.message
    assert fix in caught.value.fix


def test_an_output_is_only_dtype_and_dimensions() -> None:
    assert parse_tensor("y", "bfloat16 [N, M]", output=True) == TensorSpec("y", "bfloat16", ("N", "M"))
    with pytest.raises(GrammarError, match="'normal' after an output's dimensions"):
        parse_tensor("y", "float32 [N] normal", output=True)
    with pytest.raises(GrammarError, match="an output cannot be made"):
        parse_tensor("y", "made", output=True)


def test_an_output_may_have_the_shape_that_the_reference_gives_it_and_an_input_must_be_posed_for_it() -> None:
    spec = parse_tensor("y", "float32 [...]", output=True)
    assert spec == TensorSpec("y", "float32", open=True)
    assert not spec.shaped
    with pytest.raises(GrammarError, match="what the reference's is"):
        shape(spec, AXES)
    assert parse_tensor("y", "any [...]", output=True) == TensorSpec("y", "any", open=True)
    with pytest.raises(GrammarError, match=r"pose\(\) of inputs\.py makes it"):
        shape(parse_tensor("x", "float32 [...] posed"), AXES)


@given(st.one_of(st.text(max_size=80), st.text(alphabet="float32 [M,N]()normal made static int64", max_size=80)))
@settings(max_examples=300, deadline=None)
def test_any_tensor_line_is_read_or_refused(line: str) -> None:
    try:
        spec = parse_tensor("x", line)
    except GrammarError as error:
        assert error.fix
    else:
        assert spec.made or itemsize(spec.dtype) in (1, 2, 4, 8)


def test_a_shape_follows_the_case() -> None:
    spec = parse_tensor("x", "float32 [BATCH, ceil_div(N, 2), 4] normal")
    assert shape(spec, Case("default", {"BATCH": 3, "N": 7}).axes) == (3, 4, 4)
    assert shape(parse_tensor("s", "float32 [] ones"), {}) == ()
    assert shape(spec, {"BATCH": 0, "N": 7}) == (0, 4, 4)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ("M / 2", "not a whole number"),
        ("M - 9", "is -1"),
        ("2**40, 2**40", "elements"),
        ("Q", "the axis 'Q'"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(dims: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        shape(parse_tensor("x", f"float32 [{dims}] normal"), {"M": 8})


def test_item_sizes_are_bytes_per_element() -> None:
    sizes = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e5m2": 1, "bool": 1, "int64": 8}
    assert {dtype: itemsize(dtype) for dtype in sizes} == sizes
    with pytest.raises(LookupError, match="no dtype 'complex64'; there is float64"):
        itemsize("complex64")
