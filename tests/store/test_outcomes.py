"""Whose fault an end is, is said once: by the states themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from aisp.store.outcomes import Fault, State

ROOT = Path(__file__).parents[2]
ROOMS = ("checks", "engine", "kernels", "store", "tui")
HOME = ROOT / "store" / "outcomes.py"
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
