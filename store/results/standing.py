"""What a run is about, and which run is a target's last result.

A run is about one arm, its lead. Its headline is the lead against the first baseline. The last result of a target is
the last run that says something of it; a newer one that says nothing is told beside it, never instead of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from aisp.kernels.catalog.model import Goal, Role, by_others
from aisp.store.outcomes import TWIN_SUFFIX, Correctness, Fault, FindingStatus, State, Verdict


class Named(Protocol):
    """One arm of a run."""

    @property
    def rung(self) -> str: ...


class Timed(Named, Protocol):
    """An arm with its time in ms, None where it has none."""

    @property
    def median_ms(self) -> float | None: ...


class Weighed(Timed, Protocol):
    """A timed arm with the most memory that one of its calls held, in bytes."""

    @property
    def peak_bytes(self) -> int | None: ...


class Judged(Timed, Protocol):
    """An arm with how it ended and what the verifier found."""

    @property
    def state(self) -> str: ...
    @property
    def correctness(self) -> str: ...


class Compared(Named, Protocol):
    """A rung against a baseline: baseline time / rung time, None where it has none."""

    @property
    def baseline(self) -> str: ...
    @property
    def speedup(self) -> float | None: ...
    @property
    def verdict(self) -> str: ...


class Found(Protocol):
    """What a check found in an arm, or in the run where `arm` is ""."""

    @property
    def arm(self) -> str: ...
    @property
    def status(self) -> str: ...


class Ended(Protocol):
    """A run with its arms, which are a sequence or a mapping by rung."""

    @property
    def state(self) -> str: ...
    @property
    def arms(self) -> Mapping[str, Judged] | Iterable[Judged]: ...


ArmT = TypeVar("ArmT", bound=Timed)
WeighedT = TypeVar("WeighedT", bound=Weighed)
NamedT = TypeVar("NamedT", bound=Named)
ComparedT = TypeVar("ComparedT", bound=Compared)
RunT = TypeVar("RunT", bound=Ended)


# -- what a run is about -----------------------------------------------------------------------------------------------


def role(rung: str) -> Role | None:
    """The role of a rung by its name; None for the A/A arm and for a name of no role."""
    return None if rung.endswith(TWIN_SUFFIX) else Role.of(rung)


def caught(findings: Iterable[Found]) -> frozenset[str]:
    """Rungs that a check caught in a run, so that their figures may not be shown; "" is the whole run. What the A/A arm
    did is its baseline's."""
    return frozenset(f.arm.removesuffix(TWIN_SUFFIX) for f in findings if f.status == FindingStatus.CAUGHT)


def subjects(arms: Iterable[NamedT]) -> list[NamedT]:
    """The arms that a run can be about: the optimized ones; without any those of no role; without any of these the
    baselines and peers. Never the A/A arm, nor what must be refused."""
    own = [(role(arm.rung), arm) for arm in arms if not arm.rung.endswith(TWIN_SUFFIX)]
    for wanted in ((Role.OPTIMIZED,), (None,), (Role.BASELINE, Role.PEER)):
        if found := [arm for its, arm in own if its in wanted]:
            return found
    return []


def first_baseline(arms: Iterable[Named]) -> str:
    """The rung that verdicts are against; "" where no arm is known. It is the first arm of every whole run."""
    names = [arm.rung for arm in arms]
    return next((name for name in names if role(name) is Role.BASELINE), names[0] if names else "")


def lead(arms: Iterable[ArmT], comparisons: Iterable[Compared], hidden: Collection[str] = ()) -> ArmT | None:
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


def against(rung: str, arms: Iterable[Named], comparisons: Iterable[ComparedT]) -> ComparedT | None:
    """The rung's comparison with the first baseline, else its first one with another."""
    own = [item for item in comparisons if item.rung == rung]
    base = first_baseline(arms)
    return next((item for item in own if item.baseline == base), own[0] if own else None)


def headline(arms: Iterable[Timed], comparisons: Iterable[ComparedT], hidden: Collection[str] = ()) -> ComparedT | None:
    """The comparison that a run is told by: its lead's, else the first that has a speed-up, else the first."""
    arms, comparisons = list(arms), list(comparisons)
    leading = lead(arms, comparisons, hidden)
    if leading is not None and (own := against(leading.rung, arms, comparisons)) is not None:
        return own
    others = [item for item in comparisons if not item.rung.endswith(TWIN_SUFFIX)]
    return next((item for item in others if item.speedup is not None), others[0] if others else None)


def best(arms: Iterable[Timed], comparisons: Iterable[ComparedT], hidden: Collection[str] = ()) -> ComparedT | None:
    """The comparison that a run's verdict is of: its lead's with the first baseline, where that is an optimized rung
    with a speed-up; else None."""
    arms, comparisons = list(arms), list(comparisons)
    leading = lead(arms, comparisons, hidden)
    if leading is None or role(leading.rung) is not Role.OPTIMIZED or {leading.rung, ""} & set(hidden):
        return None
    own = against(leading.rung, arms, comparisons)
    return own if own is not None and own.speedup is not None and own.baseline == first_baseline(arms) else None


def shown(of: str, comparisons: Iterable[Compared], hidden: Collection[str]) -> str:
    """A run's verdict as it may be shown: none where a rung that was compared may show no figures."""
    told = [item for item in comparisons if item.speedup is not None or item.verdict != Verdict.NONE]
    masked = {name.removesuffix(TWIN_SUFFIX) for item in told for name in (item.rung, item.baseline)} & set(hidden)
    return Verdict.NONE if masked else of


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


def library(arms: Iterable[ArmT], beside: str) -> ArmT | None:
    """The fastest timed rung of a library, a compiler or a baseline, beside this one; None where there is none."""
    others = [arm for arm in arms if by_others(arm.rung) and arm.rung != beside and arm.median_ms is not None]
    return min(others, key=lambda arm: arm.median_ms or 0.0, default=None)


def verdict(arms: Iterable[Timed], comparisons: Iterable[Compared]) -> Verdict:
    """What a run says as a whole."""
    found = best(arms, comparisons)
    return Verdict.NONE if found is None else Verdict(found.verdict)


# -- which run is the last result --------------------------------------------------------------------------------------


def is_result(run: Ended) -> bool:
    """Whether an ended run says something of its target: it came to an end of its own, by a fault of the target's or
    with an arm that has a verdict on its correctness or a time. Wrong, caught and SUSPECT runs say something."""
    state = State(run.state)
    if not state.final or state.cut_short:
        return False
    return (
        not state.silent
        or state is State.CHANGED
        or any(arm.correctness != Correctness.UNKNOWN or arm.median_ms is not None for arm in _arms(run))
    )


def last(runs: Iterable[RunT]) -> tuple[RunT | None, RunT | None]:
    """The last result, and the newest attempt after it that says nothing; None where there is none.

    Args:
        runs: of one target, oldest first; those that have not ended are passed over.
    """
    result: RunT | None = None
    attempt: RunT | None = None
    for run in runs:
        if is_result(run):
            result, attempt = run, None
        elif State(run.state).final:
            attempt = run
    return result, attempt


def tells(arm: Judged | None) -> bool:
    """Whether a run's part says how its rung stands here: a time, or an end of its own."""
    if arm is None:
        return False
    state = State(arm.state)
    return arm.median_ms is not None or (state.final and state.fault not in (Fault.PERSON, Fault.ENGINE))


def _arms(run: Ended) -> Iterable[Judged]:
    return run.arms.values() if isinstance(run.arms, Mapping) else run.arms
