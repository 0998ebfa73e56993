"""What rungs are expected to come to on a GPU, made of runs and held against later ones: "is it still so?".

Which run answers is the rule of predictions (store.results.prediction): the newest timed run of the usual case on that
hardware; one that is not valid, has the policy `portable`, or is of a target with a rung in quarantine answers nothing.

**A range** of a figure goes from the lowest low end to the highest high end of its 95 % intervals over the sittings,
and on either side further by the larger of two shares: the noise floor (`EQUIVALENCE` where it is not known), and the
spread over the sittings, their largest median over their smallest less one. One sitting has no spread: `ONE_SITTING`
stands for it, `ONE_SITTING_OF_HOST` where the host's time is in the figure. A sitting is one day on one machine; its
newest run counts. Earlier sittings count where driver, versions, the rung's own file and the timing are the newest's.

**A portable range**, of a speed-up on any GPU, is that of all hardware together, with each end's logarithm halved
towards 1 and doubled away from it: a gain of 1.8x may be 1.3x to 3.2x elsewhere, and no loss. A limiter holds elsewhere
where all hardware agrees on it, but for `host`, which is no GPU's. One group of rungs comes before another where every
member's interval is clear of every other's, by the floor and by `ORDER_MARGIN`, on all hardware.

**A figure is met** where it lies in its range, missed where its whole interval lies outside, else undecided. Below is
worse: less speed-up, more time.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from aisp.kernels.catalog.expected import Agreed, AgreedRung, AgreedTarget, Range, Scope
from aisp.kernels.catalog.model import Expectation, Goal, Role
from aisp.store.outcomes import Limiter, State, Validity, Verdict
from aisp.store.results import hardware, prediction
from aisp.store.results.comparison import EQUIVALENCE, Difference
from aisp.store.results.numbers import number
from aisp.store.results.prediction import Measured, Says
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Arm, Run
    from aisp.store.results.reading import Reading

ONE_SITTING = 0.05
"""What stands for the spread over sittings where there was one, as a ratio - 1: those of one machine differ by 1 to 3 %
(docs/measurement.md), and another of its model by more."""
ONE_SITTING_OF_HOST = 1 / 3
"""The same where the host's time is in the figure: machines of one kind, and one machine on two days, differ by up to a
third (docs/speed.md)."""
SITTINGS = 5
"""How many of the newest sittings count."""
PORTABLE_POWER = 2
"""How far a speed-up may lie from 1 on another GPU, as a power of it and as one over that power."""
ORDER_MARGIN = 0.1
"""By how much more than the floor one rung must be faster for that to hold on any GPU, as a ratio - 1."""
DIGITS = 4
"""Digits of a range's ends, rounded outwards: figures that hardly move leave it as it is."""
PACKAGES = ("torch", "triton", "cuda")
METHOD = "method"
"""Of the way times were taken (Reading.method), among the versions; what names none has 1."""
GAINS = frozenset({Goal.SPEED, Goal.LATENCY})
"""Goals whose lessons must gain time; of memory, of nothing and of a refusal others are about something else."""


class Met(enum.StrEnum):
    """What a run says to what was agreed to."""

    MET = "met"
    BELOW = "missed below"
    ABOVE = "missed above"
    OTHER = "another"  # of what has no direction: limiter, order, share of light where the time is as agreed
    UNDECIDED = "undecided"  # outside of the range, with an interval that reaches into it
    UNMEASURED = "unmeasured"
    APART = "not comparable"  # measured by another timing method than it was agreed to by
    NOTHING = "not run"  # no run of the usual case has a speed-up
    ELSEWHERE = "on other hardware"
    PORTABLE = "portable"
    DOUBTED = "doubted"
    QUARANTINED = "quarantined"

    @property
    def missed(self) -> bool:
        """Whether it is not as it was agreed to be."""
        return self in (Met.BELOW, Met.ABOVE, Met.OTHER)


