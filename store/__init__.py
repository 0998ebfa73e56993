"""Memory: every run, sample and source, in SQLite, through one writer. Imports nothing of ours; `store.results`, which
reads what is remembered, knows the catalogue too.

`Store` writes (the engine alone), `History` reads (any frontend). Names are fetched from their modules at their first
use: `import store` costs nothing, reading samples costs numpy, and only writing costs sqlite-utils (0.2 s).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisp.store.content import snapshot_hash
    from aisp.store.errors import (
        ForeignDatabaseError,
        NewerSchemaError,
        StoreCorruptError,
        StoreError,
        StoreFullError,
        StoreGoneError,
        StoreLockedError,
        StoreUnwritableError,
    )
    from aisp.store.reader import History
    from aisp.store.record import ContradictionError
    from aisp.store.ulid import new_ulid
    from aisp.store.writer import OpenReport, Store

__all__ = [
    "ContradictionError",
    "ForeignDatabaseError",
    "History",
    "NewerSchemaError",
    "OpenReport",
    "Store",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreGoneError",
    "StoreLockedError",
    "StoreUnwritableError",
    "new_ulid",
    "snapshot_hash",
]

_HOMES = {
    "ContradictionError": "aisp.store.record",
    "History": "aisp.store.reader",
    "OpenReport": "aisp.store.writer",
    "Store": "aisp.store.writer",
    "new_ulid": "aisp.store.ulid",
    "snapshot_hash": "aisp.store.content",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'aisp.store' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name, "aisp.store.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
