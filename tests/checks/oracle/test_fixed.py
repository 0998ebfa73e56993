"""Which axes the task's own code keeps to some values: by its declarations, and by what the reference takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aisp.checks.oracle import families, fixed
from aisp.checks.oracle.examiner import Examiner
from aisp.checks.oracle.fixed import Held, Probe
from aisp.checks.oracle.schema import Schema
from aisp.checks.oracle.truth import Oracle
from aisp.kernels.catalog.model import Target
from tests.checks.oracle.targets import target

SEEDS = range(12)


def probe(of: Target, reference: Callable[..., Any], **more: Any) -> Probe:
    return Probe(of, Examiner(of, reference, None, "cpu"), Oracle(of, reference, "cpu"), **more)


def held(of: Target, reference: Callable[..., Any], seed: int, **more: Any) -> dict[str, tuple[int, ...]]:
    cases = families.drawn_shapes(of, seed, of.rungs, host=True)
    return {one.axis: one.values for one in probe(of, reference, **more).held(cases, seed)}


def top_eight(x: torch.Tensor) -> torch.Tensor:
    return torch.topk(x, 8).values


TOP = target(outputs='y = "float32 [M, K]"', axes="{ M = 16, N = 64, K = 8 }")
EMBEDDING = ('x = "int64 [N] integers(0, 1000)"\nw = "float32 [V, D] normal"', 'y = "float32 [N, D]"')


@pytest.mark.parametrize("seed", SEEDS)
def test_a_number_in_the_reference_holds_its_axis_and_no_other(seed: int) -> None:
    found = held(TOP, top_eight, seed)
    assert found == {"K": (8,)} or set(found) == {"K", "N"}, "eight of fewer than eight are refused as well"
    (case, *_) = families.drawn_shapes(TOP, seed, TOP.rungs, host=True, held=[Held("K", (8,), "")])
    assert case.axes["K"] == 8
    assert case.axes["M"] % 2 and case.axes["N"] % 2


def test_the_reason_names_the_value_and_what_the_reference_said() -> None:
    cases = families.drawn_shapes(TOP, 3, TOP.rungs, host=True)
    (one,) = [held for held in probe(TOP, top_eight).held(cases, 3) if held.axis == "K"]
    assert one.text.startswith(f"K is fixed (the reference refuses K={cases[0].axes['K']}: ")
    assert "lesson.md declares" in one.text
    assert Held.of(one.plain()) == one


def test_nothing_is_held_of_a_reference_that_takes_every_shape_or_works_nowhere_here() -> None:
    plain = target()

    def on_a_gpu(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no CUDA here")

    assert all(held(plain, lambda x: x * 2, seed) == {} for seed in SEEDS)
    assert held(plain, on_a_gpu, 1) == {}
    assert held(TOP, top_eight, 1, budget_s=-1.0) == {}, "who was not asked has refused nothing"


def test_two_axes_that_hang_together_are_both_held() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1] == 8 * x.shape[0], "N must be 8 M"
        return x * 2

    assert held(target(), halves, 5) == {"M": (8,), "N": (64,)}


def test_an_axis_of_which_an_odd_size_alone_is_refused_is_not_fixed() -> None:
    def paired(x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], -1, 32).flatten(1) * 2

    of = target()
    assert held(of, paired, 5) == {"N": (64, 128)}
    drawn = families.drawn_shapes(of, 5, of.rungs, host=True, held=[Held("N", (64, 128), "")])
    assert {case.axes["N"] for case in drawn} <= {64, 128}


def test_an_axis_whose_number_is_the_bound_of_an_input_is_tied_to_it() -> None:
    of = target(*EMBEDDING, axes="{ N = 32, V = 1000, D = 16 }")
    (one,) = fixed.tied(of)
    assert one == Held("V", (1000,), "x is drawn below 1000")
    for seed in SEEDS:
        for case in families.drawn_shapes(of, seed, of.rungs, host=True, held=[one]):
            assert case.axes["V"] == 1000
            indices = Examiner(of, torch.nn.functional.embedding, None, "cpu").inputs(case, seed)["x"]
            assert indices.numel() == 0 or int(indices.max()) < 1000


@pytest.mark.parametrize(
    ("line", "axes", "tables"),
    [
        ("int64 [N] integers(0, V)", "{ N = 32, V = 1000, D = 16 }", ""),
        ("uint8 [N] integers(0, 256)", "{ N = 32, V = 256, D = 16 }", ""),
        ("int64 [N] integers(0, 1000)", "{ N = 32, V = 1000, D = 16 }", '[[cases]]\nname = "two"\naxes = { V = 2000 }'),
        ("int64 [N] integers(0, 1000)", "{ N = 32, V = 1000, D = 16 }", "[fuzz]\naxes = { V = { least = 1000 } }"),
    ],
    ids=["by name", "the dtype's own end", "another case", "said in [fuzz]"],
)
def test_no_axis_is_tied_to_a_bound_that_is_not_its_own_number(line: str, axes: str, tables: str) -> None:
    of = target(f'x = "{line}"\nw = "float32 [V, D] normal"', EMBEDDING[1], axes=axes, tables=tables)
    assert fixed.tied(of) == ()


def test_a_task_whose_axes_are_all_held_has_its_own_shape_and_other_values() -> None:
    of = target()
    whole = [Held("M", (8,), ""), Held("N", (64,), "")]
    drawn = families.drawn_shapes(of, 1, of.rungs, host=True, held=whole)
    assert [case.axes for case in drawn] == [{"M": 8, "N": 64}]
    assert fixed.free(fixed.holding(Schema.of(of, host=True), whole)) == ()
