"""Whose fault an end is, is said once: by the states themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.store.outcomes import Fault, State
from aisp.store.results.outcome import Outcome, Stage

ROOT = Path(__file__).parents[2]
ROOMS = ("checks", "engine", "kernels", "store", "tui")
HOME = ROOT / "store" / "outcomes.py"
RULE = ROOT / "store" / "results" / "outcome.py"  # what became of a rung
FROZEN = ROOT / "store" / "migrations.py"  # what files of earlier versions were made with


def sources() -> Iterator[tuple[Path, ast.Module]]:
    """Every module of the product, parsed."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "gallery" not in path.parts and path != HOME:
                yield path, ast.parse(path.read_text("utf-8"))


def members(node: ast.AST) -> list[str]:
    """The states that a collection of them names: a tuple, a list, a set, or the alternatives of a case. A table by
    state gives each a word of its own, and is none."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts: list[ast.expr] = node.elts
    elif isinstance(node, ast.MatchOr):
        parts = [one.value for one in node.patterns if isinstance(one, ast.MatchValue)]
    else:
        return []
    states = [one for one in parts if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)]
    return [one.attr for one in states if isinstance(one.value, ast.Name) and one.value.id == "State"]


def test_every_state_says_whose_fault_it_is() -> None:
    by_fault = {fault: [state for state in State if state.fault is fault] for fault in Fault}
    assert by_fault[Fault.NOBODY] == [State.PLANNED, State.STARTING, State.RUNNING, State.OK]
    assert by_fault[Fault.MACHINE] == [State.UNAVAILABLE]
    assert by_fault[Fault.PERSON] == [State.CANCELLED]
    assert by_fault[Fault.ENGINE] == [State.ENGINE_LOST, State.INFRA_ERROR]
    assert by_fault[Fault.RECORD] == [State.CHANGED]
    assert len(by_fault[Fault.TARGET]) == 9


def test_what_is_asked_again_says_nothing_and_what_says_something_is_the_targets_own() -> None:
    assert [state for state in State if state.again] == [
        *(State.CANCELLED, State.ENGINE_LOST, State.INFRA_ERROR, State.CHANGED)
    ]
    for state in State:
        assert state.silent == (state.again or state is State.UNAVAILABLE)
        assert not state.cut_short or state.again
        assert not (state.fatal or state.timed_out or state.refused) or state.fault is Fault.TARGET


def test_no_collection_of_states_stands_elsewhere() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {', '.join(states)}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if len(states := members(node)) > 1
    ]
    assert found == [], "give State a property that says what they have in common"


def compared_states(function: ast.AST) -> list[str]:
    """The states that a function compares something with, be it in one condition or in several."""
    asked = [part for part in ast.walk(function) if isinstance(part, ast.Compare | ast.match_case)]
    sides = [side for part in asked for side in (part.comparators if isinstance(part, ast.Compare) else [part.pattern])]
    found = [part for side in sides for part in ast.walk(side) if isinstance(part, ast.Attribute)]
    return sorted({one.attr for one in found if isinstance(one.value, ast.Name) and one.value.id == "State"})


READERS = ("checks", "engine/doors", "store", "tui")
"""Rooms that read how something ended; the engine itself brings ends about, and the record refuses contradictions."""


def readers() -> Iterator[tuple[str, ast.Module]]:
    for path, tree in sources():
        name = str(path.relative_to(ROOT))
        if name.startswith(READERS) and not name.startswith("store/record/") and path != RULE:
            yield name, tree


def test_no_function_decides_from_several_states() -> None:
    found = [
        f"{name}:{part.lineno}: {part.name}: {', '.join(states)}"
        for name, tree in readers()
        for part in ast.walk(tree)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and len(states := compared_states(part)) > 1
    ]
    assert found == [], "what became of a rung is said by store/results/outcome.py; ask it, or a property of State"


def compares_a_check(node: ast.AST) -> bool:
    """Whether a finding's check is compared with a check by its name."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    of_check = any(isinstance(side, ast.Attribute) and side.attr == "check" for side in sides)
    parts = [part for side in sides for part in ast.walk(side)]
    literal = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)
    constant = any(isinstance(part, ast.Name) and part.id.isupper() for part in parts)
    return of_check and (literal or constant)


def test_no_status_is_made_of_the_name_of_a_check() -> None:
    homes = ("checks/", "store/results/reading.py")
    found = [
        f"{name}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for name, tree in readers()
        if not name.startswith(homes)
        for node in ast.walk(tree)
        if compares_a_check(node)
    ]
    assert found == [], "what a check means for a rung is said by store/results/reading.py"


def test_what_became_of_a_rung_is_one_enum() -> None:
    """No class beside it has three of its words, nor two of the stages."""
    ours = {Outcome: 2, Stage: 1}
    found = [
        f"{name}:{node.lineno}: {node.name}"
        for name, tree in readers()
        if not name.startswith("checks/")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("StrEnum") for base in node.bases)
        for words, most in ours.items()
        if len({part.value for part in ast.walk(node) if isinstance(part, ast.Constant)} & {*words}) > most
    ]
    assert found == [], "make it a table over results.outcome"


TABLES = ("overview", "candidate", "evidence", "traces", "kernelbench", "audit")


def test_a_door_is_a_table_over_the_one_rule() -> None:
    """None of them compares with how a run ended, how right it is or what its times are worth."""
    doors = [f"store/results/{name}.py" for name in TABLES] + ["engine/doors/serve/evaluations.py"]
    found = [
        f"{name}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for name, tree in readers()
        if name in doors
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.match_case)
        and re.search(r"\b(State|Correctness|Validity)\.[A-Z]", ast.unparse(node))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(s):\n    if s is State.OK:\n        return 1\n    return 2 if s == State.CRASHED else 3",
        "match s:\n    case State.OK:\n        pass\n    case State.CRASHED:\n        pass",
        "def f(s):\n    return s is State.OK or s is State.CRASHED",
    ],
)
def test_a_decision_from_several_states_is_found(source: str) -> None:
    assert compared_states(ast.parse(source)) == ["CRASHED", "OK"]


def test_the_name_of_a_check_is_found() -> None:
    assert compares_a_check(ast.parse("found.check == 'output.form'", mode="eval").body)
    assert compares_a_check(ast.parse("bar.check in OF_OUTPUTS", mode="eval").body)
    assert not compares_a_check(ast.parse("found.check == check.id", mode="eval").body)


def test_no_sql_spells_out_states() -> None:
    words = re.compile(r"'(%s)'\s*,\s*'(%s)'" % (("|".join(state.value for state in State),) * 2))
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value.strip()[:80]}"
        for path, tree in sources()
        if path != FROZEN
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and words.search(node.value)
    ]
    assert found == [], "write it with `outcomes.quoted`"
