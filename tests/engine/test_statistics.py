"""What the samples say. Synthetic times with known truth; every number below is for fixed seeds.

The model: time = base / speed-up * (drift of the round, shared by the arms) * (effect of the process) * (noise of the
sample, with a heavy upper tail, as timings have). Replicas are processes, rounds lie within them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from aisp.engine.distributions import student, student_tails
from aisp.engine.quality import quality
from aisp.engine.statistics import (
    CLAIM,
    HELD,
    PRIORS,
    QUICK_CLAIM,
    ByRound,
    Estimate,
    Floats,
    Ints,
    Prior,
    Ratio,
    Summary,
    by_round,
    confirmed,
    decide,
    estimates,
    fitted,
    half_width,
    log_ratios,
    noise_floor,
)
from aisp.engine.statistics import summarise as summarised
from aisp.store.outcomes import Verdict
from aisp.store.samples import Samples

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

REPLICAS, ROUNDS, SAMPLES = 5, 10, 9
PRIOR = PRIORS["cuda"][HELD]


def summarise(*measured: Floats | Ints) -> Summary:
    return summarised(*measured, prior=PRIOR)


def compare(base: ByRound, rung: ByRound, floor: float, *, quick: bool, paired: bool = True) -> Ratio | None:
    """The verdict on one rung beside a baseline, without an A/A arm."""
    found = estimate(base, rung, paired=paired)
    return None if found is None else decide(found, floor, quick=quick)


def estimate(base: ByRound, rung: ByRound, *, paired: bool = True, prior: Prior = PRIOR) -> Estimate | None:
    return estimates(base, {"rung": rung}, prior, same=(), paired=paired)["rung"]


@dataclass
class Session:
    """Times of several arms, taken in the same rounds."""

    seed: int
    replicas: int = REPLICAS
    rounds: int = ROUNDS
    process: float = 0.002  # standard deviation of a process's own effect, as a ratio
    noise: float = 0.004  # of one sample
    drift: float = 0.05  # of a round, shared by all arms
    outliers: float = 0.05  # share of samples that take three times as long

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.drifts = np.exp(self.random.normal(0, self.drift, (self.replicas, self.rounds, 1)))

    def arm(self, speedup: float = 1.0, *, shared_drift: bool = True) -> tuple[Floats, Ints, Ints]:
        """(times_ms, replica, round) of an arm."""
        shape = (self.replicas, self.rounds, SAMPLES)
        drift = self.drifts if shared_drift else np.exp(self.random.normal(0, self.drift, self.drifts.shape))
        process = np.exp(self.random.normal(0, self.process, (self.replicas, 1, 1)))
        times = 10.0 / speedup * drift * process * np.exp(self.random.normal(0, self.noise, shape))
        times = np.where(self.random.random(shape) < self.outliers, 3 * times, times)
        replica, rounds, _ = np.meshgrid(*(np.arange(extent) for extent in shape), indexing="ij")
        return times.ravel(), replica.ravel().astype(np.int64), rounds.ravel().astype(np.int64)

    def pair(self, speedup: float = 1.0, *, shared_drift: bool = True) -> tuple[ByRound, ByRound]:
        """A baseline and a rung, round by round."""
        return by_round(*self.arm()), by_round(*self.arm(speedup, shared_drift=shared_drift))

    def judge(self, speedup: float = 1.0, *, shared_drift: bool = True, paired: bool = True) -> Ratio:
        """The verdict on a rung, with the floor of an A/A arm, as a run finds it."""
        quick = self.replicas == 1
        base, rung = self.pair(speedup, shared_drift=shared_drift)
        twin = by_round(*self.arm(shared_drift=shared_drift))
        known = estimates(base, {"rung": rung, "twin": twin}, PRIOR, same=("twin",), paired=paired)
        floor = noise_floor(None if quick else known["twin"], quick=quick)
        found = known["rung"]
        assert found is not None
        return decide(found, floor, quick=quick)


def arms(ratios: list[list[float]]) -> tuple[ByRound, ByRound]:
    """A baseline and a rung with these log ratios: a list of rounds for each replica, one sample in each."""
    replica = np.array([number for number, found in enumerate(ratios) for _ in found])
    rounds = np.array([number for found in ratios for number in range(len(found))])
    logs = np.array([ratio for found in ratios for ratio in found])
    return by_round(np.exp(logs), replica, rounds), by_round(np.ones(len(logs)), replica, rounds)


def judged(ratios: list[list[float]], floor: float = 0.005, *, quick: bool = False) -> Ratio:
    found = compare(*arms(ratios), floor, quick=quick)
    assert found is not None
    return found


def floor_of(ratios: list[list[float]], *, quick: bool = False) -> float:
    return noise_floor(estimate(*arms(ratios)), quick=quick)


# -- turns and medians -------------------------------------------------------------------------------------------------


def test_turns_are_medians_of_the_rounds_of_each_replica_in_whatever_order_the_samples_came() -> None:
    times = np.array([5.0, 1.0, 3.0, 100.0, 2.0, 7.0, 8.0])
    replica = np.array([1, 0, 0, 0, 0, 1, 0])
    rounds = np.array([0, 0, 0, 0, 2, 3, 2])
    made = by_round(times, replica, rounds)
    assert [*zip(made.replica, made.round, made.median, strict=True)] == [
        (0, 0, 3.0), (0, 2, 5.0), (1, 0, 5.0), (1, 3, 7.0)
    ]  # fmt: skip


def test_no_samples_are_no_turns_and_no_ratio() -> None:
    empty = np.array([]), np.array([], np.int64), np.array([], np.int64)
    none, some = by_round(*empty), by_round(np.array([1.0]), np.array([0]), np.array([0]))
    assert len(none) == 0
    for base, rung in ((none, none), (none, some), (some, none)):
        assert log_ratios(base, rung) == []
        assert compare(base, rung, 0.005, quick=False) is None
        assert compare(base, rung, 0.005, quick=False, paired=False) is None


def test_a_turn_keeps_the_median_of_its_samples() -> None:
    found = by_round(np.array([3.0, 9.0, 1.0, 2.0, 4.0]), np.array([1, 1, 1, 0, 1]), np.array([5, 5, 5, 7, 5]))
    assert found.replica.tolist() == [0, 1]
    assert found.round.tolist() == [7, 5]
    assert found.median.tolist() == [2.0, 3.5]


def test_the_time_per_call_is_the_median_and_not_the_mean() -> None:
    """One call in four met an interrupt; with the mean this would read 4 ms."""
    times = np.tile([1.0, 1.0, 1.0, 13.0], 30)
    found = summarise(times, np.zeros(120, np.int64), np.repeat(np.arange(10), 12))
    assert found.median_ms == 1.0
    assert (found.low_ms, found.high_ms) == pytest.approx((1 / found.high_ms, 1 / found.low_ms))


def test_a_single_sample_is_its_own_interval() -> None:
    found = summarise(np.array([2.5]), np.array([0]), np.array([0]))
    assert (found.median_ms, found.low_ms, found.high_ms) == (2.5, 2.5, 2.5)


def test_two_processes_that_have_nothing_in_common_are_told_as_they_are() -> None:
    """On a machine that was busy for one of them: no interval reaches beyond what was seen."""
    times = np.concatenate([np.full(40, 0.001), np.full(40, 100.0)])
    replica, rounds = np.repeat([0, 1], 40), np.tile(np.repeat(np.arange(4), 10), 2)
    found = summarise(times, replica, rounds)
    assert (found.low_ms, found.high_ms) == pytest.approx((0.001, 100.0))
    base = by_round(np.full(80, 1.0), replica, rounds)
    wide = compare(base, by_round(times, replica, rounds), 0.01, quick=True)
    assert wide is not None and wide.verdict is Verdict.UNDECIDED
    assert (wide.low, wide.high) == pytest.approx((0.01, 1000.0))
    assert wide.note == "too few processes for an interval: 2 of them were up to 1e+05x apart"


def test_the_interval_of_the_median_grows_with_what_differs_between_processes() -> None:
    def width(process: float) -> float:
        found = summarise(*Session(3, process=process, drift=0.0).arm())
        assert found.low_ms <= found.median_ms <= found.high_ms
        return found.high_ms - found.low_ms

    assert width(0.05) > 3 * width(0.001)


def test_many_samples_of_one_process_do_not_narrow_what_only_processes_can_show() -> None:
    """10 times the samples leave the interval as it was."""
    random = np.random.default_rng(1)
    effects = np.array([0.9, 0.97, 1.0, 1.04, 1.1])

    def width(samples: int) -> float:
        times = (effects[:, None] * np.exp(random.normal(0, 0.001, (5, samples)))).ravel()
        replica = np.repeat(np.arange(5), samples)
        rounds = np.tile(np.arange(samples) % 10, 5)
        found = summarise(times, replica, rounds)
        return found.high_ms - found.low_ms

    assert width(1000) == pytest.approx(width(100), rel=0.1)
    assert width(1000) > 0.05


# -- ratios ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speedup", [0.25, 0.9, 1.0, 1.1, 2.0, 8.0])
def test_a_known_speed_up_is_found(speedup: float) -> None:
    found = Session(11).judge(speedup)
    assert found.speedup == pytest.approx(speedup, rel=0.004)
    assert found.low <= found.speedup <= found.high
    assert found.low == pytest.approx(speedup, rel=0.01)
    assert found.high == pytest.approx(speedup, rel=0.01)
    wanted = Verdict.FASTER if speedup > 1 else Verdict.SLOWER if speedup < 1 else Verdict.SAME
    assert found.verdict is wanted


def test_rounds_that_only_one_arm_has_are_left_out() -> None:
    base = by_round(np.array([2.0, 4.0, 8.0, 2.0]), np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0]))
    rung = by_round(np.array([2.0, 2.0, 1.0, 1.0]), np.array([0, 0, 0, 2]), np.array([1, 2, 3, 0]))
    (only,) = log_ratios(base, rung)
    assert np.exp(only).tolist() == pytest.approx([2.0, 4.0])


def test_swapping_the_arms_inverts_the_ratio() -> None:
    base, rung = Session(4).pair(1.3)
    there, back = (compare(a, b, 0.005, quick=False) for a, b in ((base, rung), (rung, base)))
    assert there is not None
    assert back is not None
    assert there.speedup * back.speedup == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0, rel=2e-3)
    assert (there.verdict, back.verdict) == (Verdict.FASTER, Verdict.SLOWER)


def test_one_lucky_process_does_not_make_a_speed_up() -> None:
    found = judged([[shift] * 10 for shift in (0.0, 0.0, 0.0, 0.0, math.log(2))])
    assert found.low < 1.0 < found.high
    assert found.verdict is Verdict.UNDECIDED


def test_drift_that_hits_both_arms_alike_cancels() -> None:
    calm, wild = (Session(21, drift=drift).judge(1.05) for drift in (0.0, 0.5))
    assert wild.speedup == pytest.approx(1.05, rel=0.004)
    assert wild.high - wild.low < 2 * (calm.high - calm.low) + 0.005
    assert wild.verdict is Verdict.FASTER


def test_with_strong_shared_drift_paired_rounds_decide_and_unpaired_ones_cannot() -> None:
    """The clock wanders by 10 % from round to round, for both arms alike; the rung is 3 % faster."""
    for seed in range(8):
        paired, unpaired = (Session(seed, drift=0.1, outliers=0.0).judge(1.03, paired=way) for way in (True, False))
        assert paired.verdict is Verdict.FASTER
        assert paired.speedup == pytest.approx(1.03, rel=0.005)
        assert unpaired.verdict is Verdict.UNDECIDED
        assert unpaired.high / unpaired.low > 3 * paired.high / paired.low - 2


def test_arms_that_miss_different_rounds_of_a_drift_are_compared_in_those_they_share() -> None:
    rounds = np.arange(10)
    slope = np.asarray(10 * (1.0 + 0.1 * rounds), np.float64)
    replica = np.zeros(6, np.int64)
    base, rung = by_round(slope[4:], replica, rounds[4:]), by_round(slope[:6], replica, rounds[:6])
    unpaired, paired = (estimate(base, rung, paired=way) for way in (False, True))
    assert unpaired is not None
    assert paired is not None
    assert math.exp(unpaired.centre) > 1.3
    assert paired.centre == 0.0


def test_arms_that_ran_one_after_the_other_are_compared_by_the_medians_of_their_replicas() -> None:
    """Their rounds have nothing in common: round 3 of the one is no nearer to round 3 of the other."""
    calm = Session(2, drift=0.004, outliers=0.0)
    base, rung = calm.pair(1.2, shared_drift=False)
    later = ByRound(rung.replica, rung.round + 50, rung.median)
    assert compare(base, later, 0.005, quick=False) is None
    found = compare(base, later, 0.005, quick=False, paired=False)
    assert found is not None
    assert found.speedup == pytest.approx(1.2, rel=0.01)
    assert found.verdict is Verdict.FASTER


@pytest.mark.parametrize("seed", range(12))
def test_drift_that_hits_the_arms_apart_makes_no_faster(seed: int) -> None:
    found = Session(seed, drift=0.15).judge(1.0, shared_drift=False)
    assert found.verdict not in (Verdict.FASTER, Verdict.SLOWER)


# -- calibration -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("replicas", "processes"), [(2, 0.001), (2, 0.005), (3, 0.005), (5, 0.001), (5, 0.01)])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(replicas: int, processes: float) -> None:
    """Nominal 95 %, of two arms alone: where processes differ by what was known before, or less, and by twice that
    where five of them show it."""
    held = 0
    for seed in range(200):
        session = Session(seed, replicas=replicas, outliers=0.0, process=processes)
        found = compare(*session.pair(1.2), 0.0, quick=False)
        assert found is not None
        held += found.low <= 1.2 <= found.high
    assert held / 200 >= 0.9


def test_the_interval_of_two_processes_is_not_wider_than_they_and_what_was_known_say() -> None:
    """Three arms, whose processes differ by 0.2 % and rounds by little: 1 to 3 % from end to end in the median."""
    widths = []
    for seed in range(100):
        found = Session(seed, replicas=2, outliers=0.0).judge(1.2)
        widths.append(math.log(found.high / found.low))
    assert 0.01 < np.median(widths) < 0.03


@pytest.mark.parametrize("count", [2, 3, 5])
def test_processes_that_agree_by_luck_are_known_for_what_the_baseline_and_its_twin_show(count: int) -> None:
    """The rung's and the baseline's are alike to the last digit; those of the A/A arm differ by 0.8 %."""
    base, rung = arms([[0.1] * 10] * count)
    shifts = 0.008 * math.sqrt(2) * np.resize([1.0, -1.0], count)
    twin = by_round(*unsteady([[shift] * 10 for shift in shifts]))
    alone, beside = (
        estimates(base, {"rung": rung, **others}, PRIOR, same=("twin",))["rung"] for others in ({}, {"twin": twin})
    )
    assert alone is not None and beside is not None
    assert beside.error > 1.2 * alone.error
    assert beside.freedom == pytest.approx(alone.freedom + count - 1)


CONSTANT, WILD = ([[shift] * 10 for shift in shifts] for shifts in ([0.0] * 5, (0.2, -0.2, 0.1, 0, 0)))


@pytest.mark.parametrize("sibling", [CONSTANT, WILD])
@pytest.mark.parametrize("replicas", [2, 3, 5])
@pytest.mark.parametrize("paired", [True, False])
def test_no_rung_has_a_say_in_how_far_its_siblings_or_the_next_runs_can_be_trusted(
    sibling: list[list[float]], replicas: int, paired: bool
) -> None:
    """Neither one that bends its times to a constant, of which there may be ten, nor one whose processes differ by far:
    the others' intervals and what the A/A arm shows for the prior are to the last digit what they are without it."""
    session = Session(replicas, replicas=replicas, process=0.01, outliers=0.0)
    base, rung = session.pair(1.2)
    honest = {"rung": rung, "twin": by_round(*session.arm())}
    siblings = {f"bent {number}": by_round(*unsteady(sibling[:replicas])) for number in range(10)}
    without, beside = (
        estimates(base, known, PRIOR, same=("twin",), paired=paired) for known in (honest, {**honest, **siblings})
    )
    assert {name: beside[name] for name in honest} == without


