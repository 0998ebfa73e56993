"""The oracle as one object: what it poses, hands out and remembers; and a call of a rung on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aisp.checks.oracle import truth, values
from aisp.checks.oracle.calling import OTHERS, attempt, keys_before
from aisp.checks.oracle.comparator import Mismatch
from aisp.checks.oracle.examiner import KEPT, Examiner
from aisp.checks.oracle.returned import FormError
from aisp.checks.oracle.schema import Case, Layout, Relation, Strategy, Values
from aisp.kernels.catalog import Target
from tests.checks.oracle.targets import case, target

PLAIN = target(tables='[fuzz]\nlayouts = ["transposed", "sliced", "offset", "expanded"]')
SMALL = case({"M": 3, "N": 5})


def examiner(of: Target = PLAIN, reference: Callable[..., Any] = lambda x: x * 2) -> Examiner:
    return Examiner(of, reference, None, "cpu")


def call(
    of: Target,
    run: Callable[..., Any],
    what: Case,
    posed: Mapping[str, torch.Tensor],
    prepare: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    return attempt(of, run, prepare, what, keys_before(of, what, 7), posed, {}, "cpu")


def test_a_case_is_posed_with_its_inputs_their_hashes_and_the_truth() -> None:
    posed = examiner().pose(SMALL, 7)
    own = values.inputs_of(PLAIN, SMALL, 7)
    assert torch.equal(posed.inputs["x"], own["x"])
    assert posed.hashes == {"x": values.digest(own["x"])}
    assert posed.truth is not None
    assert torch.equal(posed.truth.outputs[0].value, own["x"].double() * 2)


def test_another_examiner_poses_the_same_bytes() -> None:
    hard = case({"M": 3, "N": 70}, strategy=Strategy.ADVERSARIAL, held={"x": Values.OUTLIERS})
    assert examiner().pose(hard, 7).hashes == examiner().pose(hard, 7).hashes
    assert examiner().pose(hard, 8).hashes != examiner().pose(hard, 7).hashes


@pytest.mark.parametrize("layout", list(Layout))
def test_a_right_rung_is_right_in_every_layout(layout: Layout) -> None:
    what = case({"M": 3, "N": 5}, layouts={"x": layout})
    asked = examiner()
    (opinion,) = asked.judge(what, 7, "optimized", call(PLAIN, lambda x: x * 2, what, asked.pose(what, 7).inputs))
    assert opinion.right, opinion.detail


@pytest.mark.parametrize("layout", [Layout.TRANSPOSED, Layout.SLICED, Layout.EXPANDED])
def test_a_rung_that_ignores_strides_is_wrong_where_they_are_not_the_usual_ones(layout: Layout) -> None:
    def strideless(x: torch.Tensor) -> torch.Tensor:
        flat = torch.empty(0).set_(x.untyped_storage())
        return torch.as_strided(torch.cat([flat, torch.zeros(15)]), x.shape, (5, 1)) * 2

    what = case({"M": 3, "N": 5}, layouts={"x": layout})
    asked = examiner()
    (opinion,) = asked.judge(what, 7, "optimized", call(PLAIN, strideless, what, asked.pose(what, 7).inputs))
    assert opinion.finding is (Mismatch.VALUES if layout is not Layout.SLICED else Mismatch.NAN)


def test_a_rung_that_compiles_for_every_case_is_not_stopped_and_the_compilers_limits_stay_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = SimpleNamespace(recompile_limit=8, accumulated_recompile_limit=256)
    monkeypatch.setitem(sys.modules, "torch._dynamo", SimpleNamespace(config=config))
    seen: list[int] = []

    def compiled(x: torch.Tensor) -> torch.Tensor:
        seen.append(config.recompile_limit)
        return x * 2

    def greedy(x: torch.Tensor) -> torch.Tensor:
        config.accumulated_recompile_limit = 10_000
        raise ValueError("and then it fails")

    inputs = examiner().pose(SMALL, 7).inputs
    call(PLAIN, compiled, SMALL, inputs)
    assert seen[0] > 1000
    assert (config.recompile_limit, config.accumulated_recompile_limit) == (8, 256)
    with pytest.raises(ValueError, match="and then it fails"):
        call(PLAIN, greedy, SMALL, inputs)
    assert (config.recompile_limit, config.accumulated_recompile_limit) == (8, 10_000)  # its own doing, for all to see


def test_only_cases_that_were_posed_lately_are_known() -> None:
    asked = examiner()
    for number in range(KEPT + 1):
        asked.pose(replace(SMALL, number=number), 7)
    assert asked.truth(replace(SMALL, number=1), 7).outputs[0].name == "y"
    with pytest.raises(LookupError, match="the case M=3 N=5 was not posed, or too long ago"):
        asked.truth(replace(SMALL, number=0), 7)


def test_a_smaller_case_of_the_same_number_is_another_case() -> None:
    asked = examiner()
    asked.pose(SMALL, 7)
    with pytest.raises(LookupError):
        asked.judge(replace(SMALL, axes={"M": 1, "N": 5}), 7, "optimized", {"y": torch.zeros(1, 5)})


def test_each_rung_is_held_against_its_own_first_call() -> None:
    what = case({"M": 3, "N": 5}, relation=Relation.AGAIN)
    asked = examiner()
    posed = asked.pose(what, 7)
    y = posed.inputs["x"] * 2
    near = y * (1 + 2.0**-22)
    assert asked.judge(what, 7, "one", {"y": y})[0].right
    assert asked.judge(what, 7, "two", {"y": near})[0].right
    asked.pose(what, 7, changed=True)
    assert asked.judge(what, 7, "one", {"y": y}, changed=True) == ()
    assert asked.judge(what, 7, "two", {"y": near}, changed=True) == ()
    assert asked.judge(what, 7, "one", {"y": near}, changed=True)[0].finding is Mismatch.RELATION
    assert asked.judge(what, 7, "one", {"y": y[:2]}, changed=True)[0].finding is Mismatch.SHAPE
    assert asked.judge(what, 7, "three", {"y": near}, changed=True) == (), "it was not called before"


def test_a_wrong_first_call_has_no_second() -> None:
    what = case({"M": 3, "N": 5}, relation=Relation.AGAIN)
    asked = examiner()
    asked.pose(what, 7)
    assert not asked.judge(what, 7, "one", {"y": torch.zeros(3, 5)})[0].right
    asked.pose(what, 7, changed=True)
    assert asked.judge(what, 7, "one", {"y": torch.ones(3, 5)}, changed=True) == ()


def test_the_careless_oracle_looks_at_outputs_that_can_be_compared_and_at_the_share_of_a_dropout() -> None:
    asked = examiner()
    asked.pose(SMALL, 7)
    x = values.inputs_of(PLAIN, SMALL, 7)["x"]
    assert asked.naive(SMALL, {"y": x * 2}) == {"allclose": True, "assert_close": True}
    assert asked.naive(SMALL, {"y": x}) == {"allclose": False, "assert_close": False}
    dropout = target(
        'x = "float32 [M, N] normal"\nseed = "int64 [1] integers(0, 9)"',
        tables='[judged]\ny = { as = "dropout", keep = "0.5", seed = "seed" }',
    )
    what = case({"M": 64, "N": 64})
    other = examiner(dropout, lambda x, seed: x * 2)
    kept = other.pose(what, 7).inputs["x"] * 2
    kept[::2] = 0
    assert other.naive(what, {"y": kept}) == {"allclose": True, "assert_close": True}, "every other row is a choice too"
    assert other.naive(what, {"y": kept * 0}) == {"allclose": False, "assert_close": False}


# -- one call ------------------------------------------------------------------------------------------------------


def test_what_prepare_computed_from_its_buffers_is_stale_in_the_call() -> None:
    static = target('x = "float32 [M, N] normal"\nw = "float32 [N] normal static"')
    seen: list[torch.Tensor] = []

    def cached(x: torch.Tensor, w: torch.Tensor) -> Callable[..., Any]:
        seen.extend([x.clone(), w.clone()])
        answer = x * w
        return lambda x, w: answer

    def packed(x: torch.Tensor, w: torch.Tensor) -> Callable[..., Any]:
        kept = w.clone()
        return lambda x, w: x * kept

    asked = examiner(static, lambda x, w: x * w)
    posed = asked.pose(SMALL, 7)
    stale = call(static, lambda x, w: x, SMALL, posed.inputs, prepare=cached)
    assert not asked.judge(SMALL, 7, "optimized", stale)[0].right
    others = values.inputs_of(static, replace(SMALL, number=SMALL.number + OTHERS), 7)
    assert torch.equal(seen[0], others["x"])
    assert torch.equal(seen[1], posed.inputs["w"]), "a static input is known before"
    good = call(static, lambda x, w: x, SMALL, posed.inputs, prepare=packed)
    assert asked.judge(SMALL, 7, "optimized", good)[0].right


def test_prepare_works_on_buffers_of_every_layout() -> None:
    for layout in Layout:
        what = case({"M": 3, "N": 5}, layouts={"x": layout})
        asked = examiner()
        posed = asked.pose(what, 7)
        answer = call(PLAIN, lambda x: x, what, posed.inputs, prepare=lambda x: lambda x: x * 2)
        assert asked.judge(what, 7, "optimized", answer)[0].right


def test_a_rung_cannot_spoil_the_inputs_of_the_next() -> None:
    posed = examiner().pose(SMALL, 7)
    before = posed.inputs["x"].clone()
    call(PLAIN, lambda x: x.zero_(), SMALL, posed.inputs)
    assert torch.equal(posed.inputs["x"], before)


def test_outputs_of_another_number_and_things_that_are_no_tensor_are_told() -> None:
    asked = examiner()
    posed = asked.pose(SMALL, 7)
    two = call(PLAIN, lambda x: (x, x * 1), SMALL, posed.inputs)
    (opinion,) = asked.judge(SMALL, 7, "optimized", two)
    assert (opinion.finding, opinion.detail) == (Mismatch.COUNT, "2 outputs arrived, there must be y")
    with pytest.raises(FormError, match=r"y: list, not a plain torch.Tensor"):
        call(PLAIN, lambda x: [x.tolist()], SMALL, posed.inputs)
    parameter = torch.nn.Parameter(torch.zeros(3, 5))
    with pytest.raises(FormError, match="y: Parameter, not"):
        call(PLAIN, lambda x: parameter, SMALL, posed.inputs)


BACK = target('x = "float32 [M, N] normal"\nw = "float32 [N] normal"', tables="[fuzz]\nbackward = true")


class Halved(torch.autograd.Function):  # type: ignore[misc]
    """x * w, whose gradient of w is half of what it should be."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, w = ctx.saved_tensors
        return gradients[0] * w, (gradients[0] * x).sum(0) / 2


