"""What holds for every test of the app: a pilot waits for an app that is idle, and not for time to pass."""

import pytest
import textual.app
import textual.pilot

from aisp.tui import plain
from tests.tui import idle


@pytest.fixture(autouse=True)
def _waits_for_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textual.app, "wait_for_idle", idle.settled)
    monkeypatch.setattr(textual.pilot, "wait_for_idle", idle.settled)


@pytest.fixture(autouse=True)
def _micro_sign() -> None:
    plain.ascii_only(False)  # an app of another test may have drawn with 7 bits
