"""The error that a computation is allowed: enough for every good implementation, too little for a careless one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from aisp.checks.oracle import comparator, truth, values
from aisp.checks.oracle.comparator import ComparisonResult, Mismatch
from aisp.checks.oracle.schema import Case, Strategy
from aisp.checks.oracle.truth import BudgetError, Expected, Oracle, ReferenceFault, Truth
from aisp.kernels.catalog import Target
from tests.checks.oracle.targets import case, f32, f64, pose, target

HALVES = ["float16", "bfloat16"]
MATMUL = target(
    'a = "float32 [M, K] normal"\nb = "float32 [K, N] normal"',
    'y = "float32 [M, N]"',
    axes="{ M = 8, N = 8, K = 64 }",
    tables='[fuzz]\ndtypes = ["float32", "float16", "bfloat16"]\nindependent = "M"',
)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


def posed(of: Target, run: Any, what: Case, **inputs: torch.Tensor) -> tuple[dict[str, torch.Tensor], Expected]:
    given, found = pose(of, run, what, inputs or None)
    return given, found.outputs[0]


def said(one: Expected, answer: torch.Tensor) -> ComparisonResult:
    return comparator.compare(one, answer)


def allowed(one: Expected) -> torch.Tensor:
    assert one.allowed is not None
    return one.allowed


# -- kappa ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 16, 512])
def test_kappa_of_a_dot_product_is_the_root_of_the_sum_of_squared_products(k: int) -> None:
    """So it is for steps of random sign and size in both factors, up to sqrt(2) and the luck of four draws."""
    what = case({"M": 16, "N": 16, "K": k})
    given, one = posed(MATMUL, matmul, what)
    a, b = given["a"].double(), given["b"].double()
    wanted = (a.square() @ b.square()).sqrt()
    kappa = _kappa(MATMUL, matmul, what, given)
    ratio = kappa / wanted
    assert 0.8 < float(ratio.median()) < 3.0
    assert float(ratio.max()) < 5.0
    assert torch.equal(one.value, a @ b)


def _kappa(of: Target, run: Any, what: Case, given: dict[str, torch.Tensor]) -> torch.Tensor:
    oracle = Oracle(of, run, "cpu")
    runs = truth._Runs(oracle, what, given, {}, {}, "cpu", 1)
    (kappa,) = oracle._kappas(runs, runs.run(torch.float64))
    return kappa


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_where_two_products_nearly_cancel_what_eager_rounds_is_right_and_little_more(seed: int) -> None:
    """Steps of one size cancel as the products do, for some of a million elements in all four draws: an honest chain of
    three operators was wrong there, and what all others were allowed was three times as much.
    """
    inputs = (
        'x = "bfloat16 [N] normal"\ny = "bfloat16 [N] normal"\nc = "bfloat16 [N] normal"\ns = "bfloat16 [N] normal"'
    )
    turned = target(inputs, 'z = "bfloat16 [N]"')
    chance = torch.Generator().manual_seed(seed)
    n = 1 << 20
    x, y = (torch.randn(n, generator=chance).add(6).bfloat16() for _ in range(2))
    c, s = (torch.rand(n, generator=chance).mul(2).sub(1).bfloat16() for _ in range(2))
    given, one = posed(turned, lambda x, y, c, s: x * c - y * s, case({"M": 1, "N": n}), x=x, y=y, c=c, s=s)
    assert said(one, given["x"] * given["c"] - given["y"] * given["s"]).right
    products = (x.double() * c.double()).abs() + (y.double() * s.double()).abs()
    assert float((allowed(one) / products).median()) < 0.2


def test_kappa_grows_with_cancellation_and_so_does_what_is_allowed() -> None:
    total = target('x = "float32 [M, N] normal"', 'y = "float32 [M]"')
    rows = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1e4, -1e4, 2.0, 2.0]])
    _, one = posed(total, lambda x: x.sum(-1), case({"M": 2, "N": 4}), x=rows)
    assert one.value.tolist() == [4.0, 4.0]
    ratio = float(allowed(one)[1] / allowed(one)[0])
    assert 500 < ratio < 20000, "both sums are 4, one of them from terms of 10000"


def test_an_exponential_is_allowed_more_the_larger_its_argument() -> None:
    plain = target('x = "float32 [N] normal"', 'y = "float32 [N]"')
    shares = []
    for argument in (0.5, 80.0):
        _, one = posed(plain, torch.exp, case({"M": 1, "N": 1}), x=f32(argument))
        shares.append(float(allowed(one) / one.value))
    assert 20 * shares[0] < shares[1] < 1e-3


# -- what passes and what does not ---------------------------------------------------------------------------------

OPERATORS: dict[str, tuple[Target, Any]] = {
    "softmax": (target(tables='[fuzz]\ndtypes = ["float32", "float16", "bfloat16"]'), softmax),
    "matmul": (MATMUL, matmul),
    "gelu": (target(tables='[fuzz]\ndtypes = ["float32", "float16", "bfloat16"]'), torch.nn.functional.gelu),
    "rmsnorm": (
        target(tables='[fuzz]\ndtypes = ["float32", "float16", "bfloat16"]'),
        lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
    ),
}
SIZES = [{"M": 1, "N": 1, "K": 1}, {"M": 3, "N": 129, "K": 33}, {"M": 16, "N": 512, "K": 300}]


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
@pytest.mark.parametrize("name", OPERATORS)
def test_eager_pytorch_and_a_kernel_with_fp32_inside_pass_and_zeros_never_do(name: str, dtype: str) -> None:
    of, run = OPERATORS[name]
    kind = getattr(torch, dtype)
    for number, axes in enumerate(SIZES, 1):
        given, one = posed(of, run, case(axes, dtype=dtype, number=number))
        inputs = list(given.values())
        assert said(one, run(*inputs)).right
        assert said(one, run(*(x.float() for x in inputs)).to(kind)).right
        assert said(one, run(*(x.double() for x in inputs)).to(kind)).right
        assert said(one, torch.zeros_like(one.value, dtype=kind)).finding is Mismatch.VALUES


@pytest.mark.parametrize("scale", [1e-30, 1e-4, 1.0, 1e20])
def test_zeros_are_refused_at_every_scale_of_the_outputs(scale: float) -> None:
    """A softmax over many columns has outputs of 1e-6, which any absolute tolerance takes for zero."""
    plain = target('x = "float32 [M, N] normal"')
    given, one = posed(plain, lambda x: x * 3, case({"M": 4, "N": 33}), x=torch.rand(4, 33) * scale + scale)
    assert said(one, given["x"] * 3).right
    zeros = said(one, torch.zeros(4, 33))
    assert (zeros.finding, zeros.statistics["wrong"]) == (Mismatch.VALUES, 132)


def test_fp16_sums_that_grow_in_fp16_are_refused_where_eager_keeps_them_in_fp32() -> None:
    what = case({"M": 8, "N": 8, "K": 1024}, dtype="float16")
    given, one = posed(MATMUL, matmul, what)
    a, b = given["a"], given["b"]
    running = torch.zeros(8, 8, dtype=torch.float16)
    for k in range(1024):
        running = running + a[:, k : k + 1] * b[k : k + 1, :]
    assert said(one, (a.float() @ b.float()).half()).right
    judged = said(one, running)
    assert judged.finding is Mismatch.VALUES
    assert judged.max_error is not None
    assert judged.max_error > 1.5
    assert torch.allclose(running, (a.float() @ b.float()).half(), rtol=1e-1, atol=1e-1), "it looks right"


@pytest.mark.parametrize("dtype", HALVES)
def test_outputs_that_went_through_a_narrower_dtype_are_refused(dtype: str) -> None:
    given, one = posed(*OPERATORS["softmax"], case({"M": 8, "N": 100}, dtype="float32"))
    narrowed = softmax(given["x"]).to(getattr(torch, dtype)).float()
    assert said(one, narrowed).finding is Mismatch.VALUES


def test_one_unit_in_the_last_place_is_right_and_a_large_part_of_the_value_is_not() -> None:
    given, one = posed(*OPERATORS["gelu"], case({"M": 4, "N": 100}, dtype="float16"))
    right = torch.nn.functional.gelu(given["x"].float()).half()
    beside = torch.nextafter(right.float(), torch.full_like(right.float(), math.inf))
    assert said(one, beside.half()).right
    assert not said(one, right * 1.01).right


def test_a_small_element_among_large_ones_must_still_be_there() -> None:
    """What is lost below the rounding of the whole output's RMS cannot be asked for; a thousandth of it can."""
    plain = target('x = "float32 [N] normal"', 'y = "float32 [N]"')
    given, one = posed(plain, lambda x: x * 2, case({"M": 1, "N": 2}), x=f32(1.0, 1e-3))
    assert said(one, given["x"] * 2).right
    wrong = said(one, f32(2.0, 0.0))
    assert (wrong.finding, wrong.statistics["wrong"]) == (Mismatch.VALUES, 1)


