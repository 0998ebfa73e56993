"""Whoever asks for a check by its name must mean one that there is: an issue is none, and no test may invent one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from aisp.checks import registry

ROOT = Path(__file__).parents[2]
ROOMS = ("engine", "kernels", "store", "tui")
CHECKS = frozenset(check.id for check in registry.checks())
NAME = re.compile(rf"(?:{'|'.join(registry.CATEGORIES)})\.[a-z_0-9]+")
OTHERS = {
    *("cuda.core", "cuda.bindings", "cuda.tile", "workload.jsonl"),  # modules and files
    *("memory.max", "memory.current", "memory.events"),  # files of control groups
    *("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"),
    *("environment.gpu", "environment.temperature_c"),  # keys of contracts
}
"""What looks like the name of a check and is something else."""


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text("utf-8"))


def of_findings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What is written out as a finding's check where one is made, or compared with one: `.check == "..."`."""
    for node in ast.walk(tree):
        said: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("finding", "Finding"):
                said = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "check")]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Attribute) and side.attr == "check" for side in sides):
                said = [one for side in sides for one in getattr(side, "elts", [side])]
        yield from ((one.lineno, one.value) for one in said if isinstance(one, ast.Constant) and one.value)


def test_every_name_in_the_product_that_looks_like_a_check_is_one() -> None:
    found = [
        f"{path}:{node.lineno}: {node.value}"
        for path, tree in modules(*ROOMS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value)
        if node.value not in CHECKS | OTHERS
    ]
    assert found == [], "no run has a finding of it"


def test_what_is_compared_with_a_finding_and_what_tests_make_are_checks_that_there_are() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, tree in modules("checks", *ROOMS, "tests")
        for line, name in of_findings(tree)
        if name not in CHECKS
    ]
    assert found == [], "no run has a finding of it"
