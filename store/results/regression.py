"""Whether a target became slower since earlier runs of it, and what to look at first. The one place that says so.

**Which run it is held against.** The earlier run must be comparable: the same GPU model, driver, versions of torch,
Triton and CUDA, case with its axes, warm or cold, mode and policy, and both are results. What `comparison.differing`
says refuses here too, with two exceptions. Another clock does not: then SM cycles are compared. Another host or card of
the same model does not where no host time is in the samples, since the control takes the machine out. `last` is the
newest comparable run, `best` the one in which the rung did best.

**What is compared.** Two sittings differ by 1 to 3 % for no merit of the code. Where the baseline's file is the same in
both runs it is the control: each run's ratio of baseline to rung was measured in the same rounds, so the ratio of these
two ratios has neither the machine nor the day in it. Without a control the times themselves are compared, and their
interval has room for what sittings differ by.

**How sure.** Standard errors come from the 95 % intervals, on the log scale, and add up in squares. They are no less
than what runs of unchanged code differed by in the store, and where it has many of those, they are just that. The floor
is the greater of both runs' noise floors, and no less than one step of the clock that took the samples. WORSE and
BETTER need the whole interval beyond the floor. The p-value is two-sided, of no difference beyond the floor.

**The best of many is luck in part.** Of n comparable runs the one that looks best was lucky as well. Each is drawn to
the mean of all by the share of their variance that noise explains (empirical Bayes; Efron & Morris, Stein's estimation
rule and its competitors, 1973): of runs of unchanged code nothing but the mean is left, of a run that was clearly
better nearly all.

**Slower is measured again.** What looks slower, if only by its point estimate, is measured in turns: the old source
against the new one in one run (`to_turn`, `with_turns`). That run has the last word. Where all of the code is the same
there is nothing to put in turns, and it cannot be the code.

Pure functions over readings. Ratios are time then over time now: below 1, it became slower.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import State, Verdict
from aisp.store.results import comparison, suite
from aisp.store.results.best_of import best_of
from aisp.store.results.comparison import EQUIVALENCE, Cause, Difference, Side, cause
from aisp.store.results.suite import NORMAL_95

if TYPE_CHECKING:
    from aisp.store.record import Arm
    from aisp.store.results.reading import Reading

UNCONTROLLED = 0.015
"""Standard deviation of a sitting's times, as a share, where neither a control nor earlier runs of unchanged code say
what it is. Two sittings then differ by up to 4 %, which covers what days and cards of one model do."""
LEAST_FREEDOM = 3
"""Degrees of freedom from which on the spread of unchanged code is known, if roughly: four runs of one code."""
WELL_KNOWN = 8
"""Degrees of freedom from which on that spread takes the place of the runs' own intervals, and does not only widen
them. A run of few replicas has an interval that is wide for want of knowledge; the store has it by then."""

MORE_REPLICAS = 2
"""How many times as many replicas an undecided run in turns gets, once; and at least LEAST_REPLICAS."""
LEAST_REPLICAS = 6

Which = Literal["last", "best"]
WHICH: tuple[Which, ...] = ("last", "best")


class Change(enum.StrEnum):
    """What a run says against an earlier one."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"
    FIRST = "first"
    LEFT_OUT = "left out"  # it says nothing: not run, failed, not to be believed
    LOST = "lost"  # the suite means it, and it is not there any more

    @property
    def words(self) -> str:
        """What a tally calls it."""
        return "run for the first time" if self is Change.FIRST else self.value


@dataclass(frozen=True, slots=True)
class Turns:
    """What a run said in which the old source was `baseline` and the new one `optimized`. `speedup`: the time of the
    old source over that of the new one, with its 95 % interval; `floor`: the run's noise floor, as a ratio - 1;
    `reason`: why it decides nothing, "" where it does."""

    run_id: str
    verdict: Verdict
    speedup: float | None
    low: float | None
    high: float | None
    floor: float | None
    reason: str

    def rules_out(self, ratio: float | None) -> bool:
        """Whether the new source cannot be as much slower as `ratio` says. A run whose noise floor is wider than that
        calls the two the same and has not answered."""
        if self.verdict is Verdict.FASTER or ratio is None:
            return True
        return self.low is not None and self.low > ratio


