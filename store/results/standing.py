"""What a run is about, and which run is a target's last result.

A run is about one arm, its lead. Its headline is the lead against the first baseline. The last result of a target is
the last run that says something of it; a newer one that says nothing is told beside it, never instead of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from aisp.kernels.catalog.model import Goal, Role, by_others, opposes
from aisp.store.outcomes import TWIN_SUFFIX, Correctness, Fault, FindingStatus, State, Verdict

if TYPE_CHECKING:
    from aisp.store.record import Arm, Comparison, Finding, Run


class Weighed(Protocol):
    """An arm with its time in ms and the most memory that one of its calls held, in bytes; None where it has none."""

    @property
    def rung(self) -> str: ...
    @property
    def median_ms(self) -> float | None: ...
    @property
    def peak_bytes(self) -> int | None: ...


WeighedT = TypeVar("WeighedT", bound=Weighed)


# -- what a run is about -----------------------------------------------------------------------------------------------


def role(rung: str) -> Role | None:
    """The role of a rung by its name; None for the A/A arm and for a name of no role."""
    return None if rung.endswith(TWIN_SUFFIX) else Role.of(rung)


def caught(findings: Iterable[Finding]) -> frozenset[str]:
    """Rungs that a check caught in a run, so that their figures may not be shown; "" is the whole run. What the A/A arm
    did is its baseline's."""
    return frozenset(f.arm.removesuffix(TWIN_SUFFIX) for f in findings if f.status == FindingStatus.CAUGHT)


def subjects(arms: Iterable[Arm]) -> list[Arm]:
    """The arms that a run can be about: the optimized ones; without any those of no role; without any of these the
    baselines and peers. Never the A/A arm, nor what must be refused."""
    own = [(role(arm.rung), arm) for arm in arms if not arm.rung.endswith(TWIN_SUFFIX)]
    for wanted in ((Role.OPTIMIZED,), (None,), (Role.BASELINE, Role.PEER)):
        if found := [arm for its, arm in own if its in wanted]:
            return found
    return []


def first_baseline(arms: Iterable[Arm]) -> str:
    """The rung that verdicts are against; "" where no arm is known. It is the first arm of every whole run."""
    names = [arm.rung for arm in arms]
    return next((name for name in names if role(name) is Role.BASELINE), names[0] if names else "")


def lead(arms: Iterable[Arm], comparisons: Iterable[Comparison], hidden: Collection[str] = ()) -> Arm | None:
    """The arm that a run is about: of those whose figures may be shown the one with the greatest speed-up over the
    first baseline; where none was compared, the one with the least median; the first of equals, and of those without a
    figure.

    Args:
        arms: in the run's order.
        hidden: rungs whose figures may not be shown; "" is all of them.
    """
    arms = list(arms)
    barred = set(hidden)
    base = first_baseline(arms)
    ratios = {
        item.rung: item.speedup
        for item in comparisons
        if item.baseline == base and item.speedup is not None and not {item.rung, base} & barred
    }
    candidates = subjects(arms)
    shown = [] if "" in barred else [arm for arm in candidates if arm.rung not in barred]
    if compared := [arm for arm in shown if arm.rung in ratios]:
        return max(compared, key=lambda arm: ratios[arm.rung])
    if timed := [(arm.median_ms, arm) for arm in shown if arm.median_ms is not None]:
        return min(timed, key=lambda pair: pair[0])[1]
    return next(iter(shown or candidates), None)


def against(rung: str, arms: Iterable[Arm], comparisons: Iterable[Comparison]) -> Comparison | None:
    """The rung's comparison with the first baseline, else its first one with another."""
    own = [item for item in comparisons if item.rung == rung]
    base = first_baseline(arms)
    return next((item for item in own if item.baseline == base), own[0] if own else None)