# -- stated tolerances ---------------------------------------------------------------------------------------------


def test_a_stated_tolerance_of_zero_means_the_rounded_truth_to_the_bit() -> None:
    exact = target(more="tolerance = { float32 = 0 }")
    given, one = posed(exact, lambda x: x * 2, case({"M": 4, "N": 33}))
    assert one.allowed is None
    assert said(one, given["x"] * 2).right
    beside = (given["x"] * 2).clone()
    beside[3, 32] = torch.nextafter(beside[3, 32], torch.tensor(9e9))
    wrong = said(one, beside)
    assert (wrong.finding, wrong.max_error, wrong.statistics["wrong"]) == (Mismatch.VALUES, None, 1)
    assert wrong.statistics["ulp_max"] == pytest.approx(1, abs=0.5)


def test_a_stated_tolerance_is_allowed_as_well_and_a_usual_one_is_not() -> None:
    stated = target(more="tolerance = { float32 = 1e-2 }")
    unstated = target()
    for of, right in ((stated, True), (unstated, False)):
        given, one = posed(of, lambda x: x * 2, case({"M": 4, "N": 33}))
        assert said(one, given["x"] * 2 * 1.005).right is right


def test_a_stated_tolerance_is_for_its_dtype_also_where_that_stands_in() -> None:
    tables = '[fuzz]\ndtypes = ["float32", "float16", "bfloat16"]'
    stated = target(more="tolerance = { float32 = 1e-6, float16 = 0.5 }", tables=tables)
    for dtype, right in (("float32", False), ("float16", True), ("bfloat16", False)):
        given, one = posed(stated, lambda x: x * 2, case({"M": 4, "N": 33}, dtype=dtype))
        assert said(one, given["x"] * 2 * 1.2).right is right