@dataclass(frozen=True, slots=True)
class Against:
    """A run against an earlier one of its target.

    Attributes:
        rung: that it speaks of: the best one now, else the lead; the one that was best then, where that one lost more.
        ratio, low, high: time then over time now, with its 95 % interval; below 1 it became slower. Of runs that are
            not comparable it explains, and claims nothing.
        floor: what the interval must clear, as a ratio - 1; None where it is not known.
        p_value: two-sided, of no difference beyond the floor.
        in_cycles: the clocks differed, and the ratio is of SM cycles.
        reason: why it is not comparable, undecided, or the same in spite of its ratio; "" else.
        causes: what else changed, the first to look at first.
        turns: None where they were not needed or not measured.
        control: the baseline's time then over now, where it is the control and taken out of the ratio; else None.
        same_code: everything that ran is the same in both.
        best_of: how many runs the earlier one is the best of; 1 for the last one.
        luck: the share by which it is taken for less than it showed, because it is the best of so many.
    """

    earlier: Side
    change: Change
    rung: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    p_value: float | None = None
    in_cycles: bool = False
    reason: str = ""
    causes: tuple[Difference, ...] = ()
    turns: Turns | None = None
    control: float | None = None
    same_code: bool = False
    best_of: int = 1
    luck: float = 0.0

    @property
    def looks_slower(self) -> bool:
        """Whether it must be measured in turns before it is called anything: by the point estimate, or WORSE."""
        if self.change is Change.WORSE:
            return True
        if self.change is not Change.UNDECIDED or self.ratio is None:
            return False
        return self.ratio < 1 / (1 + (self.floor or 0.0))

    @property
    def wants_turns(self) -> bool:
        """Whether turns can tell more: it looks slower, the code is not the same, and none were measured."""
        kept = bool(self.earlier.run.record.snapshot)
        return self.looks_slower and not self.same_code and self.turns is None and kept


@dataclass(frozen=True, slots=True)
class Point:
    """A run in a target's history. Figures are of `rung` and None where it has none that may be shown.

    `comparable`: with the newest run, which is so with itself.
    """

    run_id: str
    wall: str
    rung: str
    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    speedup: float | None
    low: float | None
    high: float | None
    comparable: bool
    verdict: Verdict = Verdict.NONE


@dataclass(frozen=True, slots=True)
class Row:
    """A target in a run of a suite.

    Attributes:
        now: its run; None where there is none.
        left_out: why it says nothing; "" where it does.
        last, best: against the newest comparable run and the best one; None where no earlier run was timed, or nothing
            now. Where none of those is comparable `last` is of the newest of them, and says why.
        past: its runs, oldest first, the present one last.
        lost: it is left out because it is gone.
    """

    target: str
    now: Side | None
    left_out: str
    last: Against | None
    best: Against | None
    past: tuple[Point, ...]
    lost: bool = False

    @property
    def change(self) -> Change:
        """What it came to against the last comparable run."""
        if self.lost:
            return Change.LOST
        if self.last is not None:
            return self.last.change
        return Change.LEFT_OUT if self.left_out or self.now is None else Change.FIRST

    @property
    def outcome(self) -> Change:
        """What it came to against both: WORSE against either is worse."""
        found = [one.change for one in (self.last, self.best) if one is not None]
        return Change.WORSE if Change.WORSE in found else self.change

    @property
    def same_pair(self) -> bool:
        """Whether last and best are the same run, so that one measurement answers both."""
        return self.last is not None and self.best is not None and self.last.earlier.run.id == self.best.earlier.run.id

    @property
    def told(self) -> Against | None:
        """The one of both that the row is told by: the best run's where only against that it is worse."""
        if self.best is not None and self.best.change is Change.WORSE and self.change is not Change.WORSE:
            return self.best
        return self.last

    def sentence(self) -> str:
        """ "3.1 % slower than on 21 Nov [2.9..3.3], confirmed in turns: the source changed"."""
        if self.told is None or self.now is None:
            if self.lost:
                return self.left_out
            return f"left out: {self.left_out}" if self.left_out else "the first run of its kind: nothing to hold it to"
        return sentence(self.told, self.now)


# -- the rows ----------------------------------------------------------------------------------------------------------


