"""Inputs from a seed: the same bytes everywhere, of the declared dtype and distribution, independent of each other."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aisp.checks.oracle import values
from aisp.checks.oracle.schema import Case as Posed
from aisp.checks.oracle.schema import subseed
from aisp.checks.oracle.values import BLOCK_ELEMENTS, InputsError, drawn, inputs_of, made_inputs
from aisp.kernels.catalog.model import Case, Goal, Needs, OwnRule, Target
from aisp.kernels.catalog.tensors import parse_tensor

KEY = subseed(7, "a test")


def tensor(line: str, key: tuple[int, int] = KEY, **axes: int) -> torch.Tensor:
    """The tensor that a line of `[inputs]` describes."""
    return drawn(parse_tensor("x", line), axes, key)


def raw(value: torch.Tensor) -> bytes:
    """A tensor's bytes, whatever its dtype."""
    return bytes(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def target_of(lines: dict[str, str], name: str = "t", **axes: int) -> Target:
    """A target with these inputs; what it computes does not matter here."""
    return Target(
        id=f"mine:{name}",
        chapter="mine",
        name=name,
        title="",
        folder=Path("/nowhere"),
        root=Path("/nowhere"),
        goal=Goal.SPEED,
        needs=Needs(),
        techniques=(),
        inputs=tuple(parse_tensor(key, line) for key, line in lines.items()),
        outputs=(parse_tensor("y", "float32 [4]", output=True),),
        cases=(Case("default", axes),),
        flops="0",
        bytes="",
        tolerance={"float32": 0.0},
        rungs=(),
        expect=None,
        lesson="",
    )


# -- the same bytes ----------------------------------------------------------------------------------------------------

RECORDED = {
    "float32 [3, 5] normal": "0dcd853d6b1edf91",
    "float64 [7] normal(1, 2)": "b39daf27ecba5e05",
    "float32 [11] uniform(-1, 1)": "8ef3a90712adcab6",
    "float64 [11] uniform": "7cb0e381376841a3",
    "bfloat16 [9] normal": "955b2b4e10641b12",
    "float16 [9] positive": "c605d4253a4aaf26",
    "float8_e4m3fn [16] normal": "23c0eed06f1db5b8",
    "int64 [13] integers(-5, 100)": "28546dad0de4a6e0",
    "int8 [13] integers(-128, 128)": "4ca60f789e0cd640",
    "int32 [17] permutation": "bbd9ae3cf0100486",
    "bool [21] bernoulli(0.25)": "94792a455c2ef1be",
    "float32 [6] bernoulli(0.5)": "215d3994f3ad2144",
}


@pytest.mark.parametrize("line", RECORDED)
def test_a_seed_gives_the_bytes_that_were_recorded(line: str) -> None:
    """Every stored run can be replayed from its seed only as long as these bytes stand."""
    assert hashlib.sha256(raw(tensor(line))).hexdigest()[:16] == RECORDED[line]


def test_the_recorded_subseed() -> None:
    assert subseed(2**64 - 1, "ch07:transpose", "default", 0, "x") == (7189278857141928438, 5467630068779951424)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    line = "float32 [1000] normal"
    assert raw(tensor(line, subseed(1, "x"))) == raw(tensor(line, subseed(1, "x")))
    assert raw(tensor(line, subseed(1, "x"))) != raw(tensor(line, subseed(2, "x")))


def test_names_cannot_run_together_in_a_subseed() -> None:
    assert subseed(1, "ab", "c") != subseed(1, "a", "bc")
    assert subseed(1, "a", 1) != subseed(1, "a", 11)


@pytest.mark.parametrize("count", [1, BLOCK_ELEMENTS - 1, BLOCK_ELEMENTS, BLOCK_ELEMENTS + 1, 3 * BLOCK_ELEMENTS + 7])
def test_the_bytes_do_not_depend_on_how_many_threads_made_them(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisp.checks.oracle.values.os.cpu_count", lambda: 16)
    many = tensor("float32 [N] normal", N=count)
    monkeypatch.setattr("aisp.checks.oracle.values.os.cpu_count", lambda: 1)
    one = tensor("float32 [N] normal", N=count)
    assert many.shape == (count,)
    assert torch.equal(many, one)


@pytest.mark.slow
def test_a_longer_tensor_begins_with_the_whole_blocks_of_a_shorter_one_and_no_block_repeats() -> None:
    long = tensor("float32 [N] uniform", N=3 * BLOCK_ELEMENTS + 7)
    short = tensor("float32 [N] uniform", N=2 * BLOCK_ELEMENTS)
    assert torch.equal(long[: 2 * BLOCK_ELEMENTS], short)
    blocks = [long[start : start + 7] for start in range(0, len(long), BLOCK_ELEMENTS)]
    assert len(blocks) == 4
    assert len({raw(block) for block in blocks}) == 4
    # Nor does one block go on where another was a moment later: its first values are not all in the one before.
    words = long.numpy().view(np.uint32)
    assert not np.isin(words[BLOCK_ELEMENTS : BLOCK_ELEMENTS + 8], words[:BLOCK_ELEMENTS]).all()


def test_adding_an_input_shifts_no_other() -> None:
    alone = inputs_of(target_of({"x": "float32 [64] normal"}), Posed.of_set(Case("default", {}), 0), 5)
    more = inputs_of(
        target_of({"w": "int64 [9] integers(0, 9)", "x": "float32 [64] normal", "z": "float32 [64] normal"}),
        Posed.of_set(Case("default", {})),
        5,
    )
    assert torch.equal(alone["x"], more["x"])
    assert not torch.equal(more["x"], more["z"])


def test_target_case_set_and_name_each_have_values_of_their_own() -> None:
    lines = {"x": "float32 [64] normal"}

    def made(name: str, case: str, seed: int, number: int) -> bytes:
        return raw(inputs_of(target_of(lines, name), Posed.of_set(Case(case, {}), number), seed)["x"])

    all_of_them = [
        made("t", "default", 5, 0),
        made("u", "default", 5, 0),
        made("t", "cpu", 5, 0),
        made("t", "default", 6, 0),
        made("t", "default", 5, 1),
    ]
    assert len(set(all_of_them)) == len(all_of_them)


def test_a_static_input_is_the_same_in_every_set() -> None:
    target = target_of({"x": "float32 [64] normal", "w": "float32 [64] normal static"})
    first, second = (inputs_of(target, Posed.of_set(Case("default", {}), number), 5) for number in (0, 3))
    assert torch.equal(first["w"], second["w"])
    assert not torch.equal(first["x"], second["x"])


def test_what_was_drawn_before_is_not_drawn_again_and_changes_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of({"x": "float32 [64] normal", "w": "float32 [64] normal static", "z": "int64 [8] integers(0, 9)"})
    first, second = (inputs_of(target, Posed.of_set(Case("default", {}), number), 5) for number in (0, 3))
    drawn, draw = list[str](), values.drawn
    monkeypatch.setattr(values, "drawn", lambda spec, *rest: (drawn.append(spec.name), draw(spec, *rest))[1])
    again = inputs_of(target, Posed.of_set(Case("default", {}), 3), 5, drawn_before={"w": first["w"]})
    assert drawn == ["x", "z"]
    assert list(again) == ["x", "w", "z"]
    assert again["w"] is first["w"]
    assert all(torch.equal(again[name], second[name]) for name in second)


# -- the distributions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_normal_has_its_mean_and_spread_in_every_floating_dtype(dtype: str) -> None:
    found = tensor(f"{dtype} [N] normal(3, 0.5)", N=100_000)
    assert found.dtype is getattr(torch, dtype)
    wide = found.to(torch.float64)
    assert float(wide.mean()) == pytest.approx(3.0, abs=0.03)
    assert float(wide.std()) == pytest.approx(0.5, abs=0.03)
    # The tails of a normal distribution, not of a uniform one.
    if not dtype.startswith("float8"):  # too coarse to count beyond an edge
        assert float(((wide - 3).abs() > 1.0).double().mean()) == pytest.approx(0.0455, abs=0.01)


def test_fp64_normal_has_more_than_the_bits_of_fp32() -> None:
    found = tensor("float64 [1000] normal")
    assert not torch.equal(found, found.to(torch.float32).to(torch.float64))


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("float32", 0, 1),
        ("float64", -2, 5),
        ("float32", 1000, 1001),
        ("bfloat16", 0, 1),
        ("float16", -1, 0),
        ("float16", 0, 1),
        ("float8_e4m3fn", 0, 1),
        ("float8_e5m2", -8, 8),
    ],
)
def test_uniform_reaches_its_lower_end_and_never_its_upper_one(dtype: str, low: int, high: int) -> None:
    """`floor(x * N)` of uniform(0, 1) is an index below N only if no rounding makes a 1."""
    found = tensor(f"{dtype} [N] uniform({low}, {high})", N=300_000).to(torch.float64)
    assert float(found.min()) >= low
    assert float(found.max()) < high
    assert float(found.mean()) == pytest.approx((low + high) / 2, abs=0.03 * (high - low))
    assert float(found.max()) > low + 0.8 * (high - low)


