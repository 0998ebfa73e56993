"""The catalogue: finds targets on disk and reads their front matter without importing any of them.

    from aisp.kernels import catalog

    found = catalog.load()                      # or catalog.load([Path("~/my_kernels").expanduser()])
    target = found.find("ch07:transpose")
    catalog.shape(target.inputs[0], target.case("default").axes)

Everything here is plain Python over files, so that a frontend may list a thousand targets without torch. Names
are looked up in their module when first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take the name for true; importing it from typing costs 10 ms
if TYPE_CHECKING:
    from .choosing import Miss, TargetError
    from .contracts import Contract
    from .grammar import GrammarError, evaluate, names
    from .loader import list_ids, load, load_target, shipped_root
    from .model import (
        Case,
        Catalog,
        Chapter,
        Expectation,
        Extent,
        Flag,
        Fuzz,
        Goal,
        Judged,
        JudgedAs,
        Kind,
        Link,
        LinkKind,
        Needs,
        Problem,
        Role,
        Rung,
        RungExpectation,
        Target,
        TensorSpec,
    )
    from .sources import builds, compiles, read_sources
    from .starter import ScaffoldError, copy_target, free_name, scaffold
    from .suites import Suite, load_suites
    from .tensors import (
        DEFAULT_TOLERANCE,
        DISTRIBUTIONS,
        DTYPES,
        bytes_moved,
        check_values,
        flops,
        itemsize,
        link_bytes,
        parse_tensor,
        shape,
    )

__all__ = [
    "DEFAULT_TOLERANCE",
    "DISTRIBUTIONS",
    "DTYPES",
    "Case",
    "Catalog",
    "Chapter",
    "Contract",
    "Expectation",
    "Extent",
    "Flag",
    "Fuzz",
    "Goal",
    "GrammarError",
    "Judged",
    "JudgedAs",
    "Kind",
    "Link",
    "LinkKind",
    "Miss",
    "Needs",
    "Problem",
    "Role",
    "Rung",
    "RungExpectation",
    "ScaffoldError",
    "Suite",
    "Target",
    "TargetError",
    "TensorSpec",
    "builds",
    "bytes_moved",
    "check_values",
    "compiles",
    "copy_target",
    "evaluate",
    "flops",
    "free_name",
    "itemsize",
    "link_bytes",
    "list_ids",
    "load",
    "load_suites",
    "load_target",
    "names",
    "parse_tensor",
    "read_sources",
    "scaffold",
    "shape",
    "shipped_root",
]

_HOMES = {
    "choosing": ("Miss", "TargetError"),
    "contracts": ("Contract",),
    "grammar": ("GrammarError", "evaluate", "names"),
    "loader": ("list_ids", "load", "load_target", "shipped_root"),
    "model": (
        *("Case", "Catalog", "Chapter", "Expectation", "Extent", "Flag", "Fuzz", "Goal", "Judged", "JudgedAs", "Kind"),
        *("Link", "LinkKind", "Needs", "Problem", "Role", "Rung", "RungExpectation", "Target"),
        "TensorSpec",
    ),
    "sources": ("builds", "compiles", "read_sources"),
    "starter": ("ScaffoldError", "copy_target", "free_name", "scaffold"),
    "suites": ("Suite", "load_suites"),
    "tensors": (
        *("DEFAULT_TOLERANCE", "DISTRIBUTIONS", "DTYPES"),
        *("bytes_moved", "check_values", "flops", "itemsize", "link_bytes", "parse_tensor", "shape"),
    ),
}
_MODULE_OF = {name: module for module, exported in _HOMES.items() for name in exported}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # kept until a name is used: `import aisp.kernels.catalog` stays under a millisecond

    value: object = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