def test_an_arm_that_is_not_like_the_baselines_own_is_judged_by_its_own_processes() -> None:
    base, first = arms([[shift] * 10 for shift in (0.001, -0.001, 0, 0, 0)])
    measured = {"calm": first, "twin": arms([[0.0] * 10] * 5)[1], "wild": by_round(*unsteady(WILD))}
    found = estimates(base, measured, PRIOR, same=("twin",))
    known, other = found["calm"], found["wild"]
    assert known is not None and other is not None
    assert other.error > 20 * known.error
    assert other.freedom == pytest.approx(5.0, abs=0.1)  # its five processes, and what was known before


def unsteady(ratios: list[list[float]]) -> tuple[Floats, Ints, Ints]:
    """Times of an arm whose log times are these: a list of rounds for each replica."""
    replica = np.repeat(np.arange(len(ratios)), [len(found) for found in ratios])
    rounds = np.concatenate([np.arange(len(found)) for found in ratios])
    return np.exp(-np.concatenate([np.array(found) for found in ratios])), replica, rounds


def test_rounds_of_a_rung_that_vary_widen_its_interval_and_nobody_elses() -> None:
    random = np.random.default_rng(1)
    base = arms([[0.0] * 10] * 3)[0]
    loud = by_round(*unsteady([random.normal(0, 0.1, 10).tolist() for _ in range(3)]))
    calm = by_round(*unsteady([random.normal(0, 0.001, 10).tolist() for _ in range(3)]))
    found = estimates(base, {"loud": loud, "calm": calm}, PRIOR, same=())
    assert found["loud"] is not None and found["calm"] is not None
    assert found["loud"].error > 3 * found["calm"].error


