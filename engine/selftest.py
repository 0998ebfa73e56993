"""How often the statistics err, found with times whose truth is known. No GPU, no process but this one.

Made-up streams of samples go through the code that judges real ones: rounds and replicas up to the stop rule, ratios
within rounds, the A/A arm's floor, the interval, the verdict in time and in cycles. For identical arms any FASTER or
SLOWER is false; for an arm that is truly faster the share of FASTER is the power.

    python -m aisp.engine.selftest [--json] [--trials N] [--seed N] [--streams A,B]

Exit status: 0, or 1 when a rate is out of its band. The same seed gives the same rates.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aisp.engine import statistics
from aisp.engine.statistics import Floats, Ints
from aisp.engine.turns import THROTTLED_BELOW, StopRule
from aisp.store.outcomes import Verdict

EFFECTS = (0.005, 0.01, 0.02, 0.05, 0.10, 1.0)
QUICK_BAND = 0.05  # of false claims in quick runs: two processes show little of how processes differ
TRIALS = 400
SEED = 20240229
SAMPLES = 12  # of one arm in one round
BASE_MS = 0.1
BOOST_MHZ = 1980.0


@dataclass(frozen=True, slots=True)
class Session:
    """The order in which a run's samples are taken, and its source of chance.

    Attributes:
        random: of this trial alone.
        shape: (replicas, rounds, arms, samples in a turn).
        moment: int64 [shape], position of each sample in its replica.
        length: samples of all arms in one replica.
    """

    random: np.random.Generator
    shape: tuple[int, int, int, int]
    moment: Ints
    length: int

    @staticmethod
    def of(random: np.random.Generator, replicas: int, rounds: int, arms: int) -> Session:
        """Arms take turns in a random order, and in its reverse in the next round."""
        shape = (replicas, rounds, arms, SAMPLES)
        order = np.argsort(random.random((replicas, (rounds + 1) // 2, arms)), axis=2)
        position = np.stack([order, arms - 1 - order], axis=2).reshape(replicas, -1, arms)[:, :rounds]
        turn = np.arange(rounds)[:, None] * arms + position
        return Session(random, shape, turn[..., None] * SAMPLES + np.arange(SAMPLES), rounds * arms * SAMPLES)

    def noise(self, spread: float) -> Floats:
        """Noise of every sample by itself, normal, as a log: [shape]."""
        return self.random.normal(0.0, spread, self.shape)

    def machine(self, series: Floats) -> Floats:
        """A state of the machine at each moment of each replica, [replicas, length], as the arms meet it: [shape]."""
        state = np.take_along_axis(series, self.moment.reshape(self.shape[0], -1), axis=1)
        return np.asarray(state.reshape(self.shape), np.float64)

    def process(self, values: Floats) -> Floats:
        """One value for each process, [replicas, arms], for each of its samples: [shape]."""
        return np.broadcast_to(values[:, None, :, None], self.shape)


@dataclass(frozen=True, slots=True)
class Stream:
    """Samples of arms that do the same work: the baseline, the rung and, in the full protocol, the baseline again.

    Attributes:
        logs: float64 [replicas, rounds, arms, samples], log of time over `BASE_MS`.
        clock_mhz: the same shape, or None where no clock is known.
    """

    logs: Floats
    clock_mhz: Floats | None = None


def _ar1(random: np.random.Generator, count: int, length: int, memory: float, spread: float) -> Floats:
    """Stationary AR(1) series: [count, length], standard deviation `spread`."""
    pushes = random.normal(0.0, spread * math.sqrt(1 - memory**2), (count, length))
    pushes[:, 0] /= math.sqrt(1 - memory**2)
    powers = memory ** np.arange(length)  # 0.9 to the 720th is 1e-33, far from the least float64
    return np.asarray(np.cumsum(pushes / powers, axis=1) * powers, np.float64)


def _iid(session: Session) -> Stream:
    return Stream(session.noise(0.01))


def _ramp(session: Session) -> Stream:
    replicas = session.shape[0]
    within = 0.2 * np.arange(session.length) / session.length
    over = 0.1 * np.arange(replicas) / replicas
    return Stream(session.noise(0.005) + session.machine(within + over[:, None]))


def _transient(session: Session) -> Stream:
    """The warm-up was too short: 30 % slow at first, and a third of that is left after two rounds."""
    _, _, arms, samples = session.shape
    decay = 0.3 * np.exp(-np.arange(session.length) / (2 * arms * samples))
    return Stream(session.noise(0.005) + session.machine(np.tile(decay, (session.shape[0], 1))))


def _two_modes(session: Session) -> Stream:
    """Three samples in ten are 5 % slower."""
    return Stream(session.noise(0.005) + 0.05 * (session.random.random(session.shape) < 0.3))


def _some_slower(share: float, by: float) -> Callable[[Session], Stream]:
    """That share of processes is slower by so much for all of its life: where its memory came to lie, say."""

    def make(session: Session) -> Stream:
        replicas, _, arms, _ = session.shape
        slow = session.random.random((replicas, arms)) < share
        return Stream(session.noise(0.005) + session.process(np.where(slow, by, 0.0)))

    return make


def _differing(spread: float) -> Callable[[Session], Stream]:
    """Each process has a speed of its own, with that standard deviation."""

    def make(session: Session) -> Stream:
        replicas, _, arms, _ = session.shape
        return Stream(session.noise(0.005) + session.process(session.random.normal(0.0, spread, (replicas, arms))))

    return make


def _heavy_processes(session: Session) -> Stream:
    """Each process has a speed of its own, by Student's t with 3 degrees of freedom and a standard deviation of 1 %."""
    replicas, _, arms, _ = session.shape
    speeds = 0.01 / math.sqrt(3) * session.random.standard_t(3, (replicas, arms))
    return Stream(session.noise(0.005) + session.process(speeds))


