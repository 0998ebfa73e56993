"""What an audit of the gallery came to: which cheats were caught, which were useless or missed, which honest rungs were
flagged, and what a naive harness would have said. A fixture is a twin and its cheats, each judged by a run."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from aisp.store.outcomes import TWIN_SUFFIX, FindingStatus, Verdict
from aisp.store.results.outcome import Ended, of
from aisp.store.results.outcome import Outcome as Became
from aisp.store.results.reading import Reading

if TYPE_CHECKING:
    from aisp.store.record import Finding

NOISE = 1.1
"""A cheat that passes is useless where its speed-up is at most so many times the upper bound of its twin's."""
NO_FASTER = (Verdict.SAME, Verdict.SLOWER, Verdict.UNDECIDED)
"""Verdicts that give a cheat nothing, whatever ratio stands beside them."""
ONE_REPLICA = "one replica claims nothing, whatever a rung does"


class Kind(enum.StrEnum):
    """What a rung is; a baseline that was flagged counts as a twin."""

    CHEAT = "cheat"
    TWIN = "twin"


class Outcome(enum.StrEnum):
    """What came of a rung."""

    CAUGHT = "caught"  # or suspect, which withholds every verdict: by a check of its own fixture, by any if it has none
    USELESS = "useless"
    MISSED = "missed"
    PASSED = "passed"
    FLAGGED = "flagged"
    UNAVAILABLE = "unavailable"

    @property
    def bad(self) -> bool:
        """Whether a check failed: a cheat came through, or an honest rung was taken for one."""
        return self in (Outcome.MISSED, Outcome.FLAGGED)


