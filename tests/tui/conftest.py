"""What holds for every test of the app: a pilot waits for an app that is idle, and not for time to pass."""

import pytest
import textual.app
import textual.pilot

from tests.tui import idle


@pytest.fixture(autouse=True)
def _waits_for_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textual.app, "wait_for_idle", idle.settled)
    monkeypatch.setattr(textual.pilot, "wait_for_idle", idle.settled)
