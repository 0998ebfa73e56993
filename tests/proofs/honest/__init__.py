"""Honest rungs that look like cheats; README.md says what they are for."""

from __future__ import annotations

from pathlib import Path

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Role, Target

ROOT = Path(__file__).resolve().parent
CHAPTER = "honest"

HOST = {
    "honest:counts": {"optimized_bytes", "optimized_in_c"},
    "honest:dropped": {"optimized", "optimized_forked_state"},
    "honest:layer": {
        *("optimized_forked", "optimized_in_c", "optimized_mapped", "optimized_numpy"),
        *("optimized_pool", "optimized_processes", "optimized_threads"),
    },
    "honest:maxima": {"optimized_numpy"},
    "honest:sums": {"optimized"},
}
"""Rungs that look at memory of the host, or whose threads know nothing of streams: they run on a CPU alone."""


def targets() -> list[Target]:
    """All lessons, by name."""
    found = [
        catalog.load_target(lesson.parent, root=ROOT, chapter=CHAPTER) for lesson in sorted(ROOT.glob("*/lesson.md"))
    ]
    for loaded in found:
        assert isinstance(loaded, Target), "; ".join(str(problem) for problem in loaded)
    return [loaded for loaded in found if isinstance(loaded, Target)]


def rungs_of(target: Target, device: str) -> list[str]:
    """Names of the rungs that are put before the checks on a "cpu" or on "cuda"."""
    if device == "cpu" and target.needs.gpus:
        return []
    away = HOST.get(target.id, set()) if device != "cpu" else set()
    return [rung.name for rung in target.rungs if rung.role is Role.OPTIMIZED and rung.name not in away]