def test_what_was_known_before_counts_for_less_the_more_processes_there_are() -> None:
    calm = [[0.0] * 10] * 2
    tight, wide = Prior(0.001, 4.0, "here"), Prior(0.1, 4.0, "elsewhere")
    for count, least in ((2, 20.0), (20, 5.0)):
        found = [estimate(*arms(calm[:1] * count), prior=prior) for prior in (tight, wide)]
        assert found[0] is not None and found[1] is not None
        assert found[1].error > least * found[0].error
        assert (found[0].freedom, found[1].freedom) == (pytest.approx(4.0 + count - 1), pytest.approx(4.0 + count - 1))


@pytest.mark.parametrize(("deviation", "freedom"), [(0.005, 4.0), (0.02, 4.0), (0.005, 1.0)])
def test_the_prior_of_earlier_runs_is_found_again(deviation: float, freedom: float) -> None:
    """200 runs whose variances are drawn from it, each seen with the error of four degrees of freedom."""
    random = np.random.default_rng(int(1e4 * deviation + freedom))
    truth = deviation**2 * freedom / random.chisquare(freedom, 200)
    seen = [(math.sqrt(value * random.chisquare(4) / 4), 4.0) for value in truth]
    found = fitted(seen, PRIOR, "here")
    assert found.deviation == pytest.approx(deviation, rel=0.25)
    assert found.freedom == pytest.approx(freedom, rel=0.5)
    assert found.source == "200 runs here"


