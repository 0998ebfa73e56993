"""What the checks said of a run: by check and by category, the worst first, counted. A check counts once, with the
worst that it said of any arm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisp.store.outcomes import GRAVEST_FIRST, FindingStatus
from aisp.store.results import standing

if TYPE_CHECKING:
    from aisp.store.record import Finding, Run

LOOK_BACK_RUNS = 50
"""How many runs are looked through for the newest that was checked."""
TOLD_FIRST = (FindingStatus.CAUGHT, FindingStatus.SUSPECT)
"""What nobody must overlook."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one check said of all arms, the worst first."""

    check: str
    findings: tuple[Finding, ...]

    @property
    def status(self) -> FindingStatus:
        """The worst."""
        return self.findings[0].status

    @property
    def worst(self) -> list[Finding]:
        """The findings of the worst status."""
        return [item for item in self.findings if item.status is self.status]


@dataclass(frozen=True, slots=True)
class Category:
    """The checks of one category, the worst first."""

    name: str
    checks: tuple[Said, ...]

    @property
    def status(self) -> FindingStatus:
        """The worst."""
        return self.checks[0].status


def category_of(check: str) -> str:
    """The part of an id before the dot."""
    return check.partition(".")[0]


def by_check(findings: Iterable[Finding]) -> dict[str, Said]:
    """What each check said, in the order in which they were asked."""
    found: dict[str, list[Finding]] = {}
    for item in findings:
        found.setdefault(item.check, []).append(item)
    rank = GRAVEST_FIRST.index
    return {name: Said(name, tuple(sorted(items, key=lambda item: rank(item.status)))) for name, items in found.items()}


def by_category(findings: Iterable[Finding]) -> list[Category]:
    """The findings by category and check. Categories in which something was caught come first, then those with
    something suspect, then the others as the registry has them."""
    rank = GRAVEST_FIRST.index
    groups: dict[str, list[Said]] = {}
    for said in by_check(findings).values():
        groups.setdefault(category_of(said.check), []).append(said)
    found = [Category(name, tuple(sorted(items, key=lambda said: rank(said.status)))) for name, items in groups.items()]
    return sorted(found, key=lambda one: min(rank(one.status), len(TOLD_FIRST)))


def worst(said: Iterable[Said]) -> Said | None:
    """The first of the gravest; None without any."""
    return min(said, key=lambda one: GRAVEST_FIRST.index(one.status), default=None)


def counts(said: Iterable[Said]) -> dict[FindingStatus, int]:
    """How many checks came to which status, the gravest first; all five are there."""
    statuses = [one.status for one in said]
    return {status: statuses.count(status) for status in GRAVEST_FIRST}


def newest_checked(runs: Iterable[Run]) -> Run | None:
    """The first of these runs, newest first, that was checked and says something of its target."""
    return next((run for run in runs if run.findings and standing.is_result(run)), None)