def row(target: str, sides: Sequence[Side], *, left_out: str = "") -> Row:
    """A target's runs, newest first, as a row; the first is "now".

    Args:
        left_out: why the newest says nothing, where the caller knows.
    """
    if not sides:
        return Row(target, None, left_out or "no run", None, None, ())
    now, *earlier = sides
    why = left_out or _says_nothing(now.run)
    if why:
        return Row(target, now, why, None, None, _points(sides, _rung(now.run), ()))
    pairs = [(then, _gaps(then, now)) for then in earlier]
    good = [(then, found) for then, found in pairs if isinstance(found, list)]
    if not good:
        last = _not_comparable(now, earlier)
        return Row(target, now, "", last, None, _points(sides, _rung(now.run), ()))
    gap = min(good[0][1], key=lambda one: one.log)
    alike = [one for _, found in good for one in found if one.rung == gap.rung]
    points = _points(sides, gap.rung, {one.earlier.run.id for one in alike})
    spread = _spread(alike)
    return Row(target, now, "", _judged(gap, now, spread), _best(alike, now, spread), points)


def tally(rows: Iterable[Row]) -> dict[Change, int]:
    """How many rows came to what: the one count of a suite's run."""
    outcomes = [one.outcome for one in rows]
    return {change: outcomes.count(change) for change in Change}


def corrected(rows: Iterable[Row], level: float = suite.LEVEL) -> list[Row]:
    """The rows with what stays when so many are asked: of all that is called worse or better at most `level` may be
    chance (Benjamini & Hochberg). What does not stay becomes UNDECIDED; what was measured in turns was asked alone."""
    rows = list(rows)
    asked = {
        (one.target, found.earlier.run.id, found.rung): found.p_value
        for one in rows
        for found in (one.last, one.best)
        if found is not None and found.p_value is not None and found.change is not Change.NOT_COMPARABLE
    }
    threshold = suite.benjamini_hochberg(list(asked.values()), level)

    def kept(found: Against | None) -> Against | None:
        if found is None or found.change not in (Change.WORSE, Change.BETTER) or found.turns is not None:
            return found
        if found.p_value is not None and found.p_value <= threshold:
            return found
        p = "no p-value" if found.p_value is None else f"p = {found.p_value:.2g}"
        compared = f"{len(asked)} comparison{'' if len(asked) == 1 else 's'}"
        reason = f"{p} does not stand among {compared} (Benjamini-Hochberg, {level:.0%})"
        return replace(found, change=Change.UNDECIDED, reason=reason)

    return [replace(one, last=kept(one.last), best=kept(one.best)) for one in rows]


def to_turn(rows: Iterable[Row]) -> list[Row]:
    """Rows that look slower than their last or their best run and must be measured in turns before that is called a
    regression. `turns_wanted` says against which of the two."""
    return [one for one in rows if turns_wanted(one)]


def turns_wanted(one: Row) -> tuple[Which, ...]:
    """Against which runs this row must be measured in turns; one run that is both is named once, as "last"."""
    held = ((which, getattr(one, which)) for which in WHICH)
    found: tuple[Which, ...] = tuple(which for which, against in held if against is not None and against.wants_turns)
    return ("last",) if len(found) == 2 and one.same_pair else found


def with_turns(one: Row, which: str, run: Reading) -> Row:
    """The row with what a run said of old (its baseline) against new (its `optimized`).

    SLOWER confirms; SAME and FASTER make it SAME where they rule out what was seen, since then it was the sitting;
    UNDECIDED, a SAME that is too coarse, and a run that says nothing, leave it undecided.

    Raises:
        ValueError: the row is not held against such a run.
    """
    if which not in WHICH or getattr(one, which) is None:
        raise ValueError(f"{one.target} is not held against a {which!r} run; one of {', '.join(WHICH)}")
    found = _turns(run)
    names = WHICH if one.same_pair else (which,)
    last = _with(one.last, found) if one.last is not None and "last" in names else one.last
    best = _with(one.best, found) if one.best is not None and "best" in names else one.best
    return replace(one, last=last, best=best)


def confirms(verdict: Verdict) -> bool:
    """Whether a run of old against new says that the new one is slower."""
    return verdict is Verdict.SLOWER