@pytest.mark.parametrize(
    ("run", "wrong"),
    [
        (lambda x, w: x * w, []),
        (lambda x, w: Halved.apply(x, w), ["d_w"]),
        (lambda x, w: x * w.detach(), ["d_w"]),
        (lambda x, w: (x * w).detach(), ["d_x", "d_w"]),
    ],
)
def test_a_wrong_backward_is_found_though_the_outputs_are_right(run: Callable[..., Any], wrong: list[str]) -> None:
    asked = examiner(BACK, lambda x, w: x * w)
    posed = asked.pose(SMALL, 7)
    assert set(posed.inputs) == {"x", "w", "g_y"}
    opinions = asked.judge(SMALL, 7, "optimized", call(BACK, run, SMALL, posed.inputs))
    assert [opinion.name for opinion in opinions] == ["y", "d_x", "d_w"]
    assert [opinion.name for opinion in opinions if not opinion.right] == wrong


# -- stretches -----------------------------------------------------------------------------------------------------

INDEPENDENT = target(tables='[fuzz]\nindependent = "M"\nlayouts = ["transposed"]')
LONG = case({"M": 37, "N": 65})


def stretched(monkeypatch: pytest.MonkeyPatch, reference: Callable[..., Any] = lambda x: x * 2) -> Examiner:
    """An examiner that has memory for a few rows at a time."""
    monkeypatch.setattr(truth, "free_bytes", lambda device: 100_000.0)
    return examiner(INDEPENDENT, reference)