def test_positive_keeps_away_from_zero() -> None:
    found = tensor("float32 [N] positive", N=100_000)
    assert float(found.min()) >= 1e-3
    assert float(found.mean()) == pytest.approx(math.sqrt(2 / math.pi) + 1e-3, abs=0.02)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int64", 0, 7), ("int8", -128, 128), ("uint8", 0, 256), ("int32", -3, -2), ("int16", -(2**15), 2**15)],
)
def test_integers_cover_exactly_low_to_high_less_one(dtype: str, low: int, high: int) -> None:
    found = tensor(f"{dtype} [N] integers({low}, {high})", N=400_000)
    assert found.dtype is getattr(torch, dtype)
    assert (int(found.min()), int(found.max())) == (low, high - 1)


def test_integers_use_the_whole_of_int64() -> None:
    found = tensor(f"int64 [N] integers({-(2**63)}, {2**63})", N=10_000).numpy()
    assert found.min() < -(2**62)
    assert found.max() > 2**62
    assert len(np.unique(found)) == 10_000


def test_integer_bounds_are_exact_beyond_the_bits_of_a_float() -> None:
    found = tensor(f"int64 [N] integers({2**60 + 1}, {2**60 + 3})", N=100)
    assert set(found.tolist()) == {2**60 + 1, 2**60 + 2}


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_a_permutation_holds_every_index_once(count: int) -> None:
    found = tensor("int64 [N] permutation", N=count)
    assert sorted(found.tolist()) == list(range(count))
    if count == 1000:
        assert found.tolist() != sorted(found.tolist())