_SILENT: Mapping[Says, Met] = {
    says: Met[says.name] for says in (Says.NOTHING, Says.ELSEWHERE, Says.PORTABLE, Says.DOUBTED, Says.QUARANTINED)
}
_GRAVEST_FIRST = (Met.BELOW, Met.ABOVE, Met.OTHER, Met.UNDECIDED, Met.MET, Met.UNMEASURED)


# -- what was seen -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """One rung's figures in one run. None is unknown; `sol` and `limiter` are of measured ceilings, else unknown.

    Attributes:
        floor: the run's noise floor, as a ratio - 1.
        sources: sha256 of the rung's own file, "" where it was not kept.
    """

    rung: str
    timing: str = ""
    ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    sol: float | None = None
    limiter: str = ""
    floor: float | None = None
    sources: str = ""
    verdict: str = Verdict.NONE

    @property
    def of_host(self) -> bool:
        """Whether the host's time is in its own."""
        return "host" in self.timing or self.limiter == Limiter.HOST


@dataclass(frozen=True, slots=True)
class Sighting:
    """A run as far as expectations speak of it.

    Attributes:
        on: the hardware's whole name.
        host: the machine; "" where it is not known.
        best: what a prediction is held against.
        rungs: by name as it is today, in the run's order, the first baseline first.
    """

    run_id: str
    wall: str
    case: str
    on: str
    policy: str
    best: Measured
    rungs: Mapping[str, Seen]
    host: str = ""
    driver: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    quick: bool = False
    state: str = State.OK
    validity: str = Validity.VALID


@dataclass(frozen=True, slots=True)
class Answered:
    """The run that answers for a target, MET where it may; else why none does, and the newest that cannot."""

    met: Met = Met.NOTHING
    seen: Sighting | None = None


def packages(facts: Mapping[str, object], method: int = 1) -> dict[str, str]:
    """The driver and the versions that figures depend on, of an environment record and the timing method (the first is
    not named), by name; what is not known is not there."""
    given = facts.get("versions")
    known = {**(given if isinstance(given, Mapping) else {}), "driver": facts.get("driver"), "cuda": facts.get("cuda")}
    found = {key: clean_line(str(known[key])) for key in (*PACKAGES, "driver") if known.get(key)}
    return found if method == 1 else found | {METHOD: str(method)}


def today(target: Target) -> dict[str, str]:
    """Names of rungs of before, each with the one it has today."""
    return {rung.formerly: rung.name for rung in target.rungs if rung.formerly}


def of_run(run: Reading, facts: Mapping[str, object], target: Target) -> Sighting:
    """A stored run."""
    names = today(target)
    seen = {}
    for arm in run.record.arms:
        if not arm.twin and run.bar(arm.rung) is None:
            name = names.get(arm.rung, arm.rung)
            seen[name] = _seen(run, arm, name)
    best = prediction.measured(run.record.arms, run.comparisons, target.goal, run.hidden)
    versions = packages(facts, run.method)
    called = hardware.names(run.record.device, facts, on_host=target.on_host)
    return Sighting(
        run.id,
        run.record.wall,
        run.record.case,
        clean_line(called[0]),
        run.record.policy,
        replace(best, rung=names.get(best.rung, best.rung)),
        seen,
        host=clean_line(str(facts.get("host") or "")),
        driver=versions.pop("driver", ""),
        versions=versions,
        quick=run.record.quick,
        state=run.record.state,
        validity=run.record.validity,
    )


def _seen(run: Reading, arm: Arm, name: str) -> Seen:
    against = run.comparison(arm.rung)
    if against is not None and against.baseline != run.baseline:
        against = None
    ratio = (None, None, None) if against is None else (against.speedup, against.low, against.high)
    light = arm.light if arm.light is not None and arm.light.measured_ms is not None else None
    floor = max((item.floor for item in run.comparisons if item.floor is not None), default=None)
    sol, limiter = (None, "") if light is None else (arm.sol, light.limiter or "")
    times = (arm.median_ms, arm.low_ms, arm.high_ms)
    verdict = Verdict.NONE if against is None else against.verdict
    return Seen(name, arm.timing, *times, *ratio, sol, limiter, floor, arm.sources, verdict)