def test_a_case_too_large_for_memory_is_judged_stretch_by_stretch_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stretched(monkeypatch)
    posed = asked.pose(LONG, 7)
    assert posed.note.endswith("blocks of M")
    assert posed.truth is None
    assert [start for start, _ in posed.stretches] == list(range(0, 37, posed.stretches[0][1]))
    assert sum(length for _, length in posed.stretches) == 37
    right = posed.inputs["x"] * 2
    (opinion,) = asked.judge(LONG, 7, "optimized", {"y": right})
    assert opinion.right
    assert opinion.max_error == 0.0
    assert sum(opinion.histogram) == right.numel()
    assert asked.naive(LONG, {"y": right}) == {}


def test_what_is_wrong_in_the_last_stretch_is_found_and_its_place_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stretched(monkeypatch)
    posed = asked.pose(LONG, 7)
    wrong = posed.inputs["x"] * 2
    wrong[36, 3] += 1
    start, length = posed.stretches[-1]
    (opinion,) = asked.judge(LONG, 7, "optimized", {"y": wrong})
    assert opinion.finding is Mismatch.VALUES
    assert f"y[{36 - start}, 3]" in opinion.detail
    assert opinion.detail.endswith(f"(within M {start}:{start + length})")


@pytest.mark.parametrize(
    ("outputs", "finding"),
    [({"y": torch.zeros(36, 65)}, Mismatch.SHAPE), ({"y": torch.zeros(37, 65), "z": torch.zeros(1)}, Mismatch.COUNT)],
)
def test_another_form_is_told_before_any_stretch(
    monkeypatch: pytest.MonkeyPatch, outputs: dict[str, torch.Tensor], finding: Mismatch
) -> None:
    asked = stretched(monkeypatch)
    asked.pose(LONG, 7)
    (opinion,) = asked.judge(LONG, 7, "optimized", outputs)
    assert opinion.finding is finding


def test_a_reference_that_fails_on_a_stretch_shows_when_the_case_is_posed(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(x: torch.Tensor) -> torch.Tensor:
        return x[:-1]

    with pytest.raises(truth.ReferenceFault, match=r"y is \["):
        stretched(monkeypatch, short).pose(LONG, 7)


def test_a_case_in_stretches_has_no_second_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stretched(monkeypatch)
    again = replace(LONG, relation=Relation.AGAIN)
    posed = asked.pose(again, 7)
    assert asked.pose(again, 7, changed=True).impossible == "it is judged stretch by stretch"
    assert asked.judge(again, 7, "optimized", {"y": posed.inputs["x"] * 2}, changed=True) == ()