@pytest.mark.parametrize("dtype", ["bool", "float32", "int8"])
def test_bernoulli_is_one_as_often_as_it_says(dtype: str) -> None:
    found = tensor(f"{dtype} [N] bernoulli(0.1)", N=100_000)
    assert found.dtype is getattr(torch, dtype)
    assert set(found.to(torch.float64).unique().tolist()) == {0.0, 1.0}
    assert float(found.to(torch.float64).mean()) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int64", "uint8", "bool"])
def test_ones_and_zeros_in_every_kind_of_dtype(dtype: str) -> None:
    assert tensor(f"{dtype} [3, 2] ones").to(torch.float64).tolist() == [[1.0, 1.0]] * 3
    assert tensor(f"{dtype} [3, 2] zeros").to(torch.float64).tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("line", ["float32 [0, 5] normal", "bfloat16 [0] uniform", "int8 [4, 0, 2] integers(0, 3)"])
def test_an_empty_tensor_keeps_its_shape(line: str) -> None:
    found = tensor(line)
    assert found.numel() == 0
    assert list(found.shape) == [int(extent) for extent in line[line.index("[") + 1 : line.index("]")].split(",")]


def test_no_dimensions_make_a_scalar_tensor() -> None:
    found = tensor("float64 [] normal(5, 0)")
    assert found.shape == ()
    assert float(found) == 5.0