def headline(arms: Iterable[Arm], comparisons: Iterable[Comparison], hidden: Collection[str] = ()) -> Comparison | None:
    """The comparison that a run is told by: its lead's, else the first that has a speed-up, else the first."""
    arms, comparisons = list(arms), list(comparisons)
    leading = lead(arms, comparisons, hidden)
    if leading is not None and (own := against(leading.rung, arms, comparisons)) is not None:
        return own
    others = [item for item in comparisons if not item.rung.endswith(TWIN_SUFFIX)]
    return next((item for item in others if item.speedup is not None), others[0] if others else None)


def best(arms: Iterable[Arm], comparisons: Iterable[Comparison], hidden: Collection[str] = ()) -> Comparison | None:
    """The comparison that a run's verdict is of: its lead's with the first baseline, where that is an optimized rung
    with a speed-up; else None."""
    arms, comparisons = list(arms), list(comparisons)
    leading = lead(arms, comparisons, hidden)
    if leading is None or role(leading.rung) is not Role.OPTIMIZED or {leading.rung, ""} & set(hidden):
        return None
    own = against(leading.rung, arms, comparisons)
    return own if own is not None and own.speedup is not None and own.baseline == first_baseline(arms) else None


def own(arms: Iterable[WeighedT], goal: Goal, best: str | None) -> WeighedT | None:
    """The timed rung that the lesson made itself and is about: of the optimized ones that are neither a compiler's nor
    a library's the leanest where memory is the lesson, `optimized` where nothing is to be gained, else the fastest.

    Args:
        best: the rung that speaks where there is none of its own.
    """
    timed = {arm.rung: arm for arm in arms if arm.median_ms is not None}
    made = [arm for name, arm in timed.items() if role(name) is Role.OPTIMIZED and not by_others(name)]
    if goal is Goal.NULL and Role.OPTIMIZED.value in timed:
        return timed[Role.OPTIMIZED.value]
    if goal is Goal.MEMORY and (lean := [arm for arm in made if arm.peak_bytes]):
        return min(lean, key=lambda arm: arm.peak_bytes or 0)
    return min(made, key=lambda arm: arm.median_ms or 0.0, default=timed.get(best or ""))


def opponent(arms: Iterable[WeighedT], beside: str) -> WeighedT | None:
    """The fastest timed rung beside this one that others made, be it a baseline; None where baselines alone were timed,
    which nobody need beat."""
    others = [arm for arm in arms if by_others(arm.rung) and arm.rung != beside and arm.median_ms is not None]
    present = any(opposes(arm.rung) for arm in others)
    return min(others, key=lambda arm: arm.median_ms or 0.0) if present else None


def verdict(arms: Iterable[Arm], comparisons: Iterable[Comparison]) -> Verdict:
    """What a run says as a whole."""
    found = best(arms, comparisons)
    return Verdict.NONE if found is None else Verdict(found.verdict)


# -- which run is the last result --------------------------------------------------------------------------------------


def is_result(run: Run) -> bool:
    """Whether an ended run says something of its target: it came to an end of its own, by a fault of the target's or
    with an arm that has a verdict on its correctness or a time. Wrong, caught and SUSPECT runs say something."""
    state = State(run.state)
    if not state.final or state.cut_short:
        return False
    known = any(arm.correctness != Correctness.UNKNOWN or arm.median_ms is not None for arm in run.arms)
    return known or not state.silent or state is State.CHANGED


def last(runs: Iterable[Run]) -> tuple[Run | None, Run | None]:
    """The last result, and the newest attempt after it that says nothing; None where there is none.

    Args:
        runs: of one target, oldest first; those that have not ended are passed over.
    """
    result: Run | None = None
    attempt: Run | None = None
    for run in runs:
        if is_result(run):
            result, attempt = run, None
        elif State(run.state).final:
            attempt = run
    return result, attempt


def tells(arm: Arm | None) -> bool:
    """Whether a run's part says how its rung stands here: a time, or an end of its own."""
    if arm is None:
        return False
    state = State(arm.state)
    return arm.median_ms is not None or (state.final and state.fault not in (Fault.PERSON, Fault.ENGINE))