def answering(
    runs: Iterable[Run],
    target: Target,
    meant: str,
    read: Callable[[Run], Reading],
    facts: Callable[[Run], Mapping[str, object]],
    *,
    quarantined: bool,
) -> Answered:
    """The stored run that says what the target's rungs come to on the hardware that is meant.

    Args:
        runs: of the target, newest first.
        meant: as in a prediction: "H100".
        read: a run as it may be shown.
        facts: the environment record of a run.
        quarantined: whether a rung of the target is in quarantine today.
    """
    asked = replace(target, expect=Expectation((1.0, 1.0), meant, ""))
    found = prediction.answer(runs, asked, facts, quarantined=quarantined, whole=False)
    seen = None if found.run is None else of_run(read(found.run), facts(found.run), target)
    return Answered(_SILENT.get(found.says, Met.MET), seen)


def kept(seen: Sighting, *, accept_portable: bool) -> Answered:
    """What a run of a kept document says, by the rule of stored runs: valid, and with the policy `portable` only where
    that is accepted."""
    if seen.validity != Validity.VALID:
        return Answered(Met.DOUBTED, seen)
    return Answered(Met.PORTABLE if seen.policy == prediction.PORTABLE and not accept_portable else Met.MET, seen)


def counts(run: Run, target: Target, *, accept_portable: bool) -> bool:
    """Whether ranges may be made of a run: a full one of the usual case, which ended well, with valid times, and with
    the policy `portable` only where that is accepted."""
    usual = not run.quick and run.case == target.usual_case(run.device).name
    sound = run.state is State.OK and run.validity is Validity.VALID
    return usual and sound and (accept_portable or run.policy != prediction.PORTABLE)


# -- ranges out of runs ------------------------------------------------------------------------------------------------


def sittings(seen: Iterable[Sighting]) -> list[Sighting]:
    """One run of each of the newest sittings that can be put together, the newest first.

    Args:
        seen: runs of one target on one kind of hardware that count, newest first.
    """
    found: dict[tuple[str, str], Sighting] = {}
    for one in seen:
        first = next(iter(found.values()), one)
        if (one.case, one.driver, one.versions) == (first.case, first.driver, first.versions):
            found.setdefault((one.host, one.wall[:10]), one)
    return list(found.values())[:SITTINGS]


def strict(seen: Sequence[Sighting]) -> AgreedTarget:
    """What a target's rungs come to on this hardware.

    Args:
        seen: at least one; of several sittings, the newest first.
    """
    newest = seen[0]
    rungs = {}
    for name, now in newest.rungs.items():
        same = _same(seen, now)
        times = _range([(one.ms, one.low_ms, one.high_ms) for one in same], same)
        light = _range([_light(one) for one in same], same)
        doubt = now.verdict == Verdict.UNDECIDED
        rungs[name] = AgreedRung(_speedup(same, newest), times, light, now.limiter, now.timing, doubt)
    timed = {name: rung for name, rung in rungs.items() if rung.ms is not None}
    return _target(seen, timed)


def portable(seen: Sequence[Sequence[Sighting]]) -> AgreedTarget:
    """What holds of a target's rungs on any GPU.

    Args:
        seen: by kind of hardware, the newest first; of each at least one, of several sittings, the newest first.
    """
    rungs = {}
    for name in seen[0][0].rungs:
        every = [(known[0].rungs.get(name), known) for known in seen]
        ranges = [_speedup(_same(known, now), known[0]) for now, known in every if now is not None]
        ratios = [ends for ends in ranges if ends is not None]
        limiters = {now.limiter for now, _ in every if now is not None}
        limiter = next(iter(limiters)) if len(limiters) == 1 else ""
        rungs[name] = AgreedRung(_elsewhere(ratios), limiter="" if limiter == Limiter.HOST else limiter)
    told = {name: rung for name, rung in rungs.items() if rung.speedup is not None or rung.limiter}
    flat = [one for known in seen for one in known]
    return replace(_target(flat, told), on=tuple(known[0].on for known in seen), order=_order(flat))


