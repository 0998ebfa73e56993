"""Python's own parser and compiler, from any thread.

CPython 3.11 keeps the depth of the tree that it builds in a place that another thread, or the garbage collector in the
middle of it, can disturb; it then raises SystemError ("AST constructor recursion depth mismatch") on a source that has
nothing wrong with it. So one thread parses at a time, and a SystemError is tried again.
"""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Callable
from typing import TypeVar

TRIES = 3
Made = TypeVar("Made")

_ONE_AT_A_TIME = threading.Lock()  # warnings.catch_warnings changes state that all threads share, too


def parsed(source: str | bytes, mode: str = "exec") -> ast.AST:
    """The syntax tree of `source`; warnings about it are its own affair, not the terminal's.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: as ast.parse does.
    """
    return _again(lambda: ast.parse(source, mode=mode))


def check(source: str | bytes, name: str) -> None:
    """Compile `source` as the module file `name`, for its errors. Raises as compile() does."""
    _again(lambda: compile(source, name, "exec", dont_inherit=True))


def _again(work: Callable[[], Made]) -> Made:
    for attempt in range(TRIES):
        try:
            with _ONE_AT_A_TIME, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return work()
        except SystemError:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("not reached")