def test_few_runs_say_less_than_what_is_shipped_and_many_that_agree_no_more_than_six() -> None:
    assert fitted([(0.01, 4.0)] * 9, PRIOR, "here") is PRIOR
    found = fitted([(0.01, 4.0)] * 50, PRIOR, "here")
    assert (found.freedom, found.source) == (6.0, "50 runs here")
    assert 0.005 < found.deviation < 0.02
    assert fitted([(0.0, 4.0)] * 50, PRIOR, "here").deviation < 1e-4


def test_what_an_arm_says_of_processes_is_how_they_differ_beside_what_they_have_in_common() -> None:
    seen = []
    for seed in range(60):
        found = estimate(*Session(seed, process=0.01, outliers=0.0, drift=0.1).pair())
        assert found is not None
        seen.append(found.apart)
    assert math.sqrt(np.mean(seen)) == pytest.approx(0.01, rel=0.15)
    alone = estimate(*Session(1, replicas=1).pair())
    assert alone is not None and alone.apart == 0.0


@pytest.mark.slow
def test_identical_kernels_are_seldom_called_different() -> None:
    """300 A/A comparisons, each with the floor of its own A/A arm: fewer than one in twenty gets a verdict."""
    verdicts = [Session(seed).judge(1.0).verdict for seed in range(1000, 1300)]
    false = sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts)
    assert false / 300 <= 0.05
    # The rule is not won by never deciding: most of them are called the same.
    assert verdicts.count(Verdict.SAME) / 300 >= 0.8