def _one_unsteady(session: Session) -> Stream:
    """The rung's processes differ ten times as much as those of the others: by 2 %."""
    replicas, _, arms, _ = session.shape
    spread = np.array([0.002, 0.02, 0.002])[:arms]
    return Stream(session.noise(0.005) + session.process(session.random.normal(0.0, 1.0, (replicas, arms)) * spread))


def _autoregressive(session: Session) -> Stream:
    """The machine's state drifts with a memory of ten samples, and each process's own with one of twenty."""
    replicas, rounds, arms, samples = session.shape
    machine = session.machine(_ar1(session.random, replicas, session.length, 0.9, 0.02))
    own = _ar1(session.random, replicas * arms, rounds * samples, 0.95, 0.005).reshape(replicas, arms, rounds, samples)
    return Stream(session.noise(0.003) + machine + own.transpose(0, 2, 1, 3))


def _heavy_tails(session: Session) -> Stream:
    """Student's t with 2 degrees of freedom, and one sample in twenty takes up to three times as long."""
    tails = 0.005 * session.random.standard_t(2, session.shape)
    slow = math.log(3) * session.random.random(session.shape)
    return Stream(np.clip(tails, -0.5, 3.0) + np.where(session.random.random(session.shape) < 0.05, slow, 0.0))


def _uneven_turns(session: Session) -> Stream:
    """The noise of a turn is 0.5 %, or a fifth or five times of it."""
    spread = 0.005 * 5.0 ** session.random.uniform(-1.0, 1.0, (*session.shape[:3], 1))
    return Stream(session.random.normal(0.0, 1.0, session.shape) * spread)


def _clock_steps(session: Session) -> Stream:
    """The clock steps at random moments for whoever is at work, now and then under what counts."""
    replicas = session.shape[0]
    clocks = np.empty((replicas, session.length))
    levels = BOOST_MHZ * np.array([1.0, 0.95, 0.9, 0.85, 0.8, 0.6])
    for replica in range(replicas):
        moments = np.sort(session.random.integers(0, session.length, session.random.poisson(8)))
        level = session.random.choice(levels, len(moments) + 1, p=(0.3, 0.2, 0.2, 0.1, 0.1, 0.1))
        clocks[replica] = level[np.searchsorted(moments, np.arange(session.length), side="right")]
    true = session.machine(clocks)
    return Stream(session.noise(0.005) + np.log(BOOST_MHZ / true), true * np.exp(session.noise(0.003)))


