"""No module of a face has a rule about results: what a verdict means and which rung is best is said in store/results.

Two forms are looked for in the syntax of every module below tui/ and engine/doors/:

* a comparison (`is`, `==`, `in`, `<` ...) or a `match` with a member of an enum that judges. Allowed is what only
  draws: a table by the members ({Verdict.FASTER: " faster"}), and a walk through them;
* a `min`, `max`, `sort` or `sorted` over times, speed-ups or shares of light. Allowed is the scale of a drawing: what
  is chosen there is a number and no rung, so `min` and `max` have no `key`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.fake_engine import MAIN

JUDGING = {"Verdict", "Validity", "Correctness", "FindingStatus", "FuzzVerdict", "CaseVerdict"}
WORDS = {"faster", "slower", "same", "undecided", "valid", "suspect", "caught", "correct", "wrong", "doubted", "none"}
JUDGED = {"verdict", "validity", "correctness"}
FIGURES = {"median_ms", "best_ms", "low_ms", "high_ms", "speedup", "sol", "cycles", "score", "share"}
CHOOSES = {"min", "max", "sorted", "sort"}


def names_in(node: ast.AST) -> Iterator[str]:
    """Names and attributes that stand in it, and keys of plain data."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def members_in(node: ast.AST) -> Iterator[str]:
    """Members of judging enums that stand in it: "Verdict.NONE"."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in JUDGING:
            yield f"{part.value.id}.{part.attr}"


def judges(node: ast.AST) -> str:
    """What a comparison or a match asks of an enum that judges; "" where it asks nothing."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        found = [name for side in sides for name in members_in(side)]
        of_judged = any(isinstance(side, ast.Attribute) and side.attr in JUDGED for side in sides)
        found += [
            side.value
            for side in sides
            if of_judged and isinstance(side, ast.Constant) and side.value in WORDS | {"none"}
        ]
        return ", ".join(found)
    return ", ".join(members_in(node.pattern)) if isinstance(node, ast.match_case) else ""


def chooses(node: ast.AST) -> str:
    """Over which figures a call chooses one; "" where it does not."""
    if not isinstance(node, ast.Call):
        return ""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
    if name not in CHOOSES or (name in {"min", "max"} and not keys):
        return ""
    sorts = [getattr(part, "elt", part) for part in node.args]  # not what a comprehension leaves out
    figures = FIGURES & {found for part in [*keys, *sorts] for found in names_in(part)}
    return f"{name} over {', '.join(sorted(figures))}" if figures else ""


def rules(source: str) -> list[str]:
    """Every rule in a module: "12: Verdict.NONE"."""
    found = [(node, judges(node) or chooses(node)) for node in ast.walk(ast.parse(source))]
    return [f"{getattr(node, 'lineno', 0)}: {what}" for node, what in found if what]


MODULES = sorted(path for face in ("tui", "engine/doors") for path in (MAIN / face).rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(MAIN)))
def test_a_face_has_no_rule_of_its_own(module: Path) -> None:
    assert rules(module.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "run.validity in (Validity.SUSPECT, Validity.CAUGHT)",
        "arm.correctness is Correctness.WRONG",
        'item.verdict == "none"',
        "match run.verdict:\n    case Verdict.FASTER:\n        pass",
        "min(arms, key=lambda arm: arm.median_ms)",
        "max(rungs, key=lambda rung: rung['speedup'])",
        "sorted(run.best_ms for run in runs)",
        "arms.sort(key=operator.attrgetter('median_ms'))",
    ],
)
def test_a_rule_is_found_where_it_stands(source: str) -> None:
    assert len(rules(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "words = {Verdict.FASTER: ' faster', Verdict.SLOWER: ' slower'}\nwords.get(item.verdict)",
        "for verdict in (FuzzVerdict.WRONG, FuzzVerdict.RIGHT):\n    told(run.found(FindingStatus.SUSPECT))",
        "min(arm.median_ms for arm in arms)",
        "sorted({arm.timing for arm in arms if arm.median_ms is not None})",
        "run.state is State.OK",
    ],
)
def test_what_only_draws_is_no_rule(source: str) -> None:
    assert rules(source) == []