def _target(seen: Sequence[Sighting], rungs: Mapping[str, AgreedRung]) -> AgreedTarget:
    newest = seen[0]
    runs = tuple(one.run_id for one in seen)
    return AgreedTarget(newest.case, rungs, runs, newest.wall, driver=newest.driver, versions=newest.versions)


def _same(seen: Sequence[Sighting], now: Seen) -> list[Seen]:
    """The rung in each sitting in which its file and its timing were these."""
    known = [found for one in seen if (found := one.rungs.get(now.rung)) is not None]
    return [found for found in known if (found.sources, found.timing) == (now.sources, now.timing)]


def _speedup(same: Sequence[Seen], newest: Sighting) -> Range | None:
    base = [*newest.rungs.values()][:1]
    return _range([(one.speedup, one.low, one.high) for one in same], same, of_host=any(one.of_host for one in base))


def _light(one: Seen) -> tuple[float | None, float | None, float | None]:
    """The share of light with the interval that the time's makes."""
    if one.sol is None or not one.ms or not one.low_ms or not one.high_ms:
        return one.sol, None, None
    return one.sol, one.sol * one.ms / one.high_ms, one.sol * one.ms / one.low_ms


Figure = tuple[float | None, float | None, float | None]
"""A figure with the ends of its interval."""


def _range(figures: Sequence[Figure], same: Sequence[Seen], *, of_host: bool = False) -> Range | None:
    """The range of a figure by the module's rule; None where no sitting has it."""
    triples = [(value, low or value, high or value) for value, low, high in figures if value]
    known = [three for three in triples if all(0 < end < math.inf for end in three)]
    if not known:
        return None
    floors = [EQUIVALENCE if one.floor is None else one.floor for one in same]
    values = [value for value, _, _ in known]
    alone = ONE_SITTING_OF_HOST if of_host or any(one.of_host for one in same) else ONE_SITTING
    spread = max(values) / min(values) - 1 if len(values) > 1 else alone
    wider = 1 + max(*floors, spread)
    return _outwards(min(low for _, low, _ in known) / wider, max(high for _, _, high in known) * wider)


def _elsewhere(ranges: Sequence[Range]) -> Range | None:
    """The range of a speed-up on any GPU by the module's rule."""
    if not ranges:
        return None
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    less, more = 1 / PORTABLE_POWER, float(PORTABLE_POWER)
    return _outwards(low ** (less if low > 1 else more), high ** (more if high > 1 else less))


def _outwards(low: float, high: float) -> Range:
    return _rounded(low, math.floor), _rounded(high, math.ceil)


def _rounded(value: float, how: Callable[[float], int]) -> float:
    scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(value)))
    return float(f"{how(value * scale) / scale:.{DIGITS}g}")


def _order(seen: Sequence[Sighting]) -> tuple[tuple[str, ...], ...]:
    """Groups of rungs, the fastest first, that keep this order in every run; () where nothing of it holds in all."""
    timed = {name: one.ms for name, one in seen[0].rungs.items() if one.ms}
    names = sorted(timed, key=lambda name: timed[name])
    clear = [
        all(_clear(one, fast, slow, ORDER_MARGIN) for one in seen for fast in names[:cut] for slow in names[cut:])
        for cut in range(1, len(names))
    ]
    ends = [place for place, holds in enumerate(clear, start=1) if holds]
    if not ends:
        return ()
    return tuple(tuple(names[start:end]) for start, end in zip([0, *ends], [*ends, len(names)], strict=True))


def _clear(one: Sighting, fast: str, slow: str, margin: float) -> bool:
    """Whether a rung is faster than another in a run, by their intervals, beyond the floor and the margin. One that was
    not timed there says nothing against it."""
    quick, late = one.rungs.get(fast), one.rungs.get(slow)
    if quick is None or late is None or not quick.ms or not late.ms:
        return True
    floor = max(EQUIVALENCE if part.floor is None else part.floor for part in (quick, late))
    return (late.low_ms or late.ms) > (quick.high_ms or quick.ms) * (1 + max(floor, margin))


