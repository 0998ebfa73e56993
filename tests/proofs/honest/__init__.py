"""Honest rungs that look like cheats; README.md says what they are for."""

from __future__ import annotations

from pathlib import Path

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Role, Target

ROOT = Path(__file__).resolve().parent
CHAPTER = "honest"


def targets() -> list[Target]:
    """All lessons, by name."""
    found = [
        catalog.load_target(lesson.parent, root=ROOT, chapter=CHAPTER) for lesson in sorted(ROOT.glob("*/lesson.md"))
    ]
    for loaded in found:
        assert isinstance(loaded, Target), "; ".join(str(problem) for problem in loaded)
    return [loaded for loaded in found if isinstance(loaded, Target)]


def rungs_of(target: Target) -> list[str]:
    """Names of the rungs that are put before the checks."""
    return [rung.name for rung in target.rungs if rung.role is Role.OPTIMIZED]
