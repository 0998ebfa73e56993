"""Taking the samples of one run: when measuring ends, how a sample is taken, who is next, and waiting for a hot GPU.

The stop rule is written into the run's manifest before the first sample. Whether short calls are timed as launch
batches is decided once, for all arms alike, from the warm-up of the first replica: what is timed in two ways is not
compared.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from aisp.engine.arms import Arm, ArmEnd, ArmProcess, ask, expect, explain, impossible_time, named
from aisp.engine.contention import Crowd
from aisp.engine.protocol import events, jobs, reports
from aisp.engine.silence import awaiting
from aisp.engine.spawner import ChildGoneError, ChildTimeoutError
from aisp.engine.statistics import LOOKS, Look
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import State, Timing
from aisp.store.record import Step
from aisp.store.text import clean_line

T = TypeVar("T")

SHORT_MS = 0.010  # a faster call is timed as launch batches: an event pair around it is off by over 2 %
BATCH_BELOW_MS = 0.060  # so are its rivals, up to here; above, the way of timing makes under 1 % of difference
UNKNOWN = 0.060, 0.200  # both, where nobody knows what an event pair reads: some 1.2 us are left in each
SAMPLE_MS = 0.3  # what one sample of several calls should last
KINDS = ("graph", "batch", "single")  # how calls are launched together, each weaker than the one before
CALLS = (8, 32)  # least and most calls in it
THROTTLED = 1  # store.record.DISCARDED
THROTTLED_BELOW = 0.75  # of the clock that an arm usually has
STALLED_BELOW = 0.5  # of that under light load, while its usual one is not known
USUAL_SAMPLES = 5  # that say what is usual
TRIES = 3  # of a turn of which no sample counts
LEAST_SAMPLES = 3  # in a turn, where the budget allows
SPARED = 10.0  # times as slow as the fastest arm of a quick run: one sample a turn says what there is to say
CLEAR = 0.25  # of its log, that the half-width of a ratio may have in a quick run
METHODS = {"cpu": 1, "cuda": 3}
"""Version of the way times are taken, by device: from 2 on no lines of the flush are left to be written back, from 3 on
all is taken off that an event pair reads beyond the kernels, and calls from 10 us on are timed alone
(docs/measurement.md). Runs that name none have 1."""
AGAIN = 1 / 8  # chance that a timed call gets the very values of the one before it


@dataclass(frozen=True, slots=True)
class StopRule:
    """When measuring ends; written into the manifest before the first sample.

    Attributes:
        replicas: fresh processes for every arm, at most.
        looks: after how many of them the comparisons are looked at: once all are decided, no further one is taken.
            Empty where as many are taken as were asked for.
        least_rounds, most_rounds: in each replica. Between them it ends as soon as the interval of every comparison,
            over the rounds of this replica, is no wider than `half_width` on either side.
        half_width: relative.
        budget_s: for the rounds of one replica; no round beyond the least begins after it. It starts after the
            warm-up, however long that took.
        turn_ms: of one arm in one round; at least three samples, at most `turn_samples`.
        input_sets: how many sets of values the timed calls draw from (`drawn_sets`).
        cooling_s: the most that a run waits for a GPU whose clock has fallen.
        cache: what the L2 holds before a sample.
        interleaved: arms take turns; else one arm is measured after the other.
        method: version of the way times are taken (METHODS); times of two of them cannot be compared.
        clear: a ratio needs no further round either where `half_width` is at most that share of its log: what is left
            open is how processes differ, and no round says that.
        spared: an arm that is so many times as slow as the fastest takes one sample in a turn that it would overrun; 0
            for none.
    """

    replicas: int
    least_rounds: int
    most_rounds: int
    half_width: float
    budget_s: float
    turn_ms: float
    turn_samples: int
    input_sets: int
    warm_up_ms: float
    cooling_s: float
    cache: Cache = Cache.COLD
    interleaved: bool = True
    looks: tuple[Look, ...] = ()
    method: int = 1
    clear: float = 0.0
    spared: float = 0.0

    @staticmethod
    def of(
        *,
        quick: bool,
        replicas: int,
        cache: Cache = Cache.COLD,
        interleaved: bool = True,
        device: str = "cpu",
    ) -> StopRule:
        """The rule of a mode; `replicas` overrides its number of fresh processes, 0 does not."""
        if quick:
            numbers = (replicas or 2, 4, 8, 0.01, 4.0, 20.0, 64, 2, 40.0, 3.0)
            return StopRule(*numbers, cache, interleaved, method=METHODS[device], clear=CLEAR, spared=SPARED)
        looks = () if replicas else LOOKS
        most = replicas or LOOKS[-1].replicas
        return StopRule(most, 6, 12, 0.01, 20.0, 40.0, 128, 3, 200.0, 30.0, cache, interleaved, looks, METHODS[device])

    def manifest(self) -> dict[str, object]:
        """Plain data for a run's manifest."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        looks = [{"replicas": look.replicas, "level": look.level, "margin": look.margin} for look in self.looks]
        return plain | {"looks": looks}