class Fixture(Protocol):
    """A folder of the gallery: its cheats, its twin ("" for none), and the checks that it proves."""

    @property
    def target_id(self) -> str: ...
    @property
    def category(self) -> str: ...
    @property
    def cheats(self) -> tuple[str, ...]: ...
    @property
    def twin(self) -> str: ...
    @property
    def checks(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one rung of a fixture.

    Attributes:
        findings: ids of the checks that caught or doubted it, the fixture's own first.
        evidence: what the first of them saw, or why it is unavailable.
        naive_speedup, naive_accepts: what a naive harness says of it.
        speedup, low, high: ours; None for what was caught.
        honest: what a cheat that was not caught is held against: the most that an honest rung has.
        verdict: for which such a cheat is useless, whatever its ratio.
        compared: the verdict of the ratio that is shown.
    """

    fixture: str
    category: str
    rung: str
    kind: Kind
    outcome: Outcome
    findings: tuple[str, ...] = ()
    evidence: str = ""
    naive_speedup: float | None = None
    naive_accepts: bool | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    run_id: str = ""
    honest: float | None = None
    verdict: Verdict | None = None
    compared: Verdict = Verdict.NONE


def rungs_of(fixture: Fixture) -> list[str]:
    """The twin, then the cheats."""
    return [*([fixture.twin] if fixture.twin else []), *fixture.cheats]


def against(run: Reading, rung: str) -> list[Finding]:
    """What is CAUGHT or SUSPECT of one rung, the A/A arm being the baseline; of the run as a whole for ""."""
    doubts = (FindingStatus.CAUGHT, FindingStatus.SUSPECT)
    return [f for f in run.record.findings if f.arm.removesuffix(TWIN_SUFFIX) == rung and f.status in doubts]


def again_alone(run: Reading, rungs: Sequence[str]) -> list[str]:
    """Rungs of a joint run of which it says nothing: all where a check spoke of the run as a whole, else those that
    were not reached; but for those that were caught by name."""
    of_run = against(run, "")

    def says_nothing(rung: str) -> bool:
        known = run.arm(rung)
        return bool(of_run) or known is None or not known.state.final or known.state.again

    named = {rung for rung in rungs if any(one.status is FindingStatus.CAUGHT for one in against(run, rung))}
    return [rung for rung in rungs if rung not in named and says_nothing(rung)]


def judge(fixture: Fixture, runs: Mapping[str, Reading], alone: Iterable[str] = (), refused: str = "") -> list[Row]:
    """A fixture's rows: its twin, its cheats, and its baseline where something was said against it.

    Args:
        runs: by rung, the run that speaks for it.
        alone: ids of runs of a single rung: what is said of such a run is said of its rung.
        refused: why the fixture was not run; "" where it was.
    """
    rows: list[Row] = []
    twin_high: float | None = None
    for rung in rungs_of(fixture):
        kind = Kind.TWIN if rung == fixture.twin else Kind.CHEAT
        if rung in runs:
            row = _judged(fixture, rung, kind, runs[rung], twin_high, alone=runs[rung].id in alone)
        else:
            why = refused or "it was not reached"
            row = Row(fixture.target_id, fixture.category, rung, kind, Outcome.UNAVAILABLE, evidence=why)
        if kind is Kind.TWIN:
            twin_high = row.high or row.speedup
        rows.append(row)
    flagged = [found for run in runs.values() if (found := _baseline(fixture, run)) is not None]
    return [*flagged[:1], *rows]


def _baseline(fixture: Fixture, run: Reading) -> Row | None:
    """The baseline's row where something was said against it, or it did not end well: it is honest code too."""
    known = run.arm(run.baseline)
    if known is None:
        return None
    doubts = against(run, run.baseline)
    came_to, evidence = _of_twin(of(Reading(run.record), run.baseline), known.reason, doubts)
    if came_to is not Outcome.FLAGGED:
        return None
    checks = tuple(dict.fromkeys(finding.check for finding in doubts))
    return Row(fixture.target_id, fixture.category, run.baseline, Kind.TWIN, came_to, checks, evidence, run_id=run.id)


def _judged(fixture: Fixture, rung: str, kind: Kind, run: Reading, twin_high: float | None, *, alone: bool) -> Row:
    known = run.arm(rung)
    doubts = [*against(run, rung), *(against(run, "") if alone else [])]
    doubts.sort(key=lambda f: (f.status is not FindingStatus.CAUGHT, f.check not in fixture.checks))
    ended = of(Reading(run.record), rung)  # by this run alone, whatever others hold against the rung
    reason = (known.reason if known is not None else "") or run.record.reason
    ratio = next((c for c in run.comparisons if (c.rung, c.baseline) == (rung, run.baseline)), None)
    speedup = ratio.speedup if ratio is not None else None
    verdict = ratio.verdict if ratio is not None else Verdict.NONE
    caught = any(finding.status is FindingStatus.CAUGHT for finding in doubts)
    named = caught or any(finding.check in fixture.checks or not fixture.checks for finding in doubts)
    honest = 1.0 if twin_high is None else twin_high
    if kind is Kind.TWIN:
        outcome, evidence = _of_twin(ended, reason, doubts)
    else:
        decides = run.replicas != 1
        outcome, evidence = _of_cheat(ended, reason, doubts, speedup, honest, verdict, named=named, decides=decides)
    through = outcome in (Outcome.USELESS, Outcome.MISSED)
    naive = known.naive if known is not None else None
    shown = ratio is not None and outcome is not Outcome.CAUGHT and not caught
    return Row(
        fixture.target_id,
        fixture.category,
        rung,
        kind,
        outcome,
        tuple(dict.fromkeys(finding.check for finding in doubts)),
        evidence,
        naive.speedup if naive is not None else None,
        naive.accepts if naive is not None else None,
        *((ratio.speedup, ratio.low, ratio.high) if ratio is not None and shown else (None, None, None)),
        run.id,
        honest if through else None,
        verdict if outcome is Outcome.USELESS and speedup is not None and speedup > honest * NOISE else None,
        verdict,
    )


def _of_twin(ended: Ended, reason: str, doubts: Sequence[Finding]) -> tuple[Outcome, str]:
    if doubts and not ended.state.void:
        return Outcome.FLAGGED, doubts[0].evidence
    if ended.silent:
        return Outcome.UNAVAILABLE, reason or ended.code
    if ended.outcome.right or not ended.own:
        return Outcome.PASSED, ""
    return Outcome.FLAGGED, f"{ended.code}: {reason}".rstrip(": ")


def _of_cheat(
    ended: Ended,
    reason: str,
    doubts: Sequence[Finding],
    speedup: float | None,
    honest: float,
    verdict: Verdict,
    *,
    named: bool,
    decides: bool,
) -> tuple[Outcome, str]:
    if named and not ended.state.void:
        return Outcome.CAUGHT, doubts[0].evidence
    told = f"{ended.state.value}: {reason}".rstrip(": ")
    if not ended.silent and ended.state.refused:
        return Outcome.CAUGHT, told
    if ended.silent or ended.outcome is Became.FAILED:
        # It broke, which is no answer to what it tried.
        return Outcome.UNAVAILABLE, reason if reason and ended.silent and not ended.again else told
    if speedup is None:
        return Outcome.UNAVAILABLE, "it passed and was not timed here, so that it claims nothing"
    if speedup <= honest * NOISE or (verdict in NO_FASTER and decides):
        return Outcome.USELESS, ""
    if verdict in NO_FASTER:
        return Outcome.UNAVAILABLE, ONE_REPLICA
    return Outcome.MISSED, f"suspect by {doubts[0].check}: {doubts[0].evidence}" if doubts else ""


def tally(rows: Iterable[Row]) -> dict[Outcome, int]:
    """How many came to which outcome; all are there."""
    found = [row.outcome for row in rows]
    return {outcome: found.count(outcome) for outcome in Outcome}


def by_category(rows: Sequence[Row]) -> list[tuple[str, dict[Outcome, int]]]:
    """The confusion matrix: outcomes by category, in the order in which they came."""
    return [
        (name, tally(row for row in rows if row.category == name))
        for name in dict.fromkeys(row.category for row in rows)
    ]


def taken(rows: Iterable[Row]) -> tuple[int, int]:
    """Of how many cheats a naive harness was asked, and how many it takes for faster and right."""
    asked = [row for row in rows if row.kind is Kind.CHEAT and row.naive_speedup is not None]
    return len(asked), sum(bool(row.naive_accepts) and (row.naive_speedup or 0.0) > NOISE for row in asked)
