"""Python's own parser and compiler, from any thread.

CPython 3.11 keeps the depth of the tree that it builds in a place that another thread, or the garbage collector in the
middle of it, can disturb; it then raises SystemError ("AST constructor recursion depth mismatch") on a source that has
nothing wrong with it. So one thread parses at a time, and a SystemError is tried again.
"""

from __future__ import annotations

import ast
import symtable
import threading
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeVar

TRIES = 3
REFUSALS = (SyntaxError, ValueError, MemoryError, RecursionError)
"""What they raise on a source that they cannot take."""
Made = TypeVar("Made")

_ONE_AT_A_TIME = threading.Lock()  # warnings.catch_warnings changes state that all threads share, too


def parsed(source: str | bytes, mode: str = "exec") -> ast.AST:
    """The syntax tree of `source`; warnings about it are its own affair, not the terminal's.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: REFUSALS, as ast.parse does.
    """
    return _again(lambda: ast.parse(source, mode=mode))


def symbols(source: str) -> symtable.SymbolTable:
    """Which names the module `source` makes and uses, by scope, as Python's compiler sees it. Raises REFUSALS."""
    return _again(lambda: symtable.symtable(source, "<names>", "exec"))


class Misspelt(NamedTuple):
    """A source that is no Python: where, and what Python says."""

    kind: str  # SyntaxError, or one of its kinds
    message: str
    line: int | None
    text: str  # the line itself


def misspelt(source: str | bytes, name: str) -> Misspelt | None:
    """What is wrong with the syntax of `source`, the module file `name`; None where nothing is."""
    try:
        _again(lambda: compile(source, name, "exec", dont_inherit=True))
    except SyntaxError as error:
        return Misspelt(type(error).__name__, error.msg, error.lineno, (error.text or "").rstrip())
    except (ValueError, MemoryError, RecursionError):  # not about its syntax: importing it tells
        return None
    return None


def refusal(source: str | bytes, name: str) -> str:
    """Why Python cannot compile `source` as the module file `name`, with its line; "" where it can."""
    try:
        _again(lambda: compile(source, name, "exec", dont_inherit=True))
    except SyntaxError as error:
        text = f"\n    {error.text.rstrip()}" if error.text else ""
        place = f"{name}:{error.lineno}" if error.lineno else name
        return f"{place}: {error.msg}{text}"
    except RecursionError as error:
        return f"{name}: nested too deeply for Python's compiler ({error}); break the longest expression up"
    except MemoryError:
        return f"{name}: nested too deeply for Python's parser (MemoryError); break the deepest expression up"
    except ValueError as error:
        return f"{name}: {error}"
    return ""


def _again(work: Callable[[], Made]) -> Made:
    for attempt in range(TRIES):
        try:
            with _ONE_AT_A_TIME, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return work()
        except MemoryError:  # its text is that of a version of Python, or none
            raise MemoryError from None
        except SystemError:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("not reached")
