"""What holds for every test of the engine that runs a part of it in the tests' own process."""

import pytest

from aisp.engine import spawner


@pytest.fixture(autouse=True)
def _no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ending a child sweeps what is nobody's: in this process that would be the engine that tests share."""

    async def nothing() -> int:
        return 0

    monkeypatch.setattr(spawner, "sweep_orphans", nothing)
