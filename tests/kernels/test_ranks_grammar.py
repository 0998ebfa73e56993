"""`ranks` in a lesson: how many processes a rung has, and the leading dimension that every tensor then needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Problem, Target

LESSON = """\
+++
title = "Sums of all ranks"
techniques = ["all-reduce"]
{ranks}
axes = {{ N = 16 }}
flops = "0"

[inputs]
{inputs}
[outputs]
{outputs}
+++

Each rank has its row.
"""
ROWS = ('x = "float32 [2, N] normal"', 'y = "float32 [2, N]"')


def load(folder: Path, ranks: str, inputs: str = ROWS[0], outputs: str = ROWS[1]) -> Target | tuple[Problem, ...]:
    (folder / "lesson.md").write_text(LESSON.format(ranks=ranks, inputs=inputs, outputs=outputs))
    for name in ("reference", "baseline", "optimized"):
        (folder / f"{name}.py").write_text("def run(x):\n    return x\n")
    found = catalog.load_target(folder, root=folder, chapter="mine")
    return found if isinstance(found, Target) else tuple(found)


def problem(found: Target | tuple[Problem, ...]) -> Problem:
    assert not isinstance(found, Target)
    (one,) = found
    assert one.key == "ranks"
    return one


def test_a_lesson_says_how_many_ranks_each_rung_has(tmp_path: Path) -> None:
    found = load(tmp_path, "ranks = 2")
    assert isinstance(found, Target)
    assert found.ranks == 2


@pytest.mark.parametrize("line", ["", "ranks = 1"])
def test_a_lesson_that_says_nothing_or_one_has_one_rank_and_dimensions_as_it_likes(tmp_path: Path, line: str) -> None:
    found = load(tmp_path, line, 'x = "float32 [N, 3] normal"', 'y = "float32 [N, 3]"')
    assert isinstance(found, Target)
    assert found.ranks == 1


@pytest.mark.parametrize(("line", "told"), [("ranks = 0", "0 ranks"), ("ranks = 9", "9 ranks"), ("ranks = -2", "-2")])
def test_a_number_of_ranks_that_cannot_be_is_refused_with_what_would_work(tmp_path: Path, line: str, told: str) -> None:
    found = problem(load(tmp_path, line))
    assert told in found.message
    assert found.fix == "write ranks = 2 (1 to 8), or leave it out where one process does all"


@pytest.mark.parametrize("line", ['ranks = "2"', "ranks = true", "ranks = 2.0", "ranks = [2]"])
def test_a_number_of_ranks_that_is_no_whole_number_is_refused(tmp_path: Path, line: str) -> None:
    found = problem(load(tmp_path, line))
    assert "not a whole number" in found.message


@pytest.mark.parametrize(
    ("inputs", "outputs", "name"),
    [
        ('x = "float32 [N, 2] normal"', ROWS[1], "x"),
        ('x = "float32 [3, N] normal"', ROWS[1], "x"),
        (ROWS[0], 'y = "float32 [N]"', "y"),
        (ROWS[0], 'y = "float32 []"', "y"),
    ],
)
def test_a_tensor_without_a_slice_for_each_rank_is_named(tmp_path: Path, inputs: str, outputs: str, name: str) -> None:
    found = problem(load(tmp_path, "ranks = 2", inputs, outputs))
    assert found.message == f"{name} has no leading dimension of 2"
    assert found.fix == "write [2, ...]: every rank gets its slice of every tensor"


def test_an_input_that_inputs_py_makes_has_no_slices(tmp_path: Path) -> None:
    (tmp_path / "inputs.py").write_text("def make(axes, device, generator):\n    return {'x': None}\n")
    found = problem(load(tmp_path, "ranks = 2", 'x = "made"'))
    assert found.message == "x has no leading dimension of 2"
