"""Whether a lesson's prediction came true, and which run says so.

A prediction names the hardware it is for. It is met when the measured speed-up of the arm it speaks of lies in the
predicted range, and where memory is the lesson also the peak memory that it saves. A run on other hardware answers
nothing, and neither does one of some of the rungs that the prediction speaks of, one that is not to be believed, one
with the policy `portable`, or one of a target with a rung in quarantine.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisp.kernels.catalog.model import Expectation, Goal, Role, Target
from aisp.store.outcomes import TWIN_SUFFIX, State, Validity, Verdict
from aisp.store.results import hardware
from aisp.store.results.standing import best, caught, first_baseline, role

if TYPE_CHECKING:
    from aisp.store.record import Arm, Comparison, Run

LOOK_BACK_RUNS = 200
"""How many of a target's runs are looked through."""
PORTABLE = "portable"
"""The policy under which an environment that is not fit for measuring warns only."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run says to a prediction: an arm, its speed-up over the first baseline, and the baseline's peak memory
    over the arm's. None is unknown."""

    rung: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    memory: float | None = None
    verdict: str = Verdict.NONE

    def meets(self, expect: Expectation) -> bool | None:
        """Whether everything that was predicted lies in its range; None where something was not measured."""
        pairs = [(self.speedup, expect.speedup)] + ([(self.memory, expect.memory)] if expect.memory else [])
        if any(value is None for value, _ in pairs):
            return None
        return all(low <= (value or 0.0) <= high for value, (low, high) in pairs)


def measured(
    arms: Iterable[Arm], comparisons: Iterable[Comparison], goal: Goal, hidden: Collection[str] = ()
) -> Measured:
    """What a run says to a prediction with this goal.

    The prediction speaks of the leanest optimized arm where memory is the goal, of `optimized` itself where nothing is
    to be gained (others may be faster by other means), of the fastest that is not refused where the goal is a refusal,
    else of the arm that leads.
    """
    arms, comparisons = list(arms), list(comparisons)
    base = first_baseline(arms)
    ratios = {item.rung: item for item in comparisons if item.baseline == base}
    shown = [] if "" in hidden else [arm for arm in arms if arm.rung not in hidden]
    peaks = {arm.rung: arm.peak_bytes for arm in shown if arm.peak_bytes}
    found = best(arms, comparisons, hidden)
    if goal is Goal.MEMORY:
        lean = [rung for rung in peaks if role(rung) is Role.OPTIMIZED]
        found = ratios.get(min(lean, key=lambda rung: peaks[rung])) if lean else found
    elif goal is Goal.NULL:
        found = ratios.get(Role.OPTIMIZED.value, found)
    elif goal is Goal.REFUSAL:
        honest = [c for c in ratios.values() if c.speedup is not None and not c.rung.endswith(TWIN_SUFFIX)]
        found = max(honest, key=lambda c: c.speedup or 0.0, default=found)
    if found is None:
        return Measured()
    memory = peaks[base] / peaks[found.rung] if {base, found.rung} <= peaks.keys() else None
    return Measured(found.rung, found.speedup, found.low, found.high, memory, found.verdict)


class Says(enum.Enum):
    """What is known of a prediction."""

    MET = enum.auto()
    MISSED = enum.auto()
    UNMEASURED = enum.auto()  # the speed-up was measured and the memory was not
    NOTHING = enum.auto()  # no run of the usual case has a speed-up
    ELSEWHERE = enum.auto()  # on other hardware
    PORTABLE = enum.auto()
    SOME_RUNGS = enum.auto()  # those that were not measured may be what it speaks of
    DOUBTED = enum.auto()  # its times are not valid
    QUARANTINED = enum.auto()


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of a target's prediction, and the run that says it.

    Attributes:
        on: the hardware of the run, "" without one.
    """

    says: Says = Says.NOTHING
    run: Run | None = None
    measured: Measured = Measured()
    on: str = ""

    @property
    def met(self) -> bool | None:
        """Whether it came true; None where no run can say."""
        return {Says.MET: True, Says.MISSED: False}.get(self.says)


def answer(
    runs: Iterable[Run],
    target: Target,
    facts: Callable[[Run], Mapping[str, object]],
    *,
    quarantined: bool,
    whole: bool = True,
) -> Answer:
    """The newest timed run of the usual case on the hardware of the prediction answers it. Where there is none the
    newest that cannot: on other hardware, of some rungs only, or a portable one.

    Args:
        runs: of the target, newest first; no more are taken than are needed.
        target: one that predicts something.
        facts: the environment record of a run.
        quarantined: whether a rung of the target is in quarantine today.
        whole: whether a run must have every rung that the prediction speaks of.
    """
    assert target.expect is not None
    other: Answer | None = None
    for run in runs:
        if run.state is not State.OK or run.case != target.usual_case(run.device).name:
            continue
        found = measured(run.arms, run.comparisons, target.goal, caught(run.findings))
        if found.speedup is None:
            continue
        known = facts(run)
        called: Sequence[str] = hardware.names(run.device, known, on_host=target.on_host)
        meant = hardware.is_meant(target.expect.on, called)
        says = Says.QUARANTINED if quarantined else Says.ELSEWHERE if not meant else Says.PORTABLE
        if meant and run.policy != PORTABLE:
            says = _says(run, found, target.expect, quarantined=quarantined)
            if not whole or says in (Says.QUARANTINED, Says.DOUBTED) or _has_all(run, target):
                return Answer(says, run, found, hardware.ran_on(run.device, known))
            says = Says.SOME_RUNGS
        other = other or Answer(says, run, found, hardware.ran_on(run.device, known))
    return other or Answer(Says.QUARANTINED if quarantined else Says.NOTHING)


def _has_all(run: Run, target: Target) -> bool:
    """Whether a run has every rung that the target's prediction may speak of, be it only to say that it cannot run."""
    those = [rung for rung in target.rungs if rung.role is Role.OPTIMIZED]
    if target.goal is Goal.NULL:
        those = [rung for rung in those if rung.name == Role.OPTIMIZED.value] or those
    there = {arm.rung for arm in run.arms}
    return all(rung.name in there or rung.formerly in there for rung in those)


def _says(run: Run, found: Measured, expect: Expectation, *, quarantined: bool) -> Says:
    if quarantined:
        return Says.QUARANTINED
    if run.validity is not Validity.VALID:
        return Says.DOUBTED
    met = found.meets(expect)
    return Says.UNMEASURED if met is None else Says.MET if met else Says.MISSED