@pytest.mark.slow
def test_a_real_difference_of_three_per_cent_is_seen_nearly_always() -> None:
    verdicts = [Session(seed).judge(1.03).verdict for seed in range(2000, 2100)]
    assert verdicts.count(Verdict.FASTER) >= 95
    assert Verdict.SLOWER not in verdicts


def test_processes_that_differ_widely_are_not_hidden_by_many_rounds() -> None:
    """With rounds resampled alone, without their processes, nearly all of these would be FASTER or SLOWER."""
    verdicts = [Session(seed, process=0.04).judge(1.0).verdict for seed in range(3000, 3060)]
    false = sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts)
    assert false / 60 <= 0.1


# -- the floor ---------------------------------------------------------------------------------------------------------


def test_the_floor_is_never_below_half_a_per_cent_and_one_per_cent_when_quick() -> None:
    silent = [[0.0] * 10] * 5
    assert floor_of(silent) == 0.005
    assert noise_floor(None, quick=False) == 0.005
    assert noise_floor(None, quick=True) == 0.01
    assert floor_of(silent[:1], quick=True) == 0.01


def test_a_twin_that_is_slower_or_faster_raises_the_floor_alike() -> None:
    up, down = (floor_of([[sign * math.log(1.08)] * 10] * 5) for sign in (1, -1))
    assert up == pytest.approx(down) == pytest.approx(0.08)


def test_a_difference_within_the_floor_is_no_verdict() -> None:
    ratios = [[math.log(1.05)] * 10] * 5
    below, above = (judged(ratios, floor) for floor in (0.06, 0.04))
    assert below.verdict is Verdict.UNDECIDED  # noise that hides a difference does not make two kernels the same
    assert "inside the noise floor" in below.note
    assert above.verdict is Verdict.FASTER
    assert (below.floor, above.floor) == (0.06, 0.04)


# -- p-values ----------------------------------------------------------------------------------------------------------


def test_the_p_value_is_that_of_an_estimate_whose_truth_is_at_the_floors_edge() -> None:
    found = Estimate(0.10, 0.02, 4.0, 0.0, (0.09, 0.11), 10)
    beyond = (0.10 - math.log1p(0.005)) / 0.02
    assert found.p_value(0.005) == pytest.approx(student_tails(beyond, 4.0))
    assert found.p_value(0.20) == 1.0
    assert Estimate(-0.10, 0.02, 4.0, 0.0, (-0.11, -0.09), 10).p_value(0.005) == found.p_value(0.005)
    assert Estimate(0.10, math.inf, 1.0, 0.0, (0.10,), 1).p_value(0.005) == 1.0


@pytest.mark.parametrize(("quick", "claim"), [(False, CLAIM), (True, QUICK_CLAIM)])
def test_a_p_value_agrees_with_the_verdict(quick: bool, claim: float) -> None:
    assert judged([[0.0] * 10] * 5).p_value == 1.0
    seen = set()
    for step in range(60):
        found = decide(Estimate(0.001 * step, 0.01, 6.0, 0.0, (0.0, 0.002 * step), 10), 0.005, quick=quick)
        assert (found.p_value < claim) == (found.verdict is Verdict.FASTER)
        seen.add(found.verdict)
    assert Verdict.FASTER in seen


# -- time and cycles ---------------------------------------------------------------------------------------------------


def test_a_difference_in_time_that_is_none_in_cycles_is_undecided_and_says_so() -> None:
    time = judged([[math.log(1.04)] * 10] * 5)
    same = judged([[0.0] * 10] * 5)
    found = confirmed(time, same)
    assert (time.verdict, found.verdict) == (Verdict.FASTER, Verdict.UNDECIDED)
    assert (found.speedup, found.low, found.high) == (time.speedup, time.low, time.high)
    assert found.note == (
        "faster in time, but not in SM cycles (0.996 to 1.004, floor 0.5%): the clock may have done it"
    )
    assert found.p_value == 1.0


