"""The cases of a MultiKernelBench problem: what its get_input_groups() gives, of which one is posed.

Where a list of cases lies beside the problem, its code finds one with the line alone that is posed, so that dozens of
groups cost what one does; with all of them, where it counts them.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


def group(reference: ModuleType, number: int, name: str, lines: Sequence[str]) -> list[Any]:
    """The inputs of a case, in the order of forward().

    Args:
        name: of the list; its code looks for it beside `__file__`.
        lines: of the list; none where the groups stand in the code.
    """
    if not lines:
        groups = reference.get_input_groups()
        return _in_order(reference, groups[number % len(groups)])
    try:
        (found,) = _served(reference, name, lines[number : number + 1])
    except (IndexError, ValueError):
        found = _served(reference, name, lines)[number]
    return _in_order(reference, found)


def _in_order(reference: ModuleType, inputs: Any) -> list[Any]:
    if not isinstance(inputs, dict):
        return list(inputs)
    bound = inspect.signature(reference.Model.forward).bind(None, **inputs)
    bound.apply_defaults()
    return list(bound.args[1:])


def _served(reference: ModuleType, name: str, lines: Sequence[str]) -> list[Any]:
    before = reference.__file__
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / name
        place.write_text("\n".join(lines) + "\n")
        reference.__file__ = str(place.with_suffix(".py"))
        try:
            return list(reference.get_input_groups())
        finally:
            reference.__file__ = before
