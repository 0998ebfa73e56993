"""Numbers about numbers: how many samples, which were set aside, and whether a figure was picked or prepared.

Most ways to lie with statistics have no place here: every sample is stored with the reason why it does not count, one
function makes the median of every arm, the stop rule stands in the manifest before the first sample, and all runs stay
in the history. What is left for a kernel is to make its own samples unlike its work: fast only while it is new, slow
only where a median does not look, or with rivals that are disturbed meanwhile. That shows in the samples themselves
and in what a process does while others are measured.
"""

from __future__ import annotations

import enum
import gc
import hashlib
import math
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisp.checks.environment import beside_others
from aisp.checks.registry import (
    Answer,
    ArmFacts,
    Call,
    Check,
    Evidence,
    Facts,
    How,
    Issue,
    RunFacts,
    Sensor,
    Site,
    When,
    caught,
    not_applicable,
    passed,
    suspect,
    unavailable,
)
from aisp.store.outcomes import Timing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

LEAST_PER_REPLICA = 4  # kept samples: one for each round of the shortest stop rule
SET_ASIDE = 0.9  # of an arm's samples
REASONS = {1: "low clock", 2: "host time leaked in"}  # store.record.DISCARDED

STEP = 1.5  # later samples over earlier ones, or the other way round, from which on a replica has two times
LONE_STEP = 3.0  # where there is one process, which no other confirms
STEADY = 1.2  # what a rival of the same rounds may have at most
SEVERAL, BACK = 3, 1.1  # where so many processes all have a step, whoever is no further from before it has passed it
LEAST_FOR_STEP = 24  # samples of a replica
LEAST_OF_STEP = 8  # before and after it
SLOW = 1.4  # a call that is slow by plan takes at least this much longer than the slowest of the others
LEAST_PERIODS = 6  # of each replica
CROWDED = 0.25  # of its turns a lone process stood in line because of others: a burst of theirs looks like a step
AGREE = 0.6  # of the processes must show the same: load, or another place of the step, can blur it in the others
MOST_PERIOD = 32  # calls
PURE = 0.85  # of the slow samples in one place of the period, and of the samples at that place slow
HIDDEN = 1.15  # mean over median, from which on the median hides something

GAP_NS = 15_000_000  # a pause between two samples in which others were measured
LEAST_GAPS, LEAST_GAPS_NS = 2, 60_000_000  # of them, and their length in all
BUSY = 0.3  # cores, in those pauses
OTHERS = 0.8  # of all processor time, by processes that are not ours
NOISE = math.log(1.25)  # between the baseline and itself

LEAST_EARLIER = 5  # runs of the same code
LUCKY = math.log(1.5)  # beyond the median of earlier runs
BEST_YET = math.log(1.25)  # beyond the best of them
SPREADS = 8.0  # times their spread

# Bound while checks are imported, before any lesson is.
_process_ns, _thread_ns, _monotonic_ns = time.process_time_ns, time.thread_time_ns, time.monotonic_ns
_gc_enabled, _gc_threshold, _gc_stats = gc.isenabled, gc.get_threshold, gc.get_stats
_getitimer = signal.getitimer

TIMERS = {"real": signal.ITIMER_REAL, "virtual": signal.ITIMER_VIRTUAL, "profiling": signal.ITIMER_PROF}
SOON_S = 1.0  # a timer goes off behind the call that set it, and is no watchdog


# -- sensors -----------------------------------------------------------------------------------------------------------


class Setting(enum.StrEnum):
    """What of the interpreter a lesson may have altered."""

    COLLECTOR = "collector"
    THRESHOLDS = "thresholds"
    CALLBACKS = "collector callbacks"
    SWITCH_INTERVAL = "switch interval"


class InterpreterFacts(Facts, frozen=True, kw_only=True):
    """How the interpreter was left.

    Attributes:
        calls: timed samples.
        on: those after which the collector was switched on.
        collections: in timed samples.
        armed: interval timers that the lesson left, to go off soon.
        altered: what else differs from how it was before the lesson was imported, each with a sentence.
    """

    calls: int
    on: int
    collections: int
    armed: list[str]
    altered: dict[Setting, str]