def test_a_difference_in_time_and_in_cycles_stands_with_the_weaker_p_value() -> None:
    time, cycles = judged([[0.04] * 10] * 5), judged([[0.02] * 10] * 5)
    found = confirmed(time, Ratio(1.02, 1.01, 1.03, 0.005, cycles.verdict, 0.03, ""))
    assert (found.verdict, found.p_value, found.note) == (Verdict.FASTER, 0.03, "")
    assert confirmed(time, judged([[-0.04] * 10] * 5)).verdict is Verdict.UNDECIDED
    assert confirmed(time, judged([[-0.04] * 10] * 5)).p_value == 1.0


def test_without_cycles_time_decides_and_what_claims_nothing_needs_no_confirmation() -> None:
    time, same = judged([[0.04] * 10] * 5), judged([[0.0] * 10] * 5)
    assert confirmed(time, None) is time
    assert confirmed(same, time) is same


# -- the stop rule -----------------------------------------------------------------------------------------------------


def test_fewer_than_three_rounds_have_no_interval() -> None:
    assert half_width(np.array([])) == math.inf
    assert half_width(np.array([0.0, 0.0])) == math.inf
    assert half_width(np.zeros(3)) == 0.0


def test_the_half_width_is_students_of_the_middle_rounds() -> None:
    """Of 10 rounds the outermost two on each side only count as much as the next ones in."""
    ratios = np.arange(10) / 1000
    drawn_in = np.clip(ratios, 0.002, 0.007)
    error = math.sqrt(drawn_in.var(ddof=1) * 9 / (6 * 5))
    assert half_width(ratios) == pytest.approx(math.expm1(student(0.05, 5) * error))
    assert half_width(np.array([0.0, 0.001, 0.002])) == pytest.approx(
        math.expm1(4.30265 * 0.001 / math.sqrt(3)), rel=1e-4
    )
    far = np.array([*ratios[:9], 5.0])
    assert half_width(far) == pytest.approx(half_width(ratios))


def test_a_ratio_that_is_many_half_widths_away_from_one_counts_as_known() -> None:
    noise = np.array([-0.02, 0.02, -0.02, 0.02])
    half = half_width(noise)
    assert half == half_width(noise, clear=0.25) == pytest.approx(half_width(noise + 0.1, clear=0.25)), "within four"
    assert [half_width(noise + by, clear=0.25) for by in (0.5, -0.5)] == [0.0, 0.0]
    assert half_width(np.full(2, 9.0), clear=0.25) == math.inf


def test_more_rounds_narrow_the_half_width_and_noise_widens_it() -> None:
    random = np.random.default_rng(7)
    few, many = (np.mean([half_width(random.normal(0, 0.01, n)) for _ in range(200)]) for n in (6, 20))
    loud = np.mean([half_width(random.normal(0, 0.03, 20)) for _ in range(200)])
    assert many < 0.7 * few
    assert loud == pytest.approx(3 * many, rel=0.1)


# -- what would decide it ----------------------------------------------------------------------------------------------


def test_ties_are_the_same() -> None:
    found = judged([[0.0] * 10] * 5)
    assert (found.speedup, found.verdict, found.note) == (1.0, Verdict.SAME, "")
    assert found.low * found.high == pytest.approx(1.0) and 1.001 < found.high < 1.01


@pytest.mark.parametrize(("rounds", "words"), [(1, "one round says"), (2, "2 rounds say")])
def test_one_or_two_rounds_of_one_replica_decide_nothing_however_large_the_ratio(rounds: int, words: str) -> None:
    found = judged([[math.log(2.0)] * rounds], 0.01, quick=True)
    assert found.speedup == pytest.approx(2.0)
    assert (found.verdict, found.p_value) == (Verdict.UNDECIDED, 1.0)
    assert found.note == f"{words} nothing of how rounds differ; 3 are the least"


def test_one_replica_decides_nothing_however_clear_it_is() -> None:
    clear = [math.log(2.0), math.log(2.01), math.log(1.99)]
    alone, two = (judged([clear] * count, 0.01, quick=True) for count in (1, 2))
    assert alone.speedup == two.speedup == pytest.approx(2.0, rel=1e-4)
    assert (alone.verdict, two.verdict) == (Verdict.UNDECIDED, Verdict.FASTER)
    assert alone.note == "one replica cannot show how processes differ; two can"
    assert two.note == ""


def test_an_undecided_quick_run_says_what_would_tell_more() -> None:
    found = judged([[-0.1, 0.0, 0.05, 0.1, 0.2]] * 2, 0.01, quick=True)
    assert found.verdict is Verdict.UNDECIDED
    assert found.note == "a full run would tell more: this was a quick one of 2 replicas"


