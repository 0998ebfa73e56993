"""aisp, a terminal workbench for people who make GPU code fast. Its packages are the folders beside this one.

    import aisp

    aisp.compare(slow, fast, inputs={"x": "float32 [M, N] normal"}, axes={"M": 4096, "N": 4096})

`compare` and `evaluate` are looked up when first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take the name for true; importing it from typing costs 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    from aisp.engine.doors.api import Compared, NotHereError, RefusedError, compare, evaluate

    Function = TypeVar("Function", bound=Callable[..., Any])

    @overload
    def rung(function: Function, /) -> Function: ...
    @overload
    def rung() -> Callable[[Function], Function]: ...
    def rung(function: Any = None, /) -> Any:
        """See below."""

else:

    def rung(function=None, /):
        """Mark a function of a one-file target as a rung (`@aisp.rung`): `fused` is then `optimized_fused`.

        The function itself is unchanged: the mark is read where the file is taken apart.
        """
        return (lambda marked: marked) if function is None else function


__all__ = ["Compared", "NotHereError", "RefusedError", "compare", "evaluate", "rung"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # kept until a name is used

    value: object = getattr(importlib.import_module("aisp.engine.doors.api"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