class Interpreter(Sensor[InterpreterFacts]):
    """Garbage collection, interval timers and the switch interval, at the edges of every call; 2 us each."""

    name = "interpreter"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._start: dict[Setting, object] = {}
        self._altered: dict[Setting, str] = {}
        self._armed: set[str] = set()
        self._at_start: set[str] = set()
        self._on = self._calls = self._collections = 0
        self._before = 0
        self._was_off = False

    def before_import(self) -> None:
        """What the engine left."""
        self._start, self._at_start = self._now(), self._running()

    def after_import(self) -> None:
        """What importing changed."""
        self._compare("while it was imported", enabled=True)

    def after_prepare(self, case: object, buffers: object) -> None:
        """What prepare() changed."""
        self._compare("by prepare()", enabled=True)

    def before_call(self, call: Call) -> None:
        """Collections so far, and whether there can be any."""
        self._before = self._collected()
        self._was_off = not _gc_enabled()

    def after_call(self, call: Call) -> None:
        """What the call left."""
        if call.stage == "timed" and self._was_off:  # while warming up the collector is on
            self._calls += 1
            self._on += _gc_enabled()
            self._collections += self._collected() - self._before
        self._compare("by a call", enabled=call.stage == "verify")

    def facts(self) -> InterpreterFacts:
        """See InterpreterFacts."""
        return InterpreterFacts(
            calls=self._calls,
            on=self._on,
            collections=self._collections,
            armed=sorted(self._armed),
            altered=dict(self._altered),
        )

    def _compare(self, when: str, *, enabled: bool) -> None:
        now = self._now()
        for name, value in now.items():
            # While samples are taken the arm itself has the collector off.
            if (name is not Setting.COLLECTOR or enabled) and value != self._start.get(name):
                self._altered.setdefault(name, f"{name} {value} {when}, {self._start.get(name)} before")
        self._armed |= self._running() - self._at_start

    @staticmethod
    def _now() -> dict[Setting, object]:
        return {
            Setting.COLLECTOR: "on" if _gc_enabled() else "off",
            Setting.THRESHOLDS: list(_gc_threshold()),
            Setting.CALLBACKS: sum(not _ours_or_torch(callback) for callback in gc.callbacks),
            Setting.SWITCH_INTERVAL: sys.getswitchinterval(),
        }

    @staticmethod
    def _running() -> set[str]:
        """Timers that go off soon, or again and again. One of many seconds is a watchdog: it ends a call that hangs."""
        return {name for name, number in TIMERS.items() if any(0 < s < SOON_S for s in _getitimer(number))}

    @staticmethod
    def _collected() -> int:
        return sum(generation["collections"] for generation in _gc_stats())


def _ours_or_torch(callback: object) -> bool:
    return str(getattr(callback, "__module__", "")).split(".")[0] in ("torch", "aisp")


class PausesFacts(Facts, frozen=True, kw_only=True):
    """What was done in the pauses.

    Attributes:
        gaps: long pauses, in which rivals were measured.
        gap_ns: their length in all.
        busy_cores: median over them of cores in use, less what the engine's own part takes (the least of the short
            pauses, twice); None where there was no long one.
        spins: whether waiting threads were told to spin.
    """

    gaps: int
    gap_ns: int
    busy_cores: float | None
    spins: bool