@pytest.mark.parametrize("shifts", [(-0.05, 0.02, 0.05, 0.08, 0.15), (0.04, 0.05, 0.09), (0.03, 0.06)])
def test_an_undecided_difference_beyond_the_floor_says_how_many_replicas_would_decide(
    shifts: tuple[float, ...],
) -> None:
    """As many as that with the same spread do decide it, and one fewer do not."""
    found = judged([[shift] * 10 for shift in shifts])
    assert found.verdict is Verdict.UNDECIDED
    words = found.note.split()
    needed = int(words[1])
    assert found.note == f"about {needed} replicas would decide it; this run had {len(shifts)}"
    known = estimate(*arms([[shift] * 10 for shift in shifts]))
    assert known is not None
    spread = known.error * math.sqrt(len(shifts))
    for count, verdict in ((needed, Verdict.FASTER), (needed - 1, Verdict.UNDECIDED)):
        more = Estimate(
            known.centre, spread / math.sqrt(count), known.freedom * count / len(shifts), 0.0, known.by_replica, 10
        )
        assert decide(more, 0.005, quick=False).verdict is verdict


def test_an_undecided_difference_inside_the_floor_says_so() -> None:
    found = judged([[shift] for shift in (-0.06, -0.03, 0.001, 0.03, 0.06)])
    assert found.verdict is Verdict.UNDECIDED
    assert found.note == "the difference is inside the noise floor of 0.5%"


def test_shifting_an_estimate_is_what_a_faster_arm_would_have_given() -> None:
    """The self-test measures once and asks for many effects."""
    base, rung = Session(9).pair()
    plain, truly = estimate(base, rung), estimate(base, ByRound(rung.replica, rung.round, rung.median / 1.05))
    assert plain is not None and truly is not None
    shifted = plain.shifted(math.log(1.05))
    assert (shifted.centre, shifted.error) == (pytest.approx(truly.centre), pytest.approx(truly.error))
    assert shifted.by_replica == pytest.approx(truly.by_replica)
    assert decide(shifted, 0.005, quick=False).low == pytest.approx(decide(truly, 0.005, quick=False).low)


def test_the_same_samples_give_the_same_verdict_every_time() -> None:
    assert Session(5).judge(1.02) == Session(5).judge(1.02)


# -- the median stays the summary --------------------------------------------------------------------------------------


def test_interrupted_samples_move_no_speed_up_as_they_would_move_a_mean() -> None:
    """One sample in twenty takes three times as long, unevenly met by the arms."""
    sessions = [Session(seed) for seed in range(10)]
    errors = [abs(math.log(session.judge(1.1).speedup / 1.1)) for session in sessions]
    assert max(errors) < 0.004
    base, rung = Session(0).arm(), Session(0).arm(1.1)
    by_mean = [
        abs(math.log(np.mean(Session(seed).arm()[0]) / np.mean(Session(seed + 100).arm(1.1)[0]) / 1.1))
        for seed in range(10)
    ]
    assert max(by_mean) > 0.01
    assert len(base[0]) == len(rung[0]) == 450


# -- what the samples say of themselves --------------------------------------------------------------------------------

SHAPE = (5, 10, 16)  # replicas, rounds, samples in a turn


def samples(logs: Floats, discarded: Ints | None = None) -> Samples:
    """Of an arm; logs of time over 0.1 ms: [replicas, rounds, samples]."""
    replica, rounds, _ = (part.ravel().astype(np.int64) for part in np.indices(logs.shape))
    times = 0.1 * np.exp(logs.ravel())
    none = np.zeros(len(times), np.int64)
    return Samples(
        device_ms=times,
        host_ms=times,
        end_ns=np.arange(len(times)),
        round=rounds,
        replica=replica,
        inputs=none,
        discarded=none if discarded is None else discarded.ravel(),
        sm_clock_mhz=np.full(len(times), np.nan),
    )


def modes_of(logs: Floats, *, resolution_ms: float | None = None) -> tuple[float, float, float] | None:
    found = quality(samples(logs), resolution_ms=resolution_ms, overhead_ms=None)
    if found.low_mode_ms is None or found.high_mode_ms is None or found.high_share is None:
        assert (found.low_mode_ms, found.high_mode_ms, found.high_share) == (None, None, None)
        return None
    return found.low_mode_ms, found.high_mode_ms, found.high_share


@pytest.mark.parametrize("seed", range(10))
def test_two_modes_five_per_cent_apart_are_seen(seed: int) -> None:
    random = np.random.default_rng(seed)
    found = modes_of(random.normal(0, 0.005, SHAPE) + 0.05 * (random.random(SHAPE) < 0.3))
    assert found is not None
    assert found[:2] == pytest.approx((0.1, 0.1 * math.exp(0.05)), rel=2e-3)
    assert found[2] == pytest.approx(0.3, abs=0.06)


def test_modes_that_differ_from_process_to_process_are_seen() -> None:
    random = np.random.default_rng(0)
    slow = np.array([0.0, 0.05, 0.0, 0.0, 0.05])[:, None, None]
    found = modes_of(random.normal(0, 0.005, SHAPE) + slow)
    assert found is not None
    assert found[:2] == pytest.approx((0.1, 0.1 * math.exp(0.05)), rel=2e-3)
    assert found[2] == pytest.approx(0.4, abs=0.01)