def once_more(run: Reading) -> int:
    """With how many replicas a run in turns that decided nothing is measured once more; 0 where it did, or did not end
    well."""
    found = run.comparison("optimized")
    decided = found is not None and found.verdict.known and found.verdict is not Verdict.UNDECIDED
    if decided or run.record.state is not State.OK or run.bar("optimized") is not None:
        return 0
    return max(MORE_REPLICAS * (run.replicas or 0), LEAST_REPLICAS)


def _turns(run: Reading) -> Turns:
    item = run.comparison("optimized")
    why = suite.unbelieved(run)
    if why or item is None or item.baseline != run.baseline or not item.verdict.known:
        return Turns(run.id, Verdict.NONE, None, None, None, None, why or "the two sources were not compared")
    return Turns(run.id, item.verdict, item.speedup, item.low, item.high, item.floor, item.note)


def _with(found: Against, turns: Turns) -> Against:
    match turns.verdict:
        case Verdict.SLOWER:
            causes = tuple(sorted(found.causes, key=lambda one: cause(one) is not Cause.CODE))
            return replace(found, change=Change.WORSE, reason="", causes=causes, turns=turns)
        case Verdict.SAME | Verdict.FASTER if turns.rules_out(found.ratio):
            seen = f"{turns.verdict} ({_seen(turns)})"
            reason = f"in turns the new source is {seen}: the sitting differed, and not the code"
            return replace(found, change=Change.SAME, reason=reason, turns=turns)
        case Verdict.SAME:
            reason = f"in turns it is {_seen(turns)}, no more than that run's noise floor of {_percent(turns.floor)}"
            return replace(found, change=Change.UNDECIDED, reason=reason, turns=turns)
        case _:
            reason = f"the turns did not decide it: {turns.reason or 'no reason is known'}"
            return replace(found, change=Change.UNDECIDED, reason=reason, turns=turns)


# -- what may be compared ----------------------------------------------------------------------------------------------

_VERSIONS = ("cuda", "versions.torch", "versions.triton")
_HOST = ("host", "cpu", "cores")  # these and `worker_cores.N` matter where host time is in the samples
_UNTOLD = ("target", "sources", "git", "sqlite", "replicas")
"""Told better by the code's own digests, or of no influence: runs of another target are its own of an earlier name."""


def differing(then: Side, now: Side, rung: str) -> list[Difference]:
    """What differs between two runs as far as this rung is concerned, what refuses a verdict first, and then what to
    look at first."""
    arms = [side.run.arm(rung) for side in (then, now)]
    held = all(arm is not None and arm.timing.held for arm in arms)  # host time was kept out of the samples
    told = [one for one in comparison.differing(then, now) if one.what not in _UNTOLD]
    found = [replace(one, refuses=_refuses(one, held=held)) for one in told]
    found += [Difference(what, a, b, refuses) for what, a, b, refuses in _of_manifests(then.run, now.run) if a != b]
    found += _of_code(then.run, now.run, rung)
    return comparison.by_weight(found, now.run.record.device)


def _refuses(found: Difference, *, held: bool) -> bool:
    """Whether a difference that `comparison` found stands against a verdict here; see the module."""
    what = found.what
    if cause(found) is Cause.CLOCKS:
        return found.a is None or found.b is None
    if what == "policy" or what in _VERSIONS:
        return True
    if what == "gpu_uuid":
        return False
    if what in _HOST or what.startswith("worker_cores."):
        return not held
    return found.refuses


def _of_manifests(then: Reading, now: Reading) -> Iterator[tuple[str, object, object, bool]]:
    """What the two plans say otherwise: (what, then, now, whether it refuses)."""
    one, two = (run.record.manifest for run in (then, now))
    left, right = (_mapping(manifest, "stop_rule") for manifest in (one, two))
    yield "cache", then.cache or Cache.COLD, now.cache or Cache.COLD, True
    yield "turns", _order(left), _order(right), True
    for name, refuses in (("axes", True), ("tolerance", False)):
        left, right = (comparison.flat(_mapping(manifest, name), f"{name}.") for manifest in (one, two))
        for key in sorted({*left, *right}):
            yield key, left.get(key), right.get(key), refuses
    yield "contract", _contract(one), _contract(two), False


