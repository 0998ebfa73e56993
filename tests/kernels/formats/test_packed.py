"""Packed calls: what is carried comes out as it went in, what cannot be is refused, and which cases are judged."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from aisp.kernels.catalog.formats import backendbench, multikernel, packed
from aisp.kernels.catalog.formats.packed import Case, Cases

PAGE = (Path(__file__).parents[3] / "docs/formats.md").read_text("utf-8")


def test_the_page_has_the_numbers_of_the_code() -> None:
    said = " ".join(PAGE.split())
    assert f"at most {packed.JUDGED_ELEMENTS:,} elements is judged in **every** run" in said
    assert f"the largest of up to {packed.HOST_ELEMENTS:,} elements" in said
    assert f"At most {packed.MAX_CASES} cases are taken" in said
    assert f"{multikernel.GUESSED} are taken, counted round" in said
    assert f"{backendbench.SAMPLES} cases, `sample0` and so on" in said


# -- cases -------------------------------------------------------------------------------------------------------------


def test_the_largest_case_that_a_cpu_can_take_is_timed_there() -> None:
    most = packed.HOST_ELEMENTS
    assert Cases("n", (Case("a", 5), Case("b", most), Case("c", most + 1), Case("d", most))).cpu == 1
    assert Cases("n", (Case("a", most + 1),)).cpu is None
    assert Cases("n", (Case("a"), Case("b"))).cpu == 0  # nobody has written their sizes down


def test_cases_that_no_machine_should_be_given_unasked_are_run_by_name_alone() -> None:
    known = (Case("a", 5), Case("b", packed.JUDGED_ELEMENTS + 1), Case("c"))
    front = Cases("n", known, usual=1).front()
    assert front["axes"] == {"n": 1}
    assert {case["name"]: case.get("timed", True) for case in front["cases"]} == {
        "cpu": True,
        "a": False,
        "b": True,
        "c": False,
    }
    assert front["fuzz"] == {"axes": {"n": [0, 2]}}


# -- signatures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "wanted"),
    [
        ("self, x, y", ["call", "x", "y", "more0"]),
        ("self, x: torch.Tensor, dim: int, mask=None, *rest, eps=1", ["call", "x", "dim", "mask", "more0"]),
        ("self, call, more0", ["call_", "call", "more0", "more0_"]),
        ("self", ["call", "more0"]),
    ],
)
def test_a_slot_stands_for_each_argument_by_its_name(signature: str, wanted: list[str]) -> None:
    (function,) = ast.parse(f"def forward({signature}): ...").body
    assert isinstance(function, ast.FunctionDef)
    names = list(packed.model_inputs(packed.parameters(function)))
    assert names[: len(wanted)] == wanted
    assert len(names) == len(wanted) - 1 + packed.SPARE_SLOTS + packed.ROOMS + len(("weights", "state", "seed"))