ONE_MODE: dict[str, Callable[[np.random.Generator], Floats]] = {
    "normal": lambda random: random.normal(0, 0.03, SHAPE),
    "uniform": lambda random: random.uniform(-0.1, 0.1, SHAPE),
    "student t": lambda random: np.clip(0.01 * random.standard_t(2, SHAPE), -0.5, 3),
    "outliers": lambda random: random.normal(0, 0.005, SHAPE) + math.log(3) * (random.random(SHAPE) < 0.05),
    "drift": lambda random: random.normal(0, 0.005, SHAPE) + 0.02 * np.arange(10)[None, :, None],
    "drift over replicas": lambda random: random.normal(0, 0.005, SHAPE) + 0.03 * np.arange(5)[:, None, None],
    "slow warm-up": lambda random: random.normal(0, 0.005, SHAPE) + 0.5 * np.exp(-np.arange(10) / 2)[None, :, None],
    "slide": lambda random: (
        random.normal(0, 0.001, SHAPE) + 0.1 * np.clip((np.arange(160) / 160 - 0.56) / 0.24, 0, 1).reshape(1, 10, 16)
    ),
    "three modes": lambda random: random.normal(0, 0.003, SHAPE) + random.choice([0.0, 0.06, 0.15], SHAPE),
    "five speeds of five processes": lambda random: (
        random.normal(0, 0.001, SHAPE) + np.array([0.0, 0.016, 0.06, 0.066, 0.072])[:, None, None]
    ),
    "too near": lambda random: random.normal(0, 0.0005, SHAPE) + 0.01 * (random.random(SHAPE) < 0.4),
    "constant": lambda random: np.zeros(SHAPE),
}


@pytest.mark.parametrize("kind", ONE_MODE)
def test_no_two_modes_are_seen_where_there_is_one(kind: str) -> None:
    found = [modes_of(ONE_MODE[kind](np.random.default_rng(seed))) for seed in range(40)]
    assert found == [None] * 40


def test_neighbouring_steps_of_a_coarse_clock_are_not_two_modes() -> None:
    """A call of 1.02 us on a clock that steps in 32 ns."""
    random = np.random.default_rng(3)
    ticks = np.log(np.where(random.random(SHAPE) < 0.5, 1.0, 1.032))
    assert modes_of(ticks, resolution_ms=0.0032) is None
    assert modes_of(ticks, resolution_ms=0.0001) is not None


def test_drift_is_the_change_from_the_first_to_the_last_third_of_the_rounds() -> None:
    steps = np.repeat([0.0, 0.05, 0.1], (3, 4, 3))
    found = quality(samples(np.broadcast_to(steps[None, :, None], SHAPE)), resolution_ms=None, overhead_ms=None)
    assert found.drift == pytest.approx(math.expm1(0.1))
    two = quality(samples(np.zeros((5, 2, 16))), resolution_ms=None, overhead_ms=None)
    assert two.drift is None


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9, -0.5])
def test_autocorrelation_of_a_turn_is_found_though_the_turn_is_short(memory: float) -> None:
    random = np.random.default_rng(5)
    shape = (5, 20, 64)
    logs = np.empty(shape)
    logs[..., 0] = random.normal(0, 1, shape[:2])
    for step in range(1, shape[2]):
        logs[..., step] = memory * logs[..., step - 1] + math.sqrt(1 - memory**2) * random.normal(0, 1, shape[:2])
    found = quality(samples(0.01 * logs), resolution_ms=None, overhead_ms=None).autocorrelation
    assert found == pytest.approx(memory, abs=0.08)
    short = quality(samples(random.normal(0, 0.01, (5, 20, 3))), resolution_ms=None, overhead_ms=None).autocorrelation
    assert short == pytest.approx(0.0, abs=0.15)


def test_samples_beside_a_discarded_one_are_no_neighbours() -> None:
    """Every other sample is discarded: no two that count stand next to each other."""
    discarded = np.broadcast_to(np.arange(16) % 2, SHAPE)
    found = quality(
        samples(np.random.default_rng(0).normal(0, 0.01, SHAPE), discarded), resolution_ms=None, overhead_ms=None
    )
    assert found.autocorrelation is None


def test_throttled_samples_have_their_share_told_and_count_for_nothing_else() -> None:
    discarded = np.zeros(SHAPE, np.int64)
    discarded[:, :, 12:] = 1
    discarded[:, :, 8:12] = 2
    logs = np.random.default_rng(1).normal(0, 0.005, SHAPE)
    logs[:, 5:, 8:] += 1.0
    found = quality(samples(logs, discarded), resolution_ms=3.2e-5, overhead_ms=1.28e-3)
    assert found.throttled_share == 0.25
    assert found.low_mode_ms is None
    assert found.drift == pytest.approx(0.0, abs=0.004)
    assert (found.resolution_ms, found.overhead_ms) == (3.2e-5, 1.28e-3)


def test_of_too_few_samples_nothing_is_said() -> None:
    few = quality(samples(np.zeros((1, 2, 3))), resolution_ms=None, overhead_ms=None)
    assert (few.drift, few.autocorrelation, few.low_mode_ms) == (None, None, None)
    assert few.throttled_share == 0.0
    none = quality(samples(np.zeros((0, 0, 0))), resolution_ms=None, overhead_ms=None)
    assert none.throttled_share is None
