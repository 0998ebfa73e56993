"""A run as it is read: its record, and what is held against its rungs. The one place that says what may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from aisp.kernels.catalog.contracts import Cache
from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import TWIN_SUFFIX, FindingStatus, State
from aisp.store.results import standing
from aisp.store.results.outside import judged
from aisp.store.results.progress import Pace, Progress
from aisp.store.results.tables import attributes

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Arm, Comparison, Finding, Quarantine, Run, Step

MISTAKE = "output.values"
"""The check that is failed by plain wrong values: a mistake, as far as anybody can tell, and no cheating."""
OF_OUTPUTS = frozenset({MISTAKE, "output.nonfinite", "output.form"})
"""Checks that are failed by outputs which are wrong in themselves: other values, not finite, another form."""


def cache_of(rule: Mapping[str, object]) -> Cache | None:
    """What the L2 held before a sample, by a run's stop rule; None where it does not say."""
    if (warm := rule.get("warm")) is not None:  # runs of before there was a third
        return Cache.WARM if warm else Cache.COLD
    return next((cache for cache in Cache if rule.get("cache") == cache), None)


Held: TypeAlias = "Quarantine | Bar"
"""A rung in quarantine: the check that caught it, what was seen, in which run, and when."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Why no figure of a rung may be shown as a speed-up.

    Attributes:
        rung: whose fault it is: the rung's own, the baseline's that it is compared with, or "" the whole run's.
        check, evidence: which check caught it, and what it saw.
        run_id, wall: the run in which it was seen, and when.
        here: seen in the run that is shown; else in an earlier one.
        mistake: it has plain wrong values, and nothing else is held against it.
        wrong: its outputs are wrong, and it is no cheat of the gallery.
    """

    rung: str
    check: str
    evidence: str
    run_id: str = ""
    wall: str = ""
    here: bool = False
    mistake: bool = False
    wrong: bool = False

    @property
    def word(self) -> str:
        """ "caught" in the run that is shown, "quarantined" since an earlier one."""
        return "caught" if self.here else "quarantined"

    @property
    def short(self) -> str:
        """The same of wrong outputs, which are not called cheating: "wrong", and "was wrong"."""
        return self.word if not (self.mistake or self.wrong) else "wrong" if self.here else "was wrong"

    @property
    def of_values(self) -> bool:
        """Whether the check that caught it is failed by plain wrong values, be there nothing else or more."""
        return self.check == MISTAKE

    @property
    def sentence(self) -> str:
        """ "optimized: quarantined by timing.wall_clock: 0.41 ms by events, 9.8 ms by the engine's clock"."""
        return f"{self.rung or 'the run'}: {self.short} by {self.check}: {self.evidence}"

    def as_json(self) -> dict[str, str]:
        """For JSON; the schema is in docs/commands.md."""
        return attributes(self, "rung", "check", "evidence", "run_id", "wall")


def of_quarantine(held: Held) -> Bar:
    """Why the figures of a rung in quarantine are no result."""
    mistake = held.check == MISTAKE and standing.role(held.rung) is not Role.CHEAT
    return Bar(held.rung, held.check, held.evidence, held.run_id, held.wall, mistake=mistake)