# -- references that widen -----------------------------------------------------------------------------------------

ATTENTION = target(
    'q = "float32 [T, D] normal"\nk = "float32 [T, D] normal"\nv = "float32 [T, D] normal"',
    'o = "float32 [T, D]"',
    axes="{ T = 64, D = 15 }",
    tables='[fuzz]\ndtypes = ["float32", "float16", "bfloat16"]',
)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


WIDENING: dict[str, Any] = {
    "double": lambda q, k, v: attention(q.double(), k.double(), v.double()),
    "to": lambda q, k, v: attention(q.to(torch.float64), k.to(dtype=torch.float64), v.type(torch.float64)),
    "within": lambda q, k, v: (
        (q.double() @ k.double().mT * q.shape[-1] ** -0.5).softmax(-1, dtype=torch.double) @ v.double()
    ),
    "in place": lambda q, k, v: attention(q.double().mul_(1.0), k.double(), v.double()),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("way", WIDENING)
@pytest.mark.slow
def test_eager_is_right_in_half_precision_though_the_reference_widens(way: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    for number in range(1, 9):
        what = case({"T": 64, "D": 15}, dtype=dtype, number=number)
        given, one = posed(ATTENTION, WIDENING[way], what)
        q, k, v = given.values()
        assert torch.equal(one.value, attention(q.double(), k.double(), v.double()))
        assert said(one, attention(q, k, v)).right
        assert said(one, attention(q.float(), k.float(), v.float()).to(kind)).right
        eight = (x.to(torch.float8_e4m3fn).to(kind) for x in (q, k))
        assert not said(one, attention(*eight, v)).right


def test_a_reference_that_writes_into_what_it_widened_spoils_nothing() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        wide = x.double()
        wide -= wide.amax(-1, keepdim=True)
        return wide.exp() + x

    of = target(tables='[fuzz]\ndtypes = ["float32", "float16"]')
    given, one = posed(of, run, case({"M": 4, "N": 33}, dtype="float16"))
    x = given["x"]
    assert said(one, (x - x.amax(-1, keepdim=True)).exp() + x).right
    assert one.eager is not None and torch.equal(one.eager, (x - x.amax(-1, keepdim=True)).exp() + x)


def test_what_a_reference_makes_in_fp64_becomes_fp32_in_the_yardstick() -> None:
    seen: list[torch.dtype] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[-1], dtype=torch.float64)
        counted = torch.arange(x.shape[-1]).double()
        seen.append(steps.dtype)
        assert steps.dtype is counted.dtype
        return (x.double() * (steps + counted)).to(x.dtype)

    of = target(tables='[fuzz]\ndtypes = ["float32", "float16"]')
    given, one = posed(of, run, case({"M": 4, "N": 33}, dtype="float16"))
    assert set(seen) == {torch.float64, torch.float32}
    assert said(one, (given["x"].float() * 2 * torch.arange(33)).half()).right


# -- subnormal numbers ---------------------------------------------------------------------------------------------


def test_a_kernel_that_takes_subnormal_numbers_for_zero_is_right_and_one_that_takes_more_is_not() -> None:
    plain = target('x = "float32 [N] normal"', 'y = "float32 [N]"')
    x = f32(1e-40, 3e-38)
    _, one = posed(plain, lambda x: x * 1e30, case({"M": 1, "N": 2}), x=x)
    flushed = torch.where(x.abs() < torch.finfo(torch.float32).tiny, torch.zeros_like(x), x) * 1e30
    assert float(flushed[0]) == 0.0
    assert float(one.value[0]) > 1e-11
    assert said(one, flushed).right
    assert said(one, x * 1e30).right
    assert not said(one, torch.where(x < 1e-30, torch.zeros_like(x), x) * 1e30).right


# -- other outputs -------------------------------------------------------------------------------------------------


def test_whole_numbers_must_be_equal_and_have_no_allowance() -> None:
    whole = target('x = "float32 [M, N] normal"', 'i = "int64 [M]"')
    given, one = posed(whole, lambda x: x.argmax(-1), case({"M": 4, "N": 33}))
    assert one.allowed is None
    assert said(one, given["x"].argmax(-1)).right
    wrong = said(one, given["x"].argmax(-1) + f64(0, 0, 1, 0).long())
    assert (wrong.finding, wrong.statistics["wrong"]) == (Mismatch.VALUES, 1)


def test_gradients_are_those_of_autograd_and_are_judged_like_outputs() -> None:
    back = target(
        'x = "float32 [M, N] normal"\nw = "float32 [N] normal"\nunused = "float32 [N] normal"',
        tables="[fuzz]\nbackward = true",
    )
    what = case({"M": 5, "N": 9})
    given, found = pose(back, lambda x, w, unused: torch.tanh(x) * w, what)
    gradient = values.gradients_of(back, what, 7, {"y": (5, 9)})["g_y"].double()
    x, w = given["x"].double(), given["w"].double()
    names = {one.name: one for one in found.outputs}
    assert list(names) == ["y", "d_x", "d_w", "d_unused"]
    torch.testing.assert_close(names["d_x"].value, gradient * w * (1 - torch.tanh(x) ** 2))
    torch.testing.assert_close(names["d_w"].value, (gradient * torch.tanh(x)).sum(0))
    assert not bool(names["d_unused"].value.any())
    single = (gradient.float() * torch.tanh(given["x"])).sum(0)
    assert said(names["d_w"], single).right
    assert not said(names["d_w"], single * 1.001).right


def test_backward_of_a_reference_that_nothing_flows_through_is_a_fault_of_the_lesson() -> None:
    back = target(tables="[fuzz]\nbackward = true")
    with pytest.raises(ReferenceFault, match="no output depends on a floating input; take `backward` out"):
        pose(back, lambda x: torch.zeros_like(x), case({"M": 2, "N": 3}))


# -- references that break their contract --------------------------------------------------------------------------


def test_a_reference_that_gives_other_values_each_time_is_found_in_every_eighth_case() -> None:
    calls = itertools.count()

    def restless(x: torch.Tensor) -> torch.Tensor:
        return x * (1 + next(calls))

    with pytest.raises(ReferenceFault, match=r"other values for the same inputs; take out what is random"):
        pose(target(), restless, case({"M": 2, "N": 3}, number=8))


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (lambda x: (x, x), "returned 2 outputs, lesson.md declares 1"),
        (lambda x: x[:1], r"y is \[1, 3\], lesson.md declares \[2, 3\]"),
        (lambda x: "y", "y is str, lesson.md declares"),
        (lambda x: torch.complex(x, x), r"y is complex128, which is not judged; give real and imaginary parts"),
    ],
)
def test_a_reference_of_another_form_is_told_with_what_lesson_md_declares(run: Any, told: str) -> None:
    with pytest.raises(ReferenceFault, match=told):
        pose(target(), run, case({"M": 2, "N": 3}))


