"""Targets that exist in memory alone: front matter from text, a reference as a function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from aisp.checks.oracle import values
from aisp.checks.oracle.schema import Case, Layout, Relation, Strategy, Values
from aisp.checks.oracle.truth import Expected, Oracle, Truth
from aisp.kernels.catalog import Kind, Needs, Role, Rung, Target, frontmatter

FOLDER = Path("/nowhere/mine/one")
HEAD = '+++\ntitle = "One"\ntechniques = ["none"]\nflops = "{flops}"\naxes = {axes}\n{more}\n'
_NUMBERS = itertools.count()


def target(
    inputs: str = 'x = "float32 [M, N] normal"',
    outputs: str = 'y = "float32 [M, N]"',
    *,
    axes: str = "{ M = 8, N = 64 }",
    flops: str = "0",
    more: str = "",
    tables: str = "",
    rungs: tuple[str, ...] = ("baseline", "optimized"),
) -> Target:
    """The target `mine:one` that a lesson.md with these lines describes; `tables` stands behind [outputs]."""
    text = HEAD.format(flops=flops, axes=axes, more=more)
    text += f"[inputs]\n{inputs}\n[outputs]\n{outputs}\n{tables}\n+++\n\n# One\n"
    # The reader keeps what it read by path and bytes: a path of its own lets no test share another's.
    matter, problems = frontmatter.read(FOLDER / f"{next(_NUMBERS)}" / "lesson.md", text.encode())
    assert matter is not None, "; ".join(str(problem) for problem in problems)
    return Target(
        id="mine:one",
        chapter="mine",
        name="one",
        title=matter.title,
        folder=FOLDER,
        root=FOLDER.parent,
        goal=matter.goal,
        needs=matter.needs,
        techniques=matter.techniques,
        inputs=matter.inputs,
        outputs=matter.outputs,
        cases=matter.cases,
        flops=matter.flops,
        bytes=matter.bytes,
        tolerance=matter.tolerance,
        rungs=tuple(_rung(name, matter) for name in rungs),
        expect=None,
        lesson=matter.lesson,
        fuzz=matter.fuzz,
        judged=matter.judged,
        stated=matter.stated,
    )


def _rung(name: str, matter: frontmatter.FrontMatter) -> Rung:
    notes = matter.rungs.get(name, frontmatter.RungNotes())
    role = Role(name.partition("_")[0])
    path = FOLDER / f"{name}.py"
    return Rung(name, role, Kind.TORCH, path, Needs(), inexact=notes.inexact, supports=notes.supports)


def case(
    axes: Mapping[str, int],
    *,
    strategy: Strategy = Strategy.BOUNDARY,
    number: int = 1,
    dtype: str = "",
    layouts: Mapping[str, Layout] | None = None,
    held: Mapping[str, Values] | None = None,
    relation: Relation | str = "",
) -> Case:
    """A case of the boundary strategy unless another is named."""
    return Case(number, strategy, dict(axes), dtype, dict(layouts or {}), dict(held or {}), str(relation))


def pose(
    of: Target, reference: Callable[..., Any], what: Case, inputs: Mapping[str, torch.Tensor] | None = None
) -> tuple[dict[str, torch.Tensor], Truth]:
    """Inputs (drawn from seed 7 unless given) and truth of a case, gradients where [fuzz] says `backward`."""
    given = dict(inputs) if inputs is not None else values.inputs_of(of, what, 7)
    gradients: dict[str, torch.Tensor] = {}
    oracle = Oracle(of, reference, "cpu")
    if of.fuzz.backward:
        shapes = {s.name: tuple(o.shape) for s, o in zip(of.outputs, oracle.outputs(what, given, {}), strict=True)}
        gradients = values.gradients_of(of, what, 7, shapes)
    return given, oracle.truth(what, given, {}, gradients)


def expected(
    value: torch.Tensor,
    allowed: float | torch.Tensor | None = 1e-6,
    dtype: str = "float32",
    eager: torch.Tensor | None = None,
    name: str = "y",
) -> Expected:
    """An output whose truth and allowed error the test decides."""
    if allowed is not None and not isinstance(allowed, torch.Tensor):
        allowed = torch.full(value.shape, allowed, dtype=torch.float64)
    return Expected(name, value, dtype, allowed, eager)


def f64(*numbers: float) -> torch.Tensor:
    """A vector in fp64."""
    return torch.tensor(numbers, dtype=torch.float64)


def f32(*numbers: float) -> torch.Tensor:
    """A vector in fp32."""
    return torch.tensor(numbers, dtype=torch.float32)