@dataclass(slots=True)
class Reading:
    """A run, going on or ended, and what other runs hold against its rungs.

    Attributes:
        quarantined: by rung: caught in another run, as the code that ran here or, while it goes on, as any.
        pace: of one that goes on: what its time is compared with.
    """

    record: Run
    quarantined: Mapping[str, Held] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)

    @property
    def id(self) -> str:
        """The run's id."""
        return self.record.id

    def arm(self, rung: str) -> Arm | None:
        """The rung's part, None where it had none."""
        return self.record.arm(rung)

    @property
    def mode(self) -> str:
        """In which of the two modes it was made."""
        if not self.record.quick:
            return "full run"
        if (replicas := self.replicas) is None:
            return "quick"
        return "quick: one replica" if replicas == 1 else f"quick: {replicas} replicas"

    def elapsed_s(self, now_ns: int) -> float | None:
        """Seconds since it left the queue, or its duration once it has ended; None before."""
        if self.record.duration_ms is not None:
            return self.record.duration_ms / 1e3
        if self.record.start_ns is None or self.record.state.final:
            return None
        return max(0.0, (now_ns - self.record.start_ns) / 1e9)

    def progress(self, now_ns: int) -> Progress:
        """How far it is at this moment of CLOCK_MONOTONIC."""
        return self.pace.progress(self.record, self.elapsed_s(now_ns))

    @property
    def running_step(self) -> Step | None:
        """The newest step that has not ended."""
        return next((step for step in reversed(self.record.steps) if step.duration_ms is None), None)

    @property
    def replicas(self) -> int | None:
        """How many it may take at most; None where its record does not say."""
        replicas = self._rule.get("replicas")
        return replicas if isinstance(replicas, int) else None

    @property
    def method(self) -> int:
        """Version of the way its times were taken (engine.turns.METHODS); 1 where its record does not say."""
        found = self._rule.get("method")
        return found if isinstance(found, int) else 1

    @property
    def cache(self) -> Cache | None:
        """What the L2 held before a sample; None where its record does not say."""
        return cache_of(self._rule)

    @property
    def _rule(self) -> Mapping[str, object]:
        rule = self.record.manifest.get("stop_rule")
        return rule if isinstance(rule, Mapping) else {}

    def found(self, status: FindingStatus) -> list[Finding]:
        """What checks came to this."""
        return [finding for finding in self.record.findings if finding.status is status]

    def doubts(self, rung: str) -> list[Finding]:
        """What is suspect of a rung, and of the run as a whole."""
        return [finding for finding in self.found(FindingStatus.SUSPECT) if finding.arm in (rung, "")]

    @property
    def rungs(self) -> list[str]:
        """Names of the arms in order, the baseline first."""
        return [arm.rung for arm in self.record.arms]

    @property
    def baseline(self) -> str:
        """Name of the first baseline, which verdicts are against; "" while no arm is known."""
        return standing.first_baseline(self.record.arms)

    # -- what may not be shown -----------------------------------------------------------------------------------------

    @property
    def caught(self) -> dict[str, str]:
        """Rungs that were caught in this run, each with the first check that did it and its evidence; "" is the whole
        run."""
        caught: dict[str, str] = {}
        for found in self.record.findings:
            if found.status is FindingStatus.CAUGHT:
                caught.setdefault(found.arm.removesuffix(TWIN_SUFFIX), f"{found.check}: {found.evidence}")
        return caught

    @property
    def mistaken(self) -> frozenset[str]:
        """Rungs that ended with wrong values and that no other check caught. A cheat's are never a mistake."""
        checks = self._checks
        return frozenset(
            arm.rung
            for arm in (self.record.arms if "" not in checks else ())
            if arm.state is State.INCORRECT and checks.get(arm.rung) == {MISTAKE} and arm.role is not Role.CHEAT
        )

    def wrong_outputs(self, rung: str) -> bool:
        """Whether it ended as incorrect and only checks of its outputs caught it."""
        arm, checks = self.arm(rung), self._checks.get(rung, set())
        return arm is not None and arm.state is State.INCORRECT and bool(checks) and checks <= OF_OUTPUTS

    @property
    def _checks(self) -> dict[str, set[str]]:
        """By arm the checks that caught it; by "" those that caught the run."""
        checks: dict[str, set[str]] = {}
        for found in self.record.findings:
            if found.status is FindingStatus.CAUGHT:
                checks.setdefault(found.arm, set()).add(found.check)
        return checks

    def bar(self, rung: str) -> Bar | None:
        """Why this rung's figures are no result: it was caught in this run, or it is in quarantine. The A/A arm is the
        baseline."""
        name = rung.removesuffix(TWIN_SUFFIX)
        for found in self.record.findings:
            if found.status is FindingStatus.CAUGHT and found.arm.removesuffix(TWIN_SUFFIX) in (name, ""):
                mistake, arm = name in self.mistaken, self.arm(name)
                of = name if found.arm or mistake else ""
                wrong = bool(of) and arm is not None and arm.correctness.wrong and arm.role is not Role.CHEAT
                kind = {"here": True, "mistake": mistake, "wrong": wrong}
                return Bar(of, found.check, found.evidence, self.id, self.record.wall, **kind)
        held = self.quarantined.get(name)
        return None if held is None else of_quarantine(held)

    def barred(self, item: Comparison) -> Bar | None:
        """Why a comparison's figures are no result: the rung's fault, or the baseline's."""
        return self.bar(item.rung) or self.bar(item.baseline)

    @property
    def bars(self) -> list[Bar]:
        """Of every rung that has one, in the run's order; one that bars the whole run stands alone."""
        found = [bar for rung in [*self.rungs, ""] if (bar := self.bar(rung)) is not None]
        found = list(dict.fromkeys(found))
        return [bar for bar in found if not bar.rung][:1] or found

    @property
    def hidden(self) -> frozenset[str]:
        """Rungs whose figures are no result."""
        return frozenset(rung for rung in self.rungs if self.bar(rung) is not None)

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons as they may be shown: without figures where one of the two rungs is barred."""
        found = [(item, self.barred(item)) for item in self.record.comparisons]
        return [item if b is None else item.without_figures(f"{b.word}: {b.check}: {b.evidence}") for item, b in found]

    def judged(self, item: Comparison) -> str:
        """Where the two of a comparison were judged; see `outside.judged`."""
        return judged(*(arm for rung in (item.rung, item.baseline) if (arm := self.arm(rung)) is not None))

    # -- cheats of the gallery -----------------------------------------------------------------------------------------

    def missed(self, rung: str) -> bool:
        """Whether a cheat came through with a time that no check took for one."""
        arm = self.arm(rung)
        ended = arm is not None and self.record.state.final and arm.median_ms is not None
        return ended and arm is not None and arm.role is Role.CHEAT and self.bar(rung) is None

    def unjudged(self, rung: str) -> bool:
        """Whether this is a cheat of which the checks have not spoken yet: what it came to is nobody's speed-up."""
        arm = self.arm(rung)
        return arm is not None and arm.role is Role.CHEAT and not self.record.state.final

    # -- what it is about ----------------------------------------------------------------------------------------------

    @property
    def lead(self) -> Arm | None:
        """The arm that the run is about."""
        return standing.lead(self.record.arms, self.record.comparisons, self.hidden)

    @property
    def headline(self) -> Comparison | None:
        """The comparison that the run is told by."""
        return standing.headline(self.record.arms, self.comparisons, self.hidden)

    @property
    def best(self) -> Comparison | None:
        """The comparison that the run's verdict is of."""
        return standing.best(self.record.arms, self.comparisons, self.hidden)

    def comparison(self, rung: str) -> Comparison | None:
        """The rung's comparison with the first baseline, else with another one, as it may be shown."""
        return standing.against(rung, self.record.arms, self.comparisons)

    def why(self, rung: str) -> str:
        """Why a rung has no verdict against the first baseline, or what is remarked of it; "" for nothing."""
        record, item, arm = self.record, self.comparison(rung), self.arm(rung)
        if bar := self.bar(rung) or self.bar(self.baseline):
            return bar.sentence
        if not record.state.final:
            return "the run has not ended"
        if record.state is not State.OK:
            return record.reason
        if item is None:
            return (arm.reason if arm is not None else "") or f"{rung} has no time to compare"
        if record.validity.doubted:
            doubts = "; ".join(f"{found.check}: {found.evidence}" for found in self.doubts(rung))
            rivals = "; ".join(f"{found.arm} by {found.check}" for found in self.found(FindingStatus.SUSPECT))
            why = record.reason or doubts or rivals or "checks were left out"
            return f"{record.validity}: {why}"
        return item.note

    @property
    def not_here(self) -> str:
        """Why no rung besides the baseline could be run here; "" where one was, or where there is none."""
        others = [arm for arm in self.record.arms if arm.rung.removesuffix(TWIN_SUFFIX) != self.baseline]
        lacking = [f"{arm.rung} {arm.reason}" for arm in others if arm.state is State.UNAVAILABLE]
        return "; ".join(lacking) if len(lacking) == len(others) else ""

    @property
    def best_ms(self) -> float | None:
        """The lead's median, None where it has none that may be shown."""
        lead = self.lead
        return None if lead is None or lead.rung in self.hidden else lead.median_ms

    @property
    def speedup(self) -> float | None:
        """The headline's speed-up."""
        return self.headline.speedup if self.headline is not None else None

    @property
    def sol(self) -> float | None:
        """The lead arm's share of the speed of light."""
        return self.lead.sol if self.lead is not None else None

    def unusual_case(self, target: Target | None) -> str:
        """The run's case where that is not the one that its target is usually timed on, which predictions and a suite
        are about; else "", and where nothing is known of the target."""
        if target is None or self.record.case == target.usual_case(self.record.device).name:
            return ""
        return self.record.case
