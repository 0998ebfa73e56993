"""What an import costs: nothing for the package, neither numpy nor sqlite-utils for a reader of records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aisp import store


def loaded_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has after `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not {"numpy", "sqlite_utils", "sqlite3", "torch"} & loaded_after(
        "from aisp import store; import aisp.store.outcomes, aisp.store.ulid; dir(store); store.new_ulid()"
    )


def test_reading_does_not_import_sqlite_utils(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    store.Store.open(path).close()
    loaded = loaded_after(
        f"from aisp.store import History\nh = History({str(path)!r})\nh.newest()\nh.board()\nh.close()"
    )
    assert "sqlite3" in loaded
    assert not {"numpy", "sqlite_utils", "torch", "asyncio"} & loaded


def test_every_name_of_the_package_can_be_had() -> None:
    assert {name: getattr(store, name).__name__ for name in store.__all__} == {name: name for name in store.__all__}
    with pytest.raises(AttributeError, match="no attribute 'Shop'"):
        store.Shop  # noqa: B018 - the access is the test
