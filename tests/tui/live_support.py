"""What the tests of the live screens share: a state folder of their own, and screens compared as text."""

from __future__ import annotations

from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = ((80, 24), (120, 40), (200, 50))


def isolate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder and settings of the test's own, in UTC, with colours."""
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)


def check_snapshot(request: pytest.FixtureRequest, name: str, drawn: str) -> None:
    """Compare a screen with its file; `pytest --snapshot-update` writes the file anew."""
    file = SNAPSHOTS / f"{name}.txt"
    if request.config.getoption("--snapshot-update"):
        file.write_text(drawn + "\n", encoding="utf-8")
    assert file.exists(), f"there is no {file}; look at the screen and run pytest --snapshot-update"
    assert drawn + "\n" == file.read_text(encoding="utf-8")