# -- shown in the place of results -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shipped:
    """What a target's collection says that its rungs came to on other hardware.

    Attributes:
        on: the hardware's whole name.
        wall: when the newest run that it is of was planned.
        rungs: by name as it is today.
        lead: the optimized rung with the greatest speed-up; "" where none has one.
    """

    on: str
    wall: str
    rungs: Mapping[str, AgreedRung]
    lead: str

    def speedup(self, rung: str) -> str:
        """The middle of the range of a rung's speed-up, "? 4.4x" where it may be chance; "" where nothing was agreed
        to."""
        agreed = self.rungs.get(rung, AgreedRung())
        middle = _middle(agreed.speedup)
        return "" if middle is None else f"{'? ' * agreed.undecided}{number(middle, 2)}x"

    def ms(self, rung: str) -> float | None:
        """The same of its time."""
        return _middle(self.rungs.get(rung, AgreedRung()).ms)


def _middle(ends: Range | None) -> float | None:
    return None if ends is None else math.sqrt(ends[0] * ends[1])


def shipped(targets: Iterable[Target], agreed: Iterable[Agreed]) -> dict[str, Shipped]:
    """By target, what the strict files say of it; of several GPUs the newest run's."""
    found: dict[str, Shipped] = {}
    files = [one for one in agreed if one.scope is Scope.STRICT]
    for target in targets:
        said = [one for one in files if target.id in one.targets and one.path.parent.parent == target.root]
        if said:
            file = max(said, key=lambda one: one.targets[target.id].wall)
            newest, names = file.targets[target.id], today(target)
            rungs = {names.get(name, name): rung for name, rung in newest.rungs.items()}
            middles = {
                rung.name: _middle(rungs[rung.name].speedup) or 0.0
                for rung in target.rungs
                if rung.role is Role.OPTIMIZED and rung.name in rungs and rungs[rung.name].speedup
            }
            lead = max(middles, key=lambda name: middles[name], default="")
            found[target.id] = Shipped(clean_line(file.hardware), newest.wall, rungs, lead)
    return found


# -- held against them -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One figure of a rung beside what was agreed to: "speedup", "ms", "sol" with a range, or "limiter"."""

    what: str
    agreed: Range | str
    measured: float | str | None
    low: float | None
    high: float | None
    met: Met