def test_an_operator_that_a_dtype_does_not_have_leaves_one_yardstick_less_and_no_fault() -> None:
    def wide_only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float16:
            raise NotImplementedError("not implemented for 'Half'")
        return x * 2

    half = target(tables='[fuzz]\ndtypes = ["float16"]')
    given, one = posed(half, wide_only, case({"M": 2, "N": 3}, dtype="float16"))
    assert one.eager is None
    assert said(one, given["x"] * 2).right


# -- memory --------------------------------------------------------------------------------------------------------


def free(monkeypatch: pytest.MonkeyPatch, **bytes_by_device: float) -> None:
    monkeypatch.setattr(truth, "free_bytes", lambda device: bytes_by_device[device])


def test_blocks_along_the_independent_axis_give_the_truth_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    what = case({"M": 37, "N": 9, "K": 65}, dtype="float16")
    given, whole = pose(MATMUL, matmul, what)
    free(monkeypatch, cpu=80_000.0)
    _, blocks = pose(MATMUL, matmul, what, given)
    assert blocks.note.endswith("blocks of M")
    assert "are free for it: computed in" in blocks.note
    assert whole.note == ""
    torch.testing.assert_close(blocks.outputs[0].value, whole.outputs[0].value, rtol=1e-14, atol=1e-13)
    ratio = allowed(blocks.outputs[0]) / allowed(whole.outputs[0])
    assert 0.2 < float(ratio.min()) <= float(ratio.max()) < 5, "the moves are others, the size is not"
    answer = (given["a"].float() @ given["b"].float()).half()
    assert said(blocks.outputs[0], answer).right
    assert not said(blocks.outputs[0], answer * 0).right