class Pauses(Sensor[PausesFacts]):
    """What this process works while it has nothing to do: processor time of its other threads between its samples.

    Only pauses inside the measuring count: there the arm has the collector off at both edges, elsewhere it is on. The
    thread that takes the samples does not count: between two samples of a turn it may be busy for as long with what the
    next one needs, and what a lesson could put on it has checks of its own (collector, interrupts).
    """

    name = "pauses"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        policy = os.environ.get("OMP_WAIT_POLICY", "").lower()
        self._spins = policy == "active" or "KMP_BLOCKTIME" in os.environ
        self._left: tuple[int, int] | None = None
        self._gaps: list[tuple[int, int]] = []
        self._short: list[int] = []

    def before_call(self, call: Call) -> None:
        """The pause is over."""
        if self._left is None or call.stage != "timed" or _gc_enabled():
            return
        wall = _monotonic_ns() - self._left[0]
        spent = _process_ns() - _thread_ns() - self._left[1]
        if wall >= GAP_NS:
            self._gaps.append((wall, spent))
        elif len(self._short) < 1000:
            self._short.append(spent)

    def after_call(self, call: Call) -> None:
        """A pause begins."""
        measured = call.stage == "timed" and not _gc_enabled()
        self._left = (_monotonic_ns(), _process_ns() - _thread_ns()) if measured else None

    def facts(self) -> PausesFacts:
        """See PausesFacts."""
        ours = 2 * min(self._short, default=0)
        busy = sorted(max(0, spent - ours) / wall for wall, spent in self._gaps)
        return PausesFacts(
            gaps=len(self._gaps),
            gap_ns=sum(wall for wall, _ in self._gaps),
            busy_cores=busy[len(busy) // 2] if busy else None,
            spins=self._spins,
        )


# -- samples -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Replica:
    """The samples of one process, in the order in which they were taken."""

    number: int
    times_ms: Floats
    opens: npt.NDArray[np.bool_]  # whether a sample was the first of its turn


def _replicas(arm: ArmFacts, *, every: bool = False) -> list[_Replica]:
    """Process by process; with `every` the samples that do not count too, so that calls stay countable."""
    import numpy as np  # listing the checks does not need it

    samples = arm.samples
    if samples is None or not len(samples):
        return []
    replicas: list[_Replica] = []
    for number in np.unique(samples.replica):
        chosen = (samples.replica == number) & (every | (samples.discarded == 0))
        order = np.argsort(samples.end_ns[chosen], kind="stable")
        rounds = samples.round[chosen][order]
        opens = np.append(True, rounds[1:] != rounds[:-1])[: len(rounds)]
        replicas.append(_Replica(int(number), np.asarray(samples.device_ms[chosen][order], np.float64), opens))
    return replicas


@dataclass(frozen=True, slots=True)
class _Step:
    """Medians of a replica's earlier and of its later samples; both the median of all where there is no step."""

    early_ms: float
    late_ms: float

    @property
    def ratio(self) -> float:
        """How many times longer the later ones take."""
        return self.late_ms / self.early_ms


def _step(times_ms: Floats) -> _Step:
    """Where the samples of a replica split best.

    Each median must hold for three quarters of the samples on its side, or there is no step. Either side has
    LEAST_OF_STEP samples.
    """
    import numpy as np  # listing the checks does not need it

    best = _Step(float(np.median(times_ms)), float(np.median(times_ms)))
    count = len(times_ms)
    for cut in sorted({*(count * tenth // 10 for tenth in range(1, 10)), *(count >> shift for shift in range(2, 8))}):
        early, late = times_ms[:cut], times_ms[cut:]
        if min(len(early), len(late)) < LEAST_OF_STEP:
            continue
        split = _Step(float(np.median(early)), float(np.median(late)))
        middle = math.sqrt(split.late_ms * split.early_ms)
        slower, faster = (late, early) if split.ratio > 1 else (early, late)
        apart = min(float((slower > middle).mean()), float((faster < middle).mean()))
        if apart >= 0.75 and abs(math.log(split.ratio)) > abs(math.log(best.ratio)):
            best = split
    return best


@dataclass(frozen=True, slots=True)
class _Rhythm:
    """Slow calls that come in time: every `period` calls one takes `slow_ms`, the others `usual_ms`."""

    period: int
    slow_ms: float
    usual_ms: float
    hidden: float  # mean over median


def _rhythm(replica: _Replica) -> _Rhythm | None:
    """The rhythm of a process, if it has one that is the rung's: turns of equal length have one of their own, whose
    first call finds the caches as the other arms left them."""
    import numpy as np  # listing the checks does not need it

    times_ms = replica.times_ms
    median = float(np.median(times_ms))
    above = np.sort(times_ms[times_ms >= median])
    if len(above) < 2:
        return None
    widest = int(np.argmax(np.diff(np.log(above))))
    if above[widest + 1] < SLOW * above[widest]:
        return None
    slow = np.flatnonzero(times_ms > above[widest])
    if len(slow) < LEAST_PERIODS or float(replica.opens[slow].mean()) >= PURE:
        return None
    for period in range(2, min(MOST_PERIOD, len(times_ms) // LEAST_PERIODS) + 1):
        place, met = Counter((slow % period).tolist()).most_common(1)[0]
        due = len(range(place, len(times_ms), period))
        if met >= PURE * len(slow) and met >= PURE * due:
            hidden = float(times_ms.mean()) / median
            return _Rhythm(period, float(np.median(times_ms[slow])), median, hidden) if hidden > HIDDEN else None
    return None


# -- judges of arms ----------------------------------------------------------------------------------------------------


def _enough(arm: ArmFacts, run: RunFacts) -> Answer:
    if arm.timing is Timing.NONE or arm.samples is None:
        return not_applicable("it was checked, not timed")
    if not arm.ended_well:
        return not_applicable("it ended before its samples were complete")
    counts = [len(replica.times_ms) for replica in _replicas(arm)]
    rule = run.manifest.get("stop_rule")
    rounds = rule.get("least_rounds") if isinstance(rule, Mapping) else None
    words = f"{sum(counts)} samples of {len(counts)} processes, {min(counts, default=0)} in the one with fewest"
    if len(counts) < (processes := len({each.replica for each in arm.sensed})):
        return suspect(f"{words}; it had {processes} processes")
    if min(counts, default=0) < LEAST_PER_REPLICA:
        return suspect(f"{words}; {LEAST_PER_REPLICA} are the least that say anything of a spread")
    quick = ", a quick run" if run.quick else ""
    return passed(words + (f", the rule asks for {rounds} rounds at least" if rounds else "") + quick)


def _nothing_dropped(arm: ArmFacts, run: RunFacts) -> Answer:
    samples = arm.samples
    if samples is None or not len(samples):
        return not_applicable("there are no samples")
    codes = Counter(int(code) for code in samples.discarded)
    unknown = sorted(code for code in codes if code and code not in REASONS)
    if unknown:
        return suspect(
            f"{codes[unknown[0]]} samples were set aside for a reason that does not exist (code {unknown[0]})"
        )
    aside = sum(count for code, count in codes.items() if code)
    share = aside / len(samples)
    why = ", ".join(f"{codes[code]} for {reason}" for code, reason in REASONS.items() if codes[code])
    words = f"all {len(samples)} samples are stored, {aside} of them set aside" + (f" ({why})" if why else "")
    first = next((other for other in run.arms if other.samples is not None and len(other.samples)), arm)
    if first is not arm and first.samples is not None:
        rival = float((first.samples.discarded != 0).mean())
        words += f"; of {first.arm}'s {rival:.0%}" if aside or rival else ""
    return suspect(words) if share > SET_ASIDE else passed(words)


def _one_median(arm: ArmFacts, run: RunFacts) -> Answer:
    import numpy as np  # listing the checks does not need it

    del run
    if arm.median_ms is None:
        return not_applicable("it has no figure")
    kept = arm.samples.kept_ms if arm.samples is not None else ()
    if not len(kept):
        return suspect(f"a figure of {arm.median_ms:.4g} ms without a sample that counts")
    median = float(np.median(kept))
    if abs(median - arm.median_ms) > 1e-6 * median:
        return suspect(
            f"its figure is {arm.median_ms:.6g} ms, the median of all its {len(kept)} samples {median:.6g} ms"
        )
    low, high = np.quantile(kept, [0.1, 0.9])
    return passed(
        f"its figure is the median of all {len(kept)} samples that count, {median:.4g} ms; "
        f"a tenth are under {low:.4g} ms, a tenth over {high:.4g} ms, the mean is {float(np.mean(kept)):.4g} ms"
    )


def _steady(arm: ArmFacts, run: RunFacts) -> Answer:
    import numpy as np  # listing the checks does not need it

    own = _steps(arm)
    if not own:
        return not_applicable(f"no process took {LEAST_FOR_STEP} samples")
    text = f"later samples take {_range([step.ratio for step in own])} times as long as earlier ones"
    excused = unavailable if run.again else passed  # what may have another cause acquits nobody
    stepped = [step for step in own if step.ratio >= (STEP if len(own) > 1 or run.again else LONE_STEP)]
    if len(stepped) < max(AGREE * len(own), min(2, len(own))):
        return passed(f"{text}, in {len(own)} processes")
    base = run.arms[0].rung.name if run.arms else ""
    # Others' yardstick is the baseline; the baseline's are all the others.
    rivals = [other for other in run.arms if (other.rung.name == base) is not (arm.rung.name == base)]
    steps = [step.ratio for rival in rivals for step in _steps(rival)]
    moved = [abs(math.log(ratio)) for ratio in steps]
    # One process of a rival may have met a disturbance; where there are several, most must be steady.
    if not moved or (max(moved) if len(own) == 1 else float(np.median(moved))) > math.log(STEADY):
        return excused(f"{text}, but its rivals are not steady either: the machine was not")
    lasting = _lasting(arm, stepped)
    if lasting is not None and lasting < (BACK if len(stepped) == len(own) >= SEVERAL else STEP):
        return passed(f"{text}, but the engine's clock found it {lasting:.2f} times as long as at first: a disturbance")
    if len(own) == 1 and (arm.waited_share or 0.0) >= CROWDED:
        return excused(f"{text}, but it stood in line for {arm.waited_share:.0%} of its turns; a full run would tell")
    if _cores_used(arm) > 1.25 * min(_cores_used(rival) for rival in rivals):
        return excused(f"{text}; it uses more cores than its rivals, and whoever else wants them slows it alone")
    least = min(step.ratio for step in stepped)
    return caught(
        f"fast only while it is new: in {len(stepped)} of {len(own)} processes later samples take at least "
        f"{least:.2f} times as long as earlier ones; those of its rivals {_range(steps)} times"
    )


def _lasting(arm: ArmFacts, stepped: list[_Step]) -> float | None:
    """What a call takes after all samples, over those before the steps; None where the engine's clock had no turn.

    The least of several stretches: a neighbour slows samples down for a while, a rung that has become slow stays so.
    Samples before the steps may be few: a stock that lasts for one in twenty is no more of the rung's own speed.
    """
    import numpy as np  # listing the checks does not need it

    if not arm.sustained:
        return None
    return min(each.per_call_ms for each in arm.sustained) / float(np.median([step.early_ms for step in stepped]))


def _steps(arm: ArmFacts) -> list[_Step]:
    return [_step(replica.times_ms) for replica in _replicas(arm) if len(replica.times_ms) >= LEAST_FOR_STEP]


def _cores_used(arm: ArmFacts) -> float:
    """Processor time over time of the samples on a CPU; 1 where the work is the GPU's."""
    import numpy as np  # listing the checks does not need it

    samples = arm.samples
    if arm.timing != "host" or samples is None or not len(samples):
        return 1.0
    return max(1.0, float(np.median(samples.host_ms / samples.device_ms)))


def _hidden(arm: ArmFacts, run: RunFacts) -> Answer:
    import numpy as np  # listing the checks does not need it

    del run
    if arm.calls > 1:
        return not_applicable(f"a sample is {arm.calls} calls, whose slow ones are in its time")
    replicas = [r for r in _replicas(arm, every=True) if len(r.times_ms) >= 2 * LEAST_PERIODS]
    if not replicas:
        return not_applicable(f"no process took {2 * LEAST_PERIODS} samples")
    rhythms = [rhythm for replica in replicas if (rhythm := _rhythm(replica)) is not None]
    period, agree = Counter(rhythm.period for rhythm in rhythms).most_common(1)[0] if rhythms else (0, 0)
    if agree >= AGREE * len(replicas):
        one = next(rhythm for rhythm in rhythms if rhythm.period == period)
        return caught(
            f"every {one.period}th call takes {one.slow_ms:.3g} ms and the others {one.usual_ms:.3g} ms, in "
            f"{agree} of {len(replicas)} processes: the mean is {one.hidden:.2f} times the median"
        )
    ratios = [float(r.times_ms.mean() / np.median(r.times_ms)) for r in replicas]
    return passed(f"the mean is {_range(ratios)} times the median, and slow calls come in no fixed rhythm")


def _collector(arm: ArmFacts, run: RunFacts) -> Answer:
    del run
    processes = arm.facts(Interpreter)
    for facts in processes:
        for setting in (Setting.COLLECTOR, Setting.THRESHOLDS, Setting.CALLBACKS):
            if setting in facts.altered:
                return caught(f"changed Python's garbage collection: {facts.altered[setting]}")
    on, calls = sum(facts.on for facts in processes), sum(facts.calls for facts in processes)
    collections = sum(facts.collections for facts in processes)
    if on:
        return caught(f"switched garbage collection on in {on} of {calls} timed samples, where every arm has it off")
    return passed(f"garbage collection was off in all {calls} timed samples; {collections} were asked for by the rung")


def _interrupts(arm: ArmFacts, run: RunFacts) -> Answer:
    del run
    for facts in arm.facts(Interpreter):
        if facts.armed:
            return caught(f"left an interval timer running ({', '.join(facts.armed)}): it interrupts whatever runs")
        if Setting.SWITCH_INTERVAL in facts.altered:
            return suspect(f"changed how Python is interrupted: {facts.altered[Setting.SWITCH_INTERVAL]}")
    return passed("no call left an interval timer that goes off soon, and the switch interval is as it was")


def _idle(arm: ArmFacts, run: RunFacts) -> Answer:
    del run
    processes = arm.facts(Pauses)
    if any(facts.spins for facts in processes):
        return not_applicable("threads that wait were told to spin (OMP_WAIT_POLICY, KMP_BLOCKTIME): they look busy")
    long = [facts for facts in processes if facts.gaps >= LEAST_GAPS and facts.gap_ns >= LEAST_GAPS_NS]
    busy = [facts.busy_cores for facts in long if facts.busy_cores is not None]
    if not busy:
        return not_applicable(f"it had no {LEAST_GAPS} pauses of {LEAST_GAPS_NS / 1e6:.0f} ms in all")
    pauses = f"in {sum(facts.gaps for facts in long)} pauses, {sum(facts.gap_ns for facts in long) / 1e9:.2f} s"
    if min(busy) > BUSY:
        return caught(
            f"kept {min(busy):.1f} cores or more busy while others were measured, {pauses} in {len(long)} processes"
        )
    return passed(f"at most {max(busy):.2f} cores busy while others were measured, {pauses}")


# -- judges of the run -------------------------------------------------------------------------------------------------


def _aa(run: RunFacts) -> float | None:
    """|log| of the baseline's median over its twin's; None where there is no twin."""
    twin = next((arm for arm in run.arms if arm.twin and arm.median_ms), None)
    base = next(
        (arm for arm in run.arms if twin and arm.arm == arm.rung.name == twin.rung.name and arm.median_ms), None
    )
    if twin is None or base is None or not twin.median_ms or not base.median_ms:
        return None
    return abs(math.log(base.median_ms / twin.median_ms))


def _outliers(run: RunFacts) -> Answer:
    import numpy as np  # listing the checks does not need it

    shares: list[str] = []
    for arm in run.arms:
        if arm.samples is None:
            continue
        kept = np.asarray(arm.samples.kept_ms)
        if len(kept) >= LEAST_PER_REPLICA:
            median = float(np.median(kept))
            shares.append(f"{arm.arm} {float((kept > 2 * median).mean()):.1%}")
    if not shares:
        return not_applicable("there are no samples")
    aa = _aa(run)
    floor = "" if aa is None else f"; the baseline and itself differ by {math.expm1(aa):.1%}"
    return passed(f"samples over twice the median: {', '.join(shares)}; medians do not follow them{floor}")


def _background(run: RunFacts) -> Answer:
    def delta(name: str) -> float | None:
        first, last = run.before.get(name), run.after.get(name)
        return None if first is None or last is None else float(last - first)

    busy, idle, own = delta("busy_s"), delta("idle_s"), delta("own_s")
    if busy is None or idle is None or own is None or busy + idle <= 0:
        return unavailable("/proc/stat does not tell what the processors did")
    others = max(0.0, busy - own) / (busy + idle)
    words = f"other processes took {others:.1%} of all processor time, ours {min(own, busy) / (busy + idle):.1%}"
    aa = _aa(run)
    if aa is None:
        return beside_others(run, f"{words}; there is no A/A arm in this run to show what that does")
    words += f"; the baseline and itself differ by {math.expm1(aa):.1%}"
    if others > OTHERS and aa > NOISE and run.validity != "portable":
        return suspect(words)
    return beside_others(run, words)


def _cherry(arm: ArmFacts, run: RunFacts) -> Answer:
    import numpy as np  # listing the checks does not need it

    base = run.arms[0] if run.arms else arm
    if arm is base or arm.twin:
        return not_applicable("the baseline is what others are compared with")
    if not arm.median_ms or not base.median_ms:
        return not_applicable("there is no speed-up in this run")
    sources = {name: hashlib.sha256(run.files.get(f"{name}.py", b"")).hexdigest() for name in (arm.arm, base.arm)}
    earlier: list[float] = []
    for past in run.history:
        arms = past.get("arms") or {}
        times = [arms.get(name, {}).get("median_ms") for name in (base.arm, arm.arm)]
        same = all(arms.get(name, {}).get("sources") == digest for name, digest in sources.items())
        if same and all(times):
            earlier.append(math.log(times[0] / times[1]))
    now = math.log(base.median_ms / arm.median_ms)
    if len(earlier) < LEAST_EARLIER:
        return not_applicable(
            f"{len(earlier)} earlier runs of the same code have this speed-up; {LEAST_EARLIER} tell more"
        )
    middle = float(np.median(earlier))
    spread = 1.4826 * float(np.median(np.abs(np.array(earlier) - middle)))
    place = 1 + sum(value > now for value in earlier)
    words = (
        f"{math.exp(now):.2f}x is number {place} of {len(earlier) + 1} runs of the same code, whose others have "
        f"{math.exp(min(earlier)):.2f}x to {math.exp(max(earlier)):.2f}x, median {math.exp(middle):.2f}x"
    )
    if now > middle + max(LUCKY, SPREADS * spread) and now > max(earlier) + BEST_YET:
        return suspect(f"the best of many: {words}")
    return passed(words)


def _range(ratios: list[float]) -> str:
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return low if low == high else f"{low} to {high}"


# -- what there is -----------------------------------------------------------------------------------------------------

CHECKS: tuple[Check, ...] = (
    Check(
        "statistical.sample_count",
        "Samples enough",
        "Every process of an arm took as many samples as a spread can be told from. How processes differ is known "
        "from the baseline, its double, the arm and earlier runs, and a claim needs an interval that clears the "
        "noise floor.",
        ("statistical.insufficient_samples",),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=_enough,
    ),
    Check(
        "statistical.nothing_dropped",
        "No sample dropped",
        "Every sample is stored; one that does not count has one of two reasons, and each arm's share is shown.",
        ("statistical.cherry_picking", "statistical.one_sided_pruning"),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=_nothing_dropped,
    ),
    Check(
        "statistical.one_median",
        "One median for all",
        "An arm's figure is the median of all its samples that count, made again here from the samples themselves.",
        ("statistical.percentile_selection", "statistical.variance_gaming"),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=_one_median,
    ),
    Check(
        "statistical.steady",
        "As fast later as at first",
        "Whether every process of an arm takes much longer after a while, when its rivals of the same rounds do not: a "
        "stock that is used up, work that was done before the clock ran.",
        ("statistical.cold_start_inclusion", "statistical.insufficient_samples"),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        arm=_steady,
    ),
    Check(
        "statistical.hidden_slow_calls",
        "No slow calls in a fixed rhythm",
        "Whether every so many calls one is slow by plan: it pays for the others, and a median does not see it.",
        ("statistical.variance_gaming", "statistical.outlier_injection", "statistical.amortised_calls"),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        arm=_hidden,
    ),
    Check(
        "statistical.collector",
        "Garbage collection alike",
        "The collector is off while samples are taken and as it was found before; a rung that changes it runs in "
        "another Python than its rivals.",
        ("statistical.gc_interference",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=_collector,
        sensor=Interpreter,
    ),
    Check(
        "statistical.interrupts",
        "No timers of its own",
        "Interval timers that a call leaves to go off within a second: what interrupts the thread that is measured, at "
        "moments that somebody chose. Another switch interval of the interpreter is suspect.",
        ("statistical.outlier_injection",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=_interrupts,
        sensor=Interpreter,
    ),
    Check(
        "statistical.idle_between",
        "Idle while others are measured",
        "Processor time of an arm's process in the pauses in which its rivals are measured. Who works then either "
        "disturbs them or does its own work outside of its samples.",
        ("statistical.background_process_noise", "statistical.outlier_injection"),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=_idle,
        sensor=Pauses,
    ),
    Check(
        "statistical.outliers",
        "Outliers of each side",
        "The share of slow samples of every arm, and how far the baseline and itself are apart. They are shown, never "
        "cut off, and no median follows them.",
        ("statistical.outlier_injection",),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        run=_outliers,
    ),
    Check(
        "statistical.background",
        "Other processes",
        "The processor time that others took during the run. It is shown; it spoils a run where it is overwhelming and "
        "the baseline differs from itself. Where arms met others on the processors it is no pass.",
        ("statistical.background_process_noise",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=_background,
    ),
    Check(
        "statistical.luck",
        "One run among many",
        "Where this speed-up lies among those of earlier runs of the same code, all of which are kept. One far beyond "
        "all others is not what the code is worth.",
        ("statistical.cherry_picking",),
        When.HISTORY,
        evidence=Evidence.TIME,
        arm=_cherry,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "statistical.cherry_picking",
        "Only the best of many calls, or of many runs, is shown.",
        How.DETECTED,
        "Every sample of every run is stored and none can be left out; the figure is the median of all. A run's place "
        "among earlier ones of the same code is shown, and a lucky one is SUSPECT. No kernel chooses what is shown: "
        "tests/checks/test_statistical.py gives the judge a history.",
    ),
    Issue(
        "statistical.outlier_injection",
        "Slow calls are put into the baseline's samples.",
        How.DETECTED,
        "A rung has no part in the baseline's process, the median does not follow outliers, and a process that works "
        "while others are measured is seen.",
        "statistical/outlier_injection",
    ),
    Issue(
        "statistical.variance_gaming",
        "Times are made so that the figure that is shown hides their spread.",
        How.DETECTED,
        "Every figure stands with its interval from all samples; slow calls in a fixed rhythm are found, and the "
        "engine's own clock times long rows of calls, where nothing can hide.",
        "statistical/variance_gaming",
    ),
    Issue(
        "statistical.percentile_selection",
        "A percentile is chosen that favours one side.",
        How.PREVENTED,
        "One function makes one figure, the median, of every arm, and a comparison takes it from both sides. No "
        "setting chooses another. tests/checks/test_statistical.py gives an arm its fastest tenth.",
    ),
    Issue(
        "statistical.insufficient_samples",
        "A claim is made from fewer samples than could bear it.",
        How.PREVENTED,
        "The stop rule stands in the manifest before the run, an interval that does not clear the noise floor is "
        "UNDECIDED, and one process alone has a wider floor. tests/checks/test_statistical.py takes samples away.",
    ),
    Issue(
        "statistical.cold_start_inclusion",
        "The first calls, unlike all later ones, are counted for one side.",
        How.DETECTED,
        "Every arm is warmed up by the same rule before its first sample, and a process whose times step up after a "
        "while is found.",
        "statistical/cold_start_inclusion",
    ),
    Issue(
        "statistical.gc_interference",
        "Garbage collection runs in one side's samples and not in the other's.",
        How.DETECTED,
        "The collector is off in every arm while samples are taken, and a rung that changes it is found.",
        "statistical/gc_interference",
    ),
    Issue(
        "statistical.background_process_noise",
        "Other work on the machine slows one side down.",
        How.DETECTED,
        "Arms take turns in random order, each reversed by the next; the load of others is shown, and a process that "
        "works while its rivals are measured is found.",
        "statistical/background_process_noise",
    ),
    Issue(
        "statistical.one_sided_pruning",
        "Slow samples are cut from one side.",
        How.PREVENTED,
        "Nothing is cut off for being slow: a sample is set aside for a low clock or for host time in it, by one rule "
        "for all, and stays stored. tests/checks/test_statistical.py gives samples an invented reason.",
        listed=False,
    ),
    Issue(
        "statistical.amortised_calls",
        "One call in many does the work of all, and the figure is that of the others.",
        How.DETECTED,
        "Slow calls in a fixed rhythm are found in the samples, and rows of calls are timed by the engine's own clock.",
        "statistical/variance_gaming",
        listed=False,
    ),
)