@dataclass(frozen=True, slots=True)
class HeldRung:
    """A rung beside what was agreed to; `note` says why a figure of it is not measured."""

    rung: str
    met: Met
    parts: tuple[Part, ...] = ()
    note: str = ""

    @property
    def apart(self) -> list[Part]:
        """Figures that are not as agreed to."""
        return [part for part in self.parts if part.met not in (Met.MET, Met.UNMEASURED)]


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the rungs beside what was agreed to; `broken` are pairs that stand the other way round, the one that
    was to be faster first."""

    agreed: tuple[tuple[str, ...], ...]
    measured: tuple[str, ...]
    broken: tuple[tuple[str, str], ...]
    met: Met


@dataclass(frozen=True, slots=True)
class HeldTarget:
    """A target beside what was agreed to.

    Attributes:
        met: the gravest of its rungs and its order; where no run answers, why.
        differs: driver and versions that are others than they were: the cause to look at first.
    """

    target: str
    scope: Scope
    agreed: AgreedTarget
    seen: Sighting | None
    met: Met
    rungs: tuple[HeldRung, ...] = ()
    order: Order | None = None
    differs: tuple[Difference, ...] = ()


def hold(target: Target, scope: Scope, agreed: AgreedTarget, answered: Answered) -> HeldTarget:
    """Hold the run that answers for a target against what was agreed to."""
    seen = answered.seen

    def silent(met: Met, note: str = "") -> HeldTarget:
        rungs = tuple(HeldRung(rung, met, note=note) for rung in agreed.rungs)
        return HeldTarget(target.id, scope, agreed, seen, met, rungs)

    if answered.met is not Met.MET or seen is None:
        return silent(answered.met)
    if seen.case != agreed.case:
        return silent(Met.UNMEASURED, f"agreed to of the case {agreed.case}, and the usual one is {seen.case}")
    then, now = (one.versions.get(METHOD, "1") for one in (agreed, seen))
    if then != now:
        return silent(Met.APART, f"agreed to by timing method {then}, and measured by {now}")
    names = today(target)
    held = tuple(
        _rung(names.get(name, name), said, seen.rungs.get(names.get(name, name))) for name, said in agreed.rungs.items()
    )
    groups = tuple(tuple(names.get(rung, rung) for rung in group) for group in agreed.order)
    order = _hold_order(groups, seen) if groups else None
    met = _gravest([*(rung.met for rung in held), *([order.met] if order else [])])
    return HeldTarget(target.id, scope, agreed, seen, met, held, order, differing(agreed, seen))


def differing(agreed: AgreedTarget, seen: Sighting) -> tuple[Difference, ...]:
    """The driver and the versions that are others than the ones agreed to were measured with."""
    then, now = ({**one.versions, "driver": one.driver} for one in (agreed, seen))
    changed = [(key, was, now.get(key) or None) for key, was in then.items() if was and was != now.get(key)]
    return tuple(Difference(*change, refuses=False) for change in changed)


def _rung(name: str, said: AgreedRung, seen: Seen | None) -> HeldRung:
    if seen is None or seen.ms is None:
        return HeldRung(name, Met.UNMEASURED, note="not timed in this run")
    parts = []
    same = not said.timing or said.timing == seen.timing
    if said.speedup:
        parts.append(_figure("speedup", said.speedup, (seen.speedup, seen.low, seen.high), more=True))
    if said.ms and same:
        parts.append(_figure("ms", said.ms, (seen.ms, seen.low_ms, seen.high_ms), more=False))
    if said.sol and same:
        light = _figure("sol", said.sol, _light(seen), more=True)
        parts.append(replace(light, met=Met.OTHER) if light.met.missed else light)
    if said.limiter:
        known = Met.UNMEASURED if not seen.limiter else Met.MET if seen.limiter == said.limiter else Met.OTHER
        parts.append(Part("limiter", said.limiter, seen.limiter or None, None, None, known))
    note = "" if same else f"timed as {seen.timing}, and as {said.timing} when it was agreed to"
    return HeldRung(name, _gravest([part.met for part in parts]), tuple(parts), note)


def _figure(what: str, agreed: Range, figure: Figure, *, more: bool) -> Part:
    """One figure beside its range. `more`: more of it is better."""
    value, low, high = figure
    if value is None:
        return Part(what, agreed, None, None, None, Met.UNMEASURED)
    least, most = low or value, high or value
    if agreed[0] <= value <= agreed[1]:
        met = Met.MET
    elif least <= agreed[1] and most >= agreed[0]:
        met = Met.UNDECIDED
    else:
        met = Met.BELOW if (value < agreed[0]) is more else Met.ABOVE
    return Part(what, agreed, value, low, high, met)


def _hold_order(groups: tuple[tuple[str, ...], ...], seen: Sighting) -> Order:
    timed = {name: one.ms for name, one in seen.rungs.items() if one.ms}
    names = {name for group in groups for name in group}
    measured = tuple(sorted((name for name in timed if name in names), key=lambda name: timed[name]))
    pairs = [
        (fast, slow)
        for place, group in enumerate(groups)
        for fast in group
        for later in groups[place + 1 :]
        for slow in later
        if fast in timed and slow in timed
    ]
    broken = tuple((fast, slow) for fast, slow in pairs if _clear(seen, slow, fast, 0.0))
    met = Met.UNMEASURED if not pairs else Met.OTHER if broken else Met.MET
    return Order(groups, measured, broken, met)


def _gravest(found: Sequence[Met]) -> Met:
    return min(found, key=_GRAVEST_FIRST.index, default=Met.UNMEASURED)