def _mapping(manifest: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = manifest.get(name)
    return found if isinstance(found, Mapping) else {}


def _order(rule: Mapping[str, object]) -> str:
    return "apart" if rule.get("interleaved") is False else "interleaved"


def _contract(manifest: Mapping[str, object]) -> str | None:
    contract = _mapping(manifest, "contract")
    return f"{contract.get('name')} {str(contract.get('sha256'))[:8]}" if contract else None


def _of_code(then: Reading, now: Reading, rung: str) -> list[Difference]:
    """Which code ran otherwise: the rung's file, the baseline's, else what other files of the lesson there are."""
    found = []
    for name in dict.fromkeys((rung, now.baseline)):
        one, two = ((arm.sources if (arm := run.arm(name)) is not None else "") for run in (then, now))
        if one and two and one != two:
            found.append(Difference(f"code of {name}", one[:8], two[:8], False))
    one, two = _code(then), _code(now)
    if not found and one != two:
        found.append(Difference("code of other files", one[:8], two[:8], False))
    return found


def _code(run: Reading) -> str:
    """Digest of all code that ran, prose left out; of the whole snapshot where the store does not say."""
    return run.record.code or run.record.snapshot


def _says_nothing(run: Reading) -> str:
    """Why a run is no result of its target; "" where it is one."""
    if why := suite.unbelieved(run):
        return why
    return "" if run.best_ms is not None else "it has no time"


def _rung(run: Reading) -> str:
    if run.best is not None:
        return run.best.rung
    return run.lead.rung if run.lead is not None else ""


def _not_comparable(now: Side, earlier: Sequence[Side]) -> Against | None:
    """Against the newest earlier result, else the newest run that was timed, with the reason; None where there is
    neither: a run that was cancelled, lost or failed is nothing to hold another against."""
    timed = [
        one for one in earlier if one.run.record.state is State.OK and any(arm.median_ms for arm in one.run.record.arms)
    ]
    then = next((one for one in timed if not _says_nothing(one.run)), next(iter(timed), None))
    if then is None:
        return None
    rung = _rung(now.run)
    differences = differing(then, now, rung)
    refusing = [one for one in differences if one.refuses]
    gap = _gap(then, now, rung)
    reason = "; ".join(told(one) for one in refusing) or (gap if isinstance(gap, str) else _says_nothing(then.run))
    causes = tuple(one for one in differences if cause(one) is not None)
    found = Against(then, Change.NOT_COMPARABLE, rung, reason=reason, causes=causes)
    if isinstance(gap, str):
        return found
    low, high = gap.interval(gap.error)
    return replace(found, ratio=math.exp(gap.log), low=low, high=high, in_cycles=gap.in_cycles, control=gap.control)


# -- the ratio ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Gap:
    """A rung then and now: the log of its time then over now.

    Attributes:
        then_error, now_error: standard errors of either run's part; None where one has no interval.
        control: the baseline's time then over now, where that is taken out of the ratio.
        differences: none of which refuses.
    """

    earlier: Side
    rung: str
    log: float
    then_error: float | None
    now_error: float | None
    floor: float | None
    in_cycles: bool
    control: float | None
    differences: tuple[Difference, ...] = ()

    @property
    def error(self) -> float | None:
        """Of the log ratio."""
        return _together(self.then_error, self.now_error)

    def interval(self, error: float | None) -> tuple[float | None, float | None]:
        """The 95 % interval of the ratio for such a standard error."""
        if error is None:
            return None, None
        return math.exp(self.log - NORMAL_95 * error), math.exp(self.log + NORMAL_95 * error)


def _gaps(then: Side, now: Side) -> list[_Gap] | str:
    """The rungs by which two runs can be held together, best rung of now first, then that of then; why none can."""
    reasons = []
    found: list[_Gap] = []
    if why := _says_nothing(then.run):
        return why
    for rung in dict.fromkeys((_rung(now.run), _rung(then.run))):
        differences = differing(then, now, rung)
        if any(one.refuses for one in differences):
            reasons.append("; ".join(told(one) for one in differences if one.refuses))
            continue
        gap = _gap(then, now, rung)
        if isinstance(gap, str):
            reasons.append(gap)
        else:
            found.append(replace(gap, differences=tuple(differences)))
    return found or reasons[0]


def _gap(then: Side, now: Side, rung: str) -> _Gap | str:
    one, two = then.run.arm(rung), now.run.arm(rung)
    if one is None or two is None or not one.median_ms or not two.median_ms:
        return f"{rung} was not timed in both"
    if bar := then.run.bar(rung) or now.run.bar(rung):
        return bar.sentence
    if one.timing is not two.timing:
        return f"{rung} was timed as {one.timing} then, as {two.timing} now"
    cycles = comparison.clocks_differ(one.sm_clock_mhz, two.sm_clock_mhz)
    floor = comparison.floor_of(then.run, now.run)
    if floor is not None:
        floor = max(floor, _step(one), _step(two))
    control = comparison.control(then.run, now.run)
    before, after = (_ratio_of(run, rung, cycles=cycles) for run in (then.run, now.run))
    if control is not None and before is not None and after is not None:
        (then_log, then_error), (now_log, now_error) = before, after
        return _Gap(then, rung, now_log - then_log, then_error, now_error, floor, cycles, control)
    log = math.log(one.median_ms / two.median_ms)
    if cycles:
        # Time times clock: what follows the SM clock is the same work in the same number of cycles.
        log += math.log((one.sm_clock_mhz or 1.0) / (two.sm_clock_mhz or 1.0))
    return _Gap(then, rung, log, _error(one.low_ms, one.high_ms), _error(two.low_ms, two.high_ms), floor, cycles, None)


def _ratio_of(run: Reading, rung: str, *, cycles: bool) -> tuple[float, float] | None:
    """Log of baseline over rung within one run, and its standard error; None where it is not known, and for the
    baseline itself."""
    item = run.comparison(rung)
    if item is None or item.baseline != run.baseline:
        return None
    in_cycles, in_time = (item.cycles, item.cycles_low, item.cycles_high), (item.speedup, item.low, item.high)
    value, low, high = in_cycles if cycles else in_time
    error = _error(low, high)
    return None if value is None or error is None else (math.log(value), error)


def _error(low: float | None, high: float | None) -> float | None:
    """The standard error of a log whose 95 % interval this is."""
    return math.log(high / low) / (2 * NORMAL_95) if low and high else None


def _step(arm: Arm) -> float:
    """One step of the clock that took an arm's samples, as a share of its time per call; 0 where it is not known."""
    if arm.quality is None or not arm.quality.resolution_ms or not arm.median_ms:
        return 0.0
    return arm.quality.resolution_ms / (arm.calls or 1) / arm.median_ms


@dataclass(frozen=True, slots=True)
class _Spread:
    """What one run of unchanged code differs by from the others in the store: a standard deviation of the log, all
    codes together, stretched for its degrees of freedom so that a normal interval of it holds as often as it says."""

    deviation: float
    well_known: bool


def _spread(gaps: Sequence[_Gap]) -> _Spread | None:
    """The spread of unchanged code; None where too few runs are of one code."""
    groups: dict[tuple[str, bool, bool], list[float]] = {}
    for gap in gaps:
        if code := _code(gap.earlier.run):
            groups.setdefault((code, gap.control is not None, gap.in_cycles), []).append(gap.log)
    freedom = sum(len(group) - 1 for group in groups.values())
    if freedom < LEAST_FREEDOM:
        return None
    squares = math.fsum(statistics.pvariance(group) * len(group) for group in groups.values())
    # Student's quantile over the normal one, to the first order (Cornish & Fisher, 1938).
    stretch = 1 + (NORMAL_95**2 + 1) / (4 * freedom)
    return _Spread(stretch * math.sqrt(squares / freedom), freedom >= WELL_KNOWN)


def _own_error(error: float | None, spread: _Spread | None, *, controlled: bool) -> float | None:
    """The standard error of one run's part, by its interval and by what sittings differ by; see the module."""
    if error is None:
        return None
    if spread is None:
        return error if controlled else max(error, UNCONTROLLED)
    return spread.deviation if spread.well_known else max(error, spread.deviation)


def _judged(gap: _Gap, now: Side, spread: _Spread | None) -> Against:
    parts = [_own_error(error, spread, controlled=gap.control is not None) for error in (gap.then_error, gap.now_error)]
    return _against(gap, now, gap.log, _together(*parts))


def _together(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else math.hypot(one, two)


def _against(gap: _Gap, now: Side, log: float, error: float | None) -> Against:
    low, high = replace(gap, log=log).interval(error)
    change, reason = _change(log, low, high, gap.floor)
    return Against(
        gap.earlier,
        change,
        gap.rung,
        math.exp(log),
        low,
        high,
        gap.floor,
        _p_value(log, error, gap.floor),
        gap.in_cycles,
        reason,
        tuple(one for one in gap.differences if cause(one) is not None),
        control=gap.control,
        same_code=_code(gap.earlier.run) == _code(now.run) != "",
    )


_CHANGES = {Verdict.FASTER: Change.BETTER, Verdict.SLOWER: Change.WORSE, Verdict.SAME: Change.SAME}


def _change(log: float, low: float | None, high: float | None, floor: float | None) -> tuple[Change, str]:
    verdict, reason = comparison.judge(low, high, floor)
    if (change := _CHANGES.get(verdict)) is not None:
        return change, ""
    if low is None or high is None or floor is None:
        return Change.UNDECIDED, reason
    # The engine's rule within a run: nothing is seen, and nothing of note can have been missed.
    within = low > 1 / (1 + EQUIVALENCE) and high < 1 + EQUIVALENCE
    if floor <= EQUIVALENCE and within and abs(log) <= math.log1p(floor):
        return Change.SAME, ""
    return Change.UNDECIDED, f"the interval does not clear the noise floor of {floor:.1%}"


def _p_value(log: float, error: float | None, floor: float | None) -> float | None:
    """Two-sided, of no difference beyond the floor; None where either is not known."""
    if error is None or floor is None:
        return None
    beyond = abs(log) - math.log1p(floor)
    if beyond <= 0:
        return 1.0
    return math.erfc(beyond / error / math.sqrt(2)) if error > 0 else 0.0


def _best(gaps: Sequence[_Gap], now: Side, spread: _Spread | None) -> Against:
    """Against the earlier run in which the rung did best, taken for what is left of it; see the module."""
    if len(gaps) == 1:
        return _judged(gaps[0], now, spread)
    leads = [-gap.log for gap in gaps]  # by how much each was ahead of now
    errors = [_own_error(gap.then_error, spread, controlled=gap.control is not None) for gap in gaps]
    best = best_of(leads, errors)
    gap = gaps[best.index]
    now_error = _own_error(gap.now_error, spread, controlled=gap.control is not None)
    found = _against(gap, now, -best.lead, None if best.error is None else _together(best.error, now_error))
    return replace(found, best_of=len(gaps), luck=best.luck)


# -- history -----------------------------------------------------------------------------------------------------------


def _points(sides: Sequence[Side], rung: str, comparable: Iterable[str]) -> tuple[Point, ...]:
    alike = {*comparable, sides[0].run.id}
    return tuple(_point(one.run, rung, comparable=one.run.id in alike) for one in reversed(sides))


def _point(run: Reading, rung: str, *, comparable: bool) -> Point:
    arm, item = run.arm(rung), run.comparison(rung)
    doubted = run.bar(rung) is not None or run.record.validity.doubted
    times = (None, None, None) if arm is None or doubted else (arm.median_ms, arm.low_ms, arm.high_ms)
    ratios = (None, None, None) if item is None or doubted else (item.speedup, item.low, item.high)
    verdict = Verdict.NONE if item is None or doubted else item.verdict
    return Point(run.id, run.record.wall, rung, *times, *ratios, comparable, verdict)


# -- words -------------------------------------------------------------------------------------------------------------

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SITTING = "driver, clocks and machine"
MOST_SHARE = 9.0
"""The greatest end of an interval that is told by its digits, as a share."""


def sentence(found: Against, now: Side) -> str:
    """What a run says against an earlier one, in plain English."""
    when = _when(found.earlier.run.record.wall, now.run.record.wall)
    first = told(found.causes[0]) if found.causes else ""
    match found.change:
        case Change.NOT_COMPARABLE:
            aside = "" if found.ratio is None else f" ({_by(found.ratio)} beside it)"
            return f"not comparable with the run {when}: {found.reason}{aside}"
        case Change.WORSE:
            return f"{_figures(found, when)}, {_why_worse(found, first)}"
        case Change.SAME:
            reason = f": {found.reason}" if found.reason else ""
            floor = found.floor if found.turns is None else found.turns.floor
            return f"the same as {when} within {_percent(floor)}{reason}"
        case Change.BETTER:
            return _figures(found, when) + (f": {first}" if first else "")
    look = _look(found, first) if found.looks_slower and found.turns is None else ""
    return f"{_figures(found, when)}, undecided: {found.reason}{look}"


def _why_worse(found: Against, first: str) -> str:
    if found.turns is not None:
        return "confirmed in turns: " + (first or "the source changed")
    if found.same_code:
        seen = f"{first}; " if first else ""
        return f"and it cannot be the code, which is the same: {seen}look at {_SITTING} first"
    return "not measured in turns" + (f"; look first: {first}" if first else "")


def _look(found: Against, first: str) -> str:
    if found.same_code:
        return f"; the code is the same: look at {_SITTING} first"
    return f"; look first: {first}" if first else ""


def _figures(found: Against, when: str) -> str:
    """ "3.1 % slower than on 21 Nov [2.9..3.3]", by the turns where they confirmed it."""
    turns = found.turns if found.turns is not None and found.turns.verdict is Verdict.SLOWER else None
    ratio, low, high = (turns.speedup, turns.low, turns.high) if turns else (found.ratio, found.low, found.high)
    if ratio is None:
        return f"no ratio to {when}"
    ends = _ends(ratio, low, high)
    unit = " in cycles" if found.in_cycles and not turns else ""
    than = f"than the best of {found.best_of}, {when}" if found.best_of > 1 else f"than {when}"
    lucky = f" (shrunk by {_percent(found.luck)}: the best of many is lucky in part)"
    lucky = lucky if found.luck >= 0.0005 and not turns else ""
    return f"{_by(ratio)}{unit} {than}{lucky}{ends}{_beside(found) if not turns else ''}"


def _beside(found: Against) -> str:
    if found.control is None or found.floor is None or abs(math.log(found.control)) <= math.log1p(found.floor):
        return ""
    return f" beside the baseline, itself {_by(found.control)}"


def _by(ratio: float) -> str:
    """A ratio of times in words: how much more time it takes, or how much less the old one was worth."""
    return f"{_percent(max(ratio, 1 / ratio) - 1)} {'slower' if ratio < 1 else 'faster'}"


def _seen(turns: Turns) -> str:
    """ "0.9 % slower [0.5..1.3]"."""
    if turns.speedup is None:
        return "of an unknown ratio"
    return _by(turns.speedup) + _ends(turns.speedup, turns.low, turns.high)


def _ends(ratio: float, low: float | None, high: float | None) -> str:
    """An interval in per cent in the direction of its ratio; what lies on the other side is negative. What is beyond
    tenfold says nothing more by its digits."""
    if low is None or high is None:
        return ""
    shares = (1 / high - 1, 1 / low - 1) if ratio < 1 else (low - 1, high - 1)
    ends = (f"{share * 100:.1f}" if share < MOST_SHARE else f">{MOST_SHARE * 100:.0f}" for share in shares)
    return f" [{'..'.join(ends)}]"


def _percent(share: float | None) -> str:
    return "an unknown floor" if share is None else f"{share * 100:.1f} %"


def told(found: Difference) -> str:
    """A difference in words: "driver: 580 then, 590 now"."""
    if found.what.startswith("code of "):
        return f"the {'other files' if found.what == 'code of other files' else f'source of {found.what[8:]}'} changed"
    a, b = ("unknown" if value in (None, "") else value for value in (found.a, found.b))
    return f"{found.name}: {a} then, {b} now" if a != b else f"{found.name}: {a} in both"


def _when(wall: str, now: str) -> str:
    """ "on 21 Nov"; with the year where that is another, and with the hour (UTC) on the same day."""
    try:
        at, present = (datetime.fromisoformat(text).astimezone(UTC) for text in (wall, now))
    except ValueError:
        return f"at {wall}"
    day = f"on {at.day} {_MONTHS[at.month - 1]}"
    if at.year != present.year:
        return f"{day} {at.year}"
    return f"{day} {at:%H:%M} UTC" if at.date() == present.date() else day