def calls_for(per_call_ms: float) -> int:
    """How many calls one sample should time: a power of two, so that rivals of like speed have like batches."""
    least, most = CALLS
    wanted = math.ceil(SAMPLE_MS / max(per_call_ms, 1e-6))
    return min(max(1 << (wanted - 1).bit_length(), least), most)


def drawn_sets(order: random.Random, sets: int, calls: int) -> list[int]:
    """Which set of values each of `calls` timed calls gets, of `sets` in all: mostly not that of the call before.

    A rung may save its work where nothing has changed since the last call, which is worth nothing to its user. Repeats
    are rare and not left out, so that nobody can foretell the next set from those before.
    """
    sequence = [order.randrange(sets)]
    while len(sequence) < calls:
        other = (sequence[-1] + order.randrange(1, sets)) % sets if sets > 1 else 0
        sequence.append(sequence[-1] if order.random() < AGAIN else other)
    return sequence


class StintFailure(Exception):
    """One of several came to its end."""

    def __init__(self, process: ArmProcess, end: ArmEnd) -> None:
        super().__init__(process.name)
        self.process = process
        self.end = end


class Alternation:
    """In which order the same ones are taken again and again: each order has its reverse (ABBA).

    Args:
        chance: where orders are drawn from.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._last: list[Any] = []

    def of(self, taking_part: Sequence[T], number: int) -> Sequence[T]:
        """In random order where `number` is even, else in the reverse of the order before."""
        if number % 2 == 0:
            self._last = list(taking_part)
            self._chance.shuffle(self._last)
        else:
            self._last = self._last[::-1]
        wanted = {id(one) for one in taking_part}
        return [one for one in self._last if id(one) in wanted]


class Turns:
    """Serves one run. Whatever goes wrong with an arm is raised as ArmEnd; the run decides what that ends.

    Args:
        run_id: for the events.
        case: the timed case.
        rule: of the run.
        chance: the run's own source of it.
        publish: where events go.
        report_step: where a step goes that has ended.
        patience_s: how long a process may give no sign.

    Attributes:
        pair_ms: see jobs.WarmUp.
    """

    def __init__(
        self,
        run_id: str,
        case: str,
        rule: StopRule,
        chance: random.Random,
        publish: Callable[[events.Event], None],
        report_step: Callable[[Step], None],
        patience_s: float,
    ) -> None:
        self._run_id = run_id
        self._case = case
        self._rule = rule
        self._chance = chance
        self._publish, self._report_step = publish, report_step
        self._patience_s = patience_s
        self._kind = ""  # "graph", "batch" or "single" once it is decided
        self._calls: dict[str, int] = {}
        self._fastest_ms = math.inf
        self._cooling_left_s = rule.cooling_s
        self.reference_mhz = math.nan
        self.pair_ms: float | None = None
        self.notes: list[str] = []

    # -- how a sample is taken -------------------------------------------------------------------------------------

    async def warm_up(self, process: ArmProcess) -> None:
        """Bring a process to a steady state."""
        budget_ms, cache = self._rule.warm_up_ms, self._rule.cache
        job = jobs.WarmUp(case=self._case, budget_ms=budget_ms, cache=cache, pair_ms=self.pair_ms)
        warmed = await ask(process.child, job, reports.WarmedUp, self._patience_s, process.name)
        if not (math.isfinite(warmed.per_call_ms) and math.isfinite(warmed.per_sample_ms)):
            raise impossible_time()
        arm = process.arm
        arm.calls = process.calls
        self._set_timing(arm, warmed.timing)
        process.per_call_ms, process.per_sample_ms = warmed.per_call_ms, warmed.per_sample_ms
        self._fastest_ms = min(self._fastest_ms, warmed.per_call_ms)
        arm.resolution_ms, arm.overhead_ms = warmed.resolution_ms, warmed.overhead_ms
        arm.probe_step_ms, arm.probe_overhead_ms = warmed.probe_step_ms, warmed.probe_overhead_ms
        if not warmed.reference_mhz <= self.reference_mhz:  # either may be NaN
            self.reference_mhz = warmed.reference_mhz

    def _set_timing(self, arm: Arm, name: str) -> None:
        timing = Timing(name)
        if arm.samples.device_ms and arm.timing is not timing and not (timing.held and arm.timing.held):
            # One process held the stream and another could not: the weaker word holds for all.
            timing = timing if not timing.held else arm.timing
        arm.timing = timing

    async def choose(self, processes: Sequence[ArmProcess]) -> None:
        """Let short calls be timed as launch batches: as a graph, else one by one behind the hold, else alone.

        All arms under BATCH_BELOW_MS are timed the same way, so one that cannot follow keeps the others back.
        """
        if not self._rule.interleaved or any(not process.arm.timing.held for process in processes):
            return
        if not self._kind:
            short_ms, batch_ms = UNKNOWN if self.pair_ms is None else (SHORT_MS, BATCH_BELOW_MS)
            self._kind = "graph" if min(process.per_call_ms for process in processes) < short_ms else "single"
            for process in processes:
                if process.per_call_ms < batch_ms:
                    self._calls[process.arm.rung.name] = calls_for(process.per_call_ms)
        if self._kind == "single":
            return
        short = [process for process in processes if process.arm.rung.name in self._calls]
        granted: dict[str, str] = {}
        reasons: set[str] = set()
        while unlike := [process for process in short if granted.get(process.name) != self._kind]:
            process = unlike[0]
            answer = await self._group(process)
            granted[process.name] = answer.kind
            if answer.kind != self._kind:  # weaker than asked for, so it decides for all
                self._kind = answer.kind
                reasons.add(f"{process.name}: {answer.note}")
                self.notes = [f"short calls timed as {self._kind}; {clean_line('; '.join(sorted(reasons)))}"]

    async def _group(self, process: ArmProcess) -> reports.Grouped:
        arm = process.arm
        job = jobs.Group(case=self._case, kind=self._kind, calls=self._calls[arm.rung.name])
        try:
            grouped = await ask(process.child, job, reports.Grouped, self._patience_s, arm.name)
            if grouped.calls < 1:
                raise ArmEnd(State.INFRA_ERROR, f"{arm.name} answered with {grouped.calls} calls in a sample")
            if grouped.kind not in KINDS[KINDS.index(self._kind) :]:
                raise ArmEnd(State.INFRA_ERROR, f"{arm.name} was asked for a {self._kind}, and made a {grouped.kind}")
        except ArmEnd as end:
            raise StintFailure(process, end) from None
        self._set_timing(arm, grouped.timing)
        arm.calls = process.calls = grouped.calls
        arm.overhead_ms = grouped.overhead_ms
        process.per_sample_ms = grouped.per_sample_ms
        return grouped

    # -- turns -----------------------------------------------------------------------------------------------------

    def over(self, done: int, started_s: float, widest: float | None) -> bool:
        """Whether a replica has had rounds enough.

        Args:
            done: rounds.
            started_s: time.monotonic() at the first.
            widest: see verdicts.widest; None where there is nothing to compare.
        """
        if done < self._rule.least_rounds:
            return False
        if done >= self._rule.most_rounds or time.monotonic() - started_s > self._rule.budget_s:
            return True
        # An even number of rounds: each order has had its reverse.
        return done % 2 == 0 and widest is not None and widest <= self._rule.half_width

    async def turn(self, process: ArmProcess, number: int) -> None:
        """The samples of one round; on a CPU also how long its threads stood in line meanwhile."""
        if process.arm.timing is not Timing.HOST:
            await self._turn(process, number)
            return
        with Crowd(process.child.pid) as crowd:
            await self._turn(process, number)
        process.arm.waits.add(crowd)

    async def _turn(self, process: ArmProcess, number: int) -> None:
        """Take the samples of a turn, again where none of them counts."""
        for _ in range(TRIES):
            before = len(process.arm.samples.discarded)
            throttled = await self._once(process, number)
            if throttled or 0 in process.arm.samples.discarded[before:]:
                return

    async def _once(self, process: ArmProcess, number: int) -> bool:
        """Take the samples of a turn. A GPU whose clock has fallen is given time before the next sample; whether it was
        still low after all the time that there is."""
        rule = self._rule
        spared = 0 < rule.spared * self._fastest_ms <= process.per_call_ms
        least = 1 if spared else LEAST_SAMPLES
        wanted = max(least, min(rule.turn_samples, int(rule.turn_ms / max(process.per_sample_ms, 0.01))))
        sets = drawn_sets(self._chance, rule.input_sets, wanted * process.calls)
        # Slow calls get three samples a turn; nothing gets more than its share of time beyond that.
        budget_ms = max(4 * rule.turn_ms, 4 * process.per_sample_ms)
        pause_s = 0.1
        while sets:
            least_mhz = self._least_mhz(process)
            job = jobs.Measure(
                case=self._case, round=number, sets=sets, budget_ms=budget_ms, least_mhz=round(least_mhz, 3)
            )
            taken, throttled = await self._samples(process, job)
            sets = sets[taken * process.calls :]
            if not throttled or not sets or self._cooling_left_s <= 0:
                return throttled
            start = time.monotonic_ns()
            pause_s = min(pause_s, self._cooling_left_s)
            await asyncio.sleep(pause_s)
            self._cooling_left_s -= pause_s
            took_ms = (time.monotonic_ns() - start) / 1e6
            self._report_step(Step("cooling", process.name, start, took_ms, f"SM clock under {least_mhz:.0f} MHz"))
            pause_s = min(2 * pause_s, 1.0)
        return False

    def _least_mhz(self, process: ArmProcess) -> float:
        """The clock below which a sample is set aside, held against what is usual for this arm: a matrix product that
        the power limit keeps at 1480 MHz runs there for its user, too."""
        clocks_mhz = [mhz for mhz in process.arm.samples.sm_clock_mhz if math.isfinite(mhz)]
        if len(clocks_mhz) >= USUAL_SAMPLES:
            return THROTTLED_BELOW * statistics.median(clocks_mhz)
        return 0.0 if math.isnan(self.reference_mhz) else STALLED_BELOW * self.reference_mhz

    async def _samples(self, process: ArmProcess, job: jobs.Measure) -> tuple[int, bool]:
        """How many samples came, and whether the last of them was set aside for a low clock."""
        taken = 0
        publish = (lambda event: None) if process.arm.again else self._publish
        report: reports.Report = await ask(process.child, job, reports.Samples, self._patience_s, process.name)
        while True:
            batch = expect(report, reports.Samples, named(process.child, process.name))
            process.take(batch)
            taken += len(batch.device_ms)
            publish(
                events.SampleBatch(
                    run_id=self._run_id,
                    arm=process.name,
                    replica=process.replica,
                    round=batch.round,
                    timing=process.arm.timing,
                    device_ms=batch.device_ms,
                    end_ns=batch.end_ns,
                    discarded=batch.discarded,
                    sm_clock_mhz=batch.sm_clock_mhz,
                )
            )
            if batch.last:
                return taken, batch.discarded[-1:] == [THROTTLED]
            report = await self._receive(process)

    async def _receive(self, process: ArmProcess) -> reports.Report:
        try:
            with awaiting(process.name, self._patience_s):
                return await process.child.receive(self._patience_s)
        except (ChildGoneError, ChildTimeoutError) as error:
            raise await explain(process.child, error, process.name) from None