def test_a_gpu_that_is_too_small_leaves_the_truth_to_the_cpu_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, cuda=1000.0, cpu=1e12)
    what = case({"M": 8, "N": 64})
    given, here = pose(target(), softmax, what)
    found: Truth = Oracle(target(), softmax, "cuda").truth(what, given, {}, {})
    assert found.note.endswith("are free for it on the GPU: computed on the CPU")
    assert torch.equal(found.outputs[0].value, here.outputs[0].value)
    assert found.outputs[0].value.device.type == "cpu"


def test_a_truth_that_fits_nowhere_is_refused_with_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, cuda=1000.0, cpu=1000.0)
    for device in ("cpu", "cuda"):
        with pytest.raises(BudgetError, match=r"the reference needs some .* GB, .* are free for it; use smaller axes"):
            Oracle(target(), softmax, device).truth(case({"M": 8, "N": 64}), {"x": torch.ones(8, 64)}, {}, {})


def test_free_memory_is_known_here() -> None:
    assert truth.free_bytes("cpu") > 2**20


# -- parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "u"), [("float64", 2.0**-53), ("float32", 2.0**-24), ("float16", 2.0**-11), ("bfloat16", 2.0**-8)]
)
def test_unit_roundoff_is_half_the_distance_to_the_next_number(dtype: str, u: float) -> None:
    assert truth.unit_roundoff(dtype) == u


def test_what_inputs_py_made_is_copied_in_the_wanted_precision_and_never_shared() -> None:
    linear = torch.nn.Linear(2, 2)
    made: Any = {"model": linear, "table": [torch.tensor([1, 2]), (torch.tensor([1.5]), "name")]}
    wide: Any = truth.exact(made, torch.float64)
    assert wide["model"].weight.dtype is torch.float64
    assert linear.weight.dtype is torch.float32
    assert wide["table"][0].dtype is torch.int64
    assert wide["table"][1][0].dtype is torch.float64
    assert wide["table"][1][1] == "name"
    same: Any = truth.exact(made, None)
    same["table"][1][0].zero_()
    assert float(made["table"][1][0]) == 1.5


@pytest.mark.parametrize("strategy", [Strategy.BOUNDARY, Strategy.ADVERSARIAL])
def test_an_empty_case_has_an_empty_truth(strategy: Strategy) -> None:
    _, one = posed(target(), softmax, case({"M": 0, "N": 4}, strategy=strategy))
    assert one.value.shape == (0, 4)
    assert said(one, torch.zeros(0, 4)).right


def test_where_a_run_was_measured_its_memory_counts_and_not_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    what = case({"M": 8, "N": 64})
    guessed = 2 * 8 * 64 * 8 * 8  # input and output, in fp64, eight times
    known = {"cuda": (guessed - 8) / 0.6, "cpu": 1e12}
    monkeypatch.setattr(truth, "free_bytes", known.__getitem__)
    assert Oracle(target(), softmax, "cuda").place(what)[0] == "cpu"
    room = guessed - 8 - 6 * 8 * 64 * 8
    assert Oracle(target(), softmax, "cuda", run_bytes=room).place(what, 6) == ("cuda", 1, "")
    assert Oracle(target(), softmax, "cuda", run_bytes=room + 1).place(what, 6)[0] == "cpu"
    assert Oracle(target(), softmax, "cuda", run_bytes=room).place(what)[0] == "cpu", "the whole truth takes more"
