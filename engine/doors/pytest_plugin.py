"""The pytest fixture `aisp`: a test that a function is right and faster, skipped where that cannot be told.

    def test_faster(aisp):
        assert aisp.compare(slow, fast, inputs={"x": "float32 [M, N] normal"}, axes={"M": 4096, "N": 4096}).faster

Without a GPU such a test is skipped with the reason, since a CPU says nothing of one; `--aisp-device=cpu`, or
`device="cpu"` in the call, measures there. pytest loads this in every session, so what it needs of ours is imported
when something is measured.
"""

from __future__ import annotations

from typing import Any

import pytest

TYPE_CHECKING = False  # type checkers take the name for true
if TYPE_CHECKING:
    from aisp.engine.doors.api import Compared


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--aisp-device`."""
    parser.getgroup("aisp").addoption(
        "--aisp-device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="Where the fixture aisp measures; tests are skipped where that is missing. cuda by default.",
    )


class Bench:
    """`aisp.compare` and `aisp.evaluate` for a test. `device` is where they measure unless a call says so itself."""

    def __init__(self, device: str) -> None:
        self.device = device

    def compare(self, baseline: Any, optimized: Any, **options: Any) -> Compared:
        """See `aisp.compare`. Skips the test where the device is missing."""
        from aisp.engine.doors import api  # msgspec, asyncio: only where something is measured

        try:
            return api.compare(baseline, optimized, **({"device": self.device} | options))
        except api.NotHereError as error:
            pytest.skip(str(error))

    def evaluate(self, files: Any, target: Any, **options: Any) -> Compared:
        """See `aisp.evaluate`. Skips the test where the device is missing."""
        from aisp.engine.doors import api  # as above

        try:
            return api.evaluate(files, target, **({"device": self.device} | options))
        except api.NotHereError as error:
            pytest.skip(str(error))


@pytest.fixture
def aisp(request: pytest.FixtureRequest) -> Bench:
    """Measures functions and candidates by the engine; skips where the device that is asked for is missing."""
    return Bench(request.config.getoption("--aisp-device"))