def _clocks_apart(session: Session) -> Stream:
    """Equal work at clocks that are 3 % apart: in time one is faster, in cycles none is."""
    clocks = BOOST_MHZ * np.array([0.95, 0.98, 0.95])[: session.shape[2]]
    true = np.broadcast_to(clocks[None, None, :, None], session.shape)
    return Stream(session.noise(0.005) + np.log(BOOST_MHZ / true), true * np.exp(session.noise(0.003)))


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of stream and what is asked of the verdicts on it.

    Attributes:
        make: samples of a session.
        least_power: by effect, of the full protocol: a rule that never decides errs too.
        quick_power: as least_power, of the quick protocol: two replicas tell little, and what they tell holds.
        quick_coverage: the least share of 95 % intervals of the quick protocol that hold the truth.
    """

    make: Callable[[Session], Stream]
    least_power: dict[float, float]
    quick_power: dict[float, float] = field(default_factory=lambda: {1.0: 0.95})
    quick_coverage: float = 0.9


STREAMS: dict[str, Shape] = {
    "iid": Shape(_iid, {0.01: 0.15, 0.02: 0.95}, quick_power={0.05: 0.95}),
    "ramp": Shape(_ramp, {0.02: 0.95}),
    "transient": Shape(_transient, {0.02: 0.95}),
    "two-modes": Shape(_two_modes, {0.02: 0.95}),
    # Half of the processes are 5 % slower: the floor rises above that, and only what is clear of it is reported.
    "process-modes": Shape(_some_slower(0.5, 0.05), {0.10: 0.1}, quick_power={1.0: 0.85}),
    "processes": Shape(_differing(0.01), {0.05: 0.5, 0.10: 0.95}),
    "heavy-processes": Shape(_heavy_processes, {0.05: 0.8, 0.10: 0.95}),
    # Three times as far apart as the prior says.
    "wide-processes": Shape(_differing(0.015), {0.10: 0.6}),
    "slow-processes": Shape(_some_slower(0.2, 0.1), {0.10: 0.35}, quick_power={1.0: 0.7}),
    # Two processes of one arm show by one number that it is not like the others, and often by a small one.
    "one-unsteady": Shape(_one_unsteady, {0.05: 0.45, 0.10: 0.95}, quick_coverage=0.75),
    "ar1": Shape(_autoregressive, {0.05: 0.95}),
    "heavy-tails": Shape(_heavy_tails, {0.02: 0.95}),
    "uneven-turns": Shape(_uneven_turns, {0.02: 0.95}),
    # A replica often loses rounds to clocks that do not count.
    "clock-steps": Shape(_clock_steps, {0.02: 0.7, 0.05: 0.9}, quick_power={1.0: 0.8}),
    "clocks-apart": Shape(_clocks_apart, {0.02: 0.95}),
}

LEAST_COVERAGE = 0.9  # of the 95 % intervals of full runs, whatever the stream
BANDS = {"full": (0.0, statistics.CLAIM), "quick": (0.0, QUICK_BAND)}
PROTOCOLS = {"full": StopRule.of(quick=False, replicas=0), "quick": StopRule.of(quick=True, replicas=0)}


# -- one trial ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """The ratio of one trial at one look and its floor, in time and, where clocks are known, in cycles."""

    time: tuple[statistics.Estimate, float]
    cycles: tuple[statistics.Estimate, float] | None
    quick: bool
    replicas: int
    looks: Sequence[statistics.Look]

    def verdict(self, effect: float) -> Verdict:
        """On a rung that is truly faster by `effect`: the ratio of the same samples moves by that much."""
        by = math.log1p(effect)
        ratio, *confirming = [
            statistics.decide(estimate.shifted(by), floor, quick=self.quick, looks=self.looks)
            for estimate, floor in (self.time, *([self.cycles] if self.cycles else []))
        ]
        return statistics.confirmed(ratio, confirming[0] if confirming else None).verdict

    @property
    def interval(self) -> tuple[float, float]:
        """That of 95 %, as logs; in cycles where clocks are known: identical arms differ in time where those do."""
        return (self.cycles or self.time)[0].interval()


def outcome(looked: Sequence[Judged], effect: float) -> tuple[Verdict, int]:
    """The verdict of the first look that decides, else of the last, and how many replicas it took; NONE without any."""
    verdict, replicas = Verdict.NONE, 0
    for judged in looked:
        verdict, replicas = judged.verdict(effect), judged.replicas
        if verdict is not Verdict.UNDECIDED:
            break
    return verdict, replicas


def trial(shape: Shape, rule: StopRule, random: np.random.Generator, effect: float = 0.0) -> list[Judged]:
    """One run of identical arms as it stands at each look; empty where no round was left to compare.

    Args:
        effect: it ends when it would for a rung that is truly faster by so much.
    """
    quick = rule is PROTOCOLS["quick"]
    session = Session.of(random, rule.replicas, rule.most_rounds, 3)
    stream = shape.make(session)
    times = BASE_MS * np.exp(stream.logs)
    kept = np.ones(session.shape, np.bool_)
    if stream.clock_mhz is not None:
        usual_mhz = np.median(stream.clock_mhz, axis=(0, 1, 3), keepdims=True)
        kept = stream.clock_mhz >= THROTTLED_BELOW * usual_mhz
    base, rung, *twin = _arms(times, kept)
    last = _last_rounds(base, rung, rule, math.log1p(effect))
    by_time = [_until(arm, last) for arm in (base, rung, *twin)]
    by_cycles = None
    if stream.clock_mhz is not None:
        by_cycles = [_until(arm, last) for arm in _arms(times * stream.clock_mhz, kept)]
    looked = []
    for replicas in [look.replicas for look in rule.looks] or [rule.replicas]:
        time_judged = _judged(by_time, replicas, quick)
        cycles_judged = _judged(by_cycles, replicas, quick) if by_cycles else None
        if time_judged is not None:
            looked.append(Judged(time_judged, cycles_judged, quick, replicas, rule.looks))
    return looked


def _arms(values: Floats, kept: npt.NDArray[np.bool_]) -> list[statistics.ByRound]:
    """Values of the samples that count, arm by arm."""
    replica, rounds = (index.astype(np.int64) for index in np.indices(values.shape)[:2])
    by_arm = []
    for arm in range(values.shape[2]):
        chosen = kept[:, :, arm]
        own = values[:, :, arm][chosen]
        by_arm.append(statistics.by_round(own, replica[:, :, arm][chosen], rounds[:, :, arm][chosen]))
    return by_arm


def _last_rounds(base: statistics.ByRound, rung: statistics.ByRound, rule: StopRule, by: float = 0.0) -> Ints:
    """How many rounds each replica has had when the stop rule ends it, of a rung whose log ratio is higher `by` that:
    int64 [replicas].
    """
    last = np.full(rule.replicas, rule.most_rounds, np.int64)
    for replica in range(rule.replicas):
        own, other = (arm.of(arm.replica == replica) for arm in (base, rung))
        rounds = np.intersect1d(own.round, other.round, assume_unique=True)
        (ratios,) = statistics.log_ratios(own, other) or [np.empty(0)]
        for done in range(rule.least_rounds, rule.most_rounds, 2):
            if statistics.half_width(ratios[rounds < done] + by, rule.clear) <= rule.half_width:
                last[replica] = done
                break
    return last


def _until(arm: statistics.ByRound, last: Ints) -> statistics.ByRound:
    return arm.of(arm.round < last[arm.replica])


def _judged(of: Sequence[statistics.ByRound], replicas: int, quick: bool) -> tuple[statistics.Estimate, float] | None:
    """The ratio of the second arm by so many replicas and the floor beside it; the third is the A/A arm. With what is
    shipped of how processes on a GPU differ."""
    base, *others = (arm.of(arm.replica < replicas) for arm in of)
    arms = dict(zip(("rung", "twin"), others, strict=False))
    estimates = statistics.estimates(base, arms, statistics.PRIORS["cuda"][statistics.HELD], same=("twin",))
    estimate = estimates["rung"]
    return None if estimate is None else (estimate, statistics.noise_floor(estimates.get("twin"), quick=quick))


# -- rates -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rates:
    """What became of the trials of one stream under one protocol.

    Attributes:
        false_positive_rate: share of FASTER or SLOWER for identical arms.
        interval: its own 95 % interval for so many trials (Wilson).
        band: where the rate must lie.
        power: by true effect, share of FASTER.
        least_power: what it must reach.
        same_rate: share of SAME for identical arms.
        coverage, coverage_most: share of 95 % intervals that hold the truth, of all replicas, and the most that it can
            be for so many trials (Wilson).
        least_coverage: what that must reach.
        width: of these intervals, in the median.
        wrong_sign_rate: share of SLOWER over all true effects.
        replicas: by true effect, how many were taken until it was decided, on average.
    """

    name: str
    protocol: str
    trials: int
    false_positive_rate: float
    interval: tuple[float, float]
    band: tuple[float, float]
    power: dict[float, float]
    least_power: dict[float, float]
    same_rate: float
    wrong_sign_rate: float
    replicas: dict[float, float]
    coverage: float
    coverage_most: float
    least_coverage: float
    width: float

    @property
    def ok(self) -> bool:
        """Whether every rate lies in its band."""
        low, high = self.band
        powerful = all(self.power[effect] >= least for effect, least in self.least_power.items())
        covered = self.coverage_most >= self.least_coverage
        return low <= self.false_positive_rate <= high and powerful and covered

    def document(self) -> dict[str, object]:
        """For JSON."""
        return {
            "name": self.name if self.protocol == "full" else f"{self.name} ({self.protocol})",
            "protocol": self.protocol,
            "false_positive_rate": self.false_positive_rate,
            "interval": list(self.interval),
            "band": list(self.band),
            "power": {str(effect): rate for effect, rate in self.power.items()},
            "least_power": {str(effect): rate for effect, rate in self.least_power.items()},
            "same_rate": self.same_rate,
            "wrong_sign_rate": self.wrong_sign_rate,
            "replicas": {str(effect): count for effect, count in self.replicas.items()},
            "coverage": self.coverage,
            "least_coverage": self.least_coverage,
            "width": self.width,
            "ok": self.ok,
        }


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """95 % interval of a rate (Wilson, 1927)."""
    z = 1.959963984540054
    rate = hits / trials
    middle = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    reach = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials**2))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def rates(name: str, protocol: str, trials: int, seed: int) -> Rates:
    """The rates of one stream under one protocol. A trial depends on seed, stream, protocol and its number alone."""
    shape, rule = STREAMS[name], PROTOCOLS[protocol]
    own = [seed, list(STREAMS).index(name), list(PROTOCOLS).index(protocol)]
    idle: list[Verdict] = []
    truly: dict[float, list[Verdict]] = {effect: [] for effect in EFFECTS}
    taken = dict.fromkeys(EFFECTS, 0)
    held: list[bool] = []
    widths: list[float] = []
    for number in range(trials):

        def looked_at(effect: float, number: int = number) -> list[Judged]:
            return trial(shape, rule, np.random.default_rng([*own, number]), effect)

        looked = looked_at(0.0)
        idle.append(outcome(looked, 0.0)[0])
        if looked:
            low, high = looked[-1].interval
            held.append(low <= 0 <= high)
            widths.append(high - low)
        for effect in EFFECTS:
            verdict, replicas = outcome(looked_at(effect) if rule.clear else looked, effect)
            truly[effect].append(verdict)
            taken[effect] += replicas
    false = sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in idle)
    return Rates(
        name,
        protocol,
        trials,
        false / trials,
        wilson(false, trials),
        BANDS[protocol],
        {effect: verdicts.count(Verdict.FASTER) / trials for effect, verdicts in truly.items()},
        shape.least_power if protocol == "full" else shape.quick_power,
        idle.count(Verdict.SAME) / trials,
        sum(verdicts.count(Verdict.SLOWER) for verdicts in truly.values()) / (trials * len(EFFECTS)),
        {effect: count / trials for effect, count in taken.items()},
        sum(held) / max(1, len(held)),
        wilson(sum(held), max(1, len(held)))[1],
        LEAST_COVERAGE if protocol == "full" else shape.quick_coverage,
        float(np.median(widths)),
    )


# -- the command -------------------------------------------------------------------------------------------------------


def document(all_rates: Sequence[Rates], trials: int, seed: int) -> dict[str, object]:
    """The result as plain data: the schema of `aisp dev selftest --json`."""
    return {
        "streams": [one.document() for one in all_rates],
        "trials": trials,
        "seed": seed,
        "replicas": PROTOCOLS["full"].replicas,
        "looks": PROTOCOLS["full"].manifest()["looks"],
        "level": statistics.CLAIM,
        "ok": all(one.ok for one in all_rates),
    }


def table(all_rates: Sequence[Rates], trials: int, seed: int) -> list[str]:
    """The result for people, as lines."""
    heads = "".join(f"{f'{effect:.1%}':>10}" for effect in EFFECTS)
    lines = [
        f"{trials} trials a row, seed {seed}. false: FASTER or SLOWER for identical arms, same: SAME for them;",
        "by true effect: the share called FASTER, and after how many replicas on average. quick: two,",
        "which see little, and err seldom. holds, wide: of the 95 % interval of all replicas.",
        "",
        f"{'stream':<17}{'protocol':<10}{'false':>7}  {'95 % interval':<16}{'band':<10}{'same':>6}{'holds':>7}"
        f"{'wide':>7} {heads}",
    ]
    for one in all_rates:
        interval = f"{one.interval[0]:.1%}..{one.interval[1]:.1%}"
        band = f"{one.band[0]:.0%}..{one.band[1]:.0%}"
        power = "".join(f"{f'{one.power[effect]:.0%} {one.replicas[effect]:.1f}':>10}" for effect in EFFECTS)
        end = "" if one.ok else "  out of its band"
        lines.append(
            f"{one.name:<17}{one.protocol:<10}{one.false_positive_rate:>7.1%}  {interval:<16}{band:<10}"
            f"{one.same_rate:>6.0%}{one.coverage:>7.1%}{one.width:>7.1%} {power}{end}"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m aisp.engine.selftest", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"for each stream and protocol; {TRIALS}")
    parser.add_argument("--seed", type=int, default=SEED, help="the same seed gives the same rates")
    parser.add_argument("--streams", default=",".join(STREAMS), metavar="A,B", help="some of " + ", ".join(STREAMS))
    options = parser.parse_args(arguments)
    names = [name.strip() for name in options.streams.split(",") if name.strip()]
    unknown = [name for name in names if name not in STREAMS]
    if unknown or not names:
        parser.error(f"no stream named {', '.join(unknown) or '(nothing)'}; there are {', '.join(STREAMS)}")
    if options.trials < 1 or options.seed < 0:
        parser.error(f"trials must be at least 1 and the seed at least 0, not {options.trials} and {options.seed}")
    all_rates: list[Rates] = []
    start = time.monotonic()
    for position, name in enumerate(names, start=1):
        sys.stderr.write(f"[{position}/{len(names)}] {name}, {time.monotonic() - start:.0f} s\n")
        sys.stderr.flush()
        all_rates += [rates(name, protocol, options.trials, options.seed) for protocol in PROTOCOLS]
    lines = table(all_rates, options.trials, options.seed)
    if options.json:
        lines = [json.dumps(document(all_rates, options.trials, options.seed))]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if all(one.ok for one in all_rates) else 1


if __name__ == "__main__":
    sys.exit(main())
