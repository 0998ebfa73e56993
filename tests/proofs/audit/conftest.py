"""What fixtures of the gallery leave in the temporary folder of the engine that tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.engine.harness import EngineUnderTest

MEMO = "medians-of-known-inputs"  # of evaluation/benchmark_memorization: its cheats leave it for later calls to read


@pytest.fixture(scope="session", autouse=True)
def _left_by_fixtures(shared_process: EngineUnderTest) -> Iterator[None]:
    """Taken away before the engine's own litter is looked for."""
    yield
    shutil.rmtree(shared_process.temporary / MEMO, ignore_errors=True)