def test_tensors_are_contiguous_in_host_memory() -> None:
    found = tensor("float16 [6, 10] normal")
    assert found.is_contiguous()
    assert found.device.type == "cpu"


# -- errors ------------------------------------------------------------------------------------------------------------


def spec_of(line: str, **changes: Any) -> Any:
    """A spec that the grammar would refuse: what reaches `values` may come from an older store."""
    from dataclasses import replace

    return replace(parse_tensor("x", line), **changes)


def test_fractions_for_an_integer_dtype_are_refused_with_the_fix() -> None:
    with pytest.raises(InputsError, match=r"x: normal gives fractions, int32 holds none; use integers\(low, high\)"):
        drawn(spec_of("float32 [4] normal", dtype="int32"), {}, KEY)


def test_an_empty_range_of_integers_is_refused_with_the_fix() -> None:
    with pytest.raises(InputsError, match=r"x: integers\(5, 5\) is empty; the upper end is exclusive"):
        tensor("int64 [4] integers(5, 5)")


def test_an_unknown_distribution_is_named() -> None:
    with pytest.raises(InputsError, match="no values are known for distribution 'cauchy'"):
        drawn(spec_of("float32 [4] normal", distribution="cauchy"), {}, KEY)


# -- inputs.py ---------------------------------------------------------------------------------------------------------


def test_make_gets_the_axes_the_device_and_a_generator_that_is_seeded_the_same_everywhere() -> None:
    target = target_of({"model": "made", "x": "float32 [4] normal"}, N=6)

    def make(axes: dict[str, int], device: str, generator: torch.Generator) -> dict[str, object]:
        assert (axes, device, generator.device.type) == ({"N": 6}, "cpu", "cpu")
        return {"model": torch.randn(8, generator=generator)}

    case = target.cases[0]
    first: Any = made_inputs(target, Posed.of_set(case), 11, "cpu", make)["model"]
    again: Any = made_inputs(target, Posed.of_set(case), 11, "cpu", make)["model"]
    other: Any = made_inputs(target, Posed.of_set(case), 12, "cpu", make)["model"]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ({"model": 1, "extra": 2}, r"\['extra', 'model'\]"),
        ({}, r"\[\]"),
        ([1], "list"),
        (None, "NoneType"),
    ],
)
def test_make_must_return_exactly_the_declared_names(returned: object, told: str) -> None:
    target = target_of({"model": "made"})
    with pytest.raises(InputsError, match=rf"make\(\) returned {told}; it must return a dict of \['model'\]"):
        made_inputs(target, Posed.of_set(target.cases[0]), 1, "cpu", lambda *_: returned)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: value,
        lambda value: [{"weights": value}],
        lambda value: torch.nn.ParameterList([value]),
    ],
    ids=["a tensor", "in containers", "in a module"],
)
def test_what_make_gives_in_a_complex_dtype_is_refused_by_name(wrap: Any) -> None:
    target = target_of({"model": "made"})
    posed, bad, good = Posed.of_set(target.cases[0]), torch.zeros(2, dtype=torch.complex64), torch.zeros(2)
    with pytest.raises(InputsError, match=r"make\(\) made model complex64, which is not judged; give real and imag"):
        made_inputs(target, posed, 1, "cpu", lambda *_: {"model": wrap(bad)})
    assert set(made_inputs(target, posed, 1, "cpu", lambda *_: {"model": wrap(good)})) == {"model"}
    alone = replace(target, rule=OwnRule("its own", alone=True))
    assert set(made_inputs(alone, posed, 1, "cpu", lambda *_: {"model": wrap(bad)})) == {"model"}


def test_make_may_not_change_the_axes_of_the_case() -> None:
    target = target_of({"model": "made"}, N=6)

    def make(axes: dict[str, int], device: str, generator: torch.Generator) -> dict[str, object]:
        axes["N"] = 1
        return {"model": 0}

    made_inputs(target, Posed.of_set(target.cases[0]), 1, "cpu", make)
    assert target.cases[0].axes == {"N": 6}


def test_the_module_needs_no_torch_to_be_imported() -> None:
    assert "torch" not in vars(values)
