"""Many targets in one number, and which verdicts stay when so many are asked for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from aisp.store.results.speed_of_light import score_of_light
from aisp.store.results.suite import LEVEL, benjamini_hochberg, score


class Entry(NamedTuple):
    rung: str
    baseline: str
    verdict: str
    speedup: float | None
    low: float | None
    high: float | None
    p_value: float | None


def entry(
    target: str,
    speedup: float | None = 1.0,
    p_value: float | None = 0.5,
    *,
    verdict: str = "same",
    within: float | None = 1.02,
) -> tuple[str, Entry]:
    """A comparison whose interval reaches from speedup / within to speedup * within."""
    known = speedup is not None and within is not None
    low, high = (speedup / within, speedup * within) if known and speedup and within else (None, None)
    return target, Entry("optimized", "baseline", verdict, speedup, low, high, p_value)


# -- the mean ----------------------------------------------------------------------------------------------------------


def test_the_mean_of_a_doubling_and_a_halving_is_one() -> None:
    """The arithmetic mean would say 1.25, and say it again with the arms swapped."""
    found = score([entry("a", 2.0), entry("b", 0.5)])
    assert found.count == 2
    assert found.geometric_mean == pytest.approx(1.0)


def test_the_mean_is_the_root_of_the_product() -> None:
    speedups = [1.1, 3.0, 0.7, 12.0, 1.0]
    found = score([entry(str(number), value) for number, value in enumerate(speedups)])
    assert found.geometric_mean == pytest.approx(math.prod(speedups) ** (1 / 5))


def test_the_interval_of_one_target_is_its_own_and_that_of_many_is_narrower() -> None:
    one = score([entry("a", 2.0, within=1.1)])
    assert (one.geometric_mean, one.low, one.high) == pytest.approx((2.0, 2.0 / 1.1, 2.0 * 1.1))
    four = score([entry(name, 2.0, within=1.1) for name in "abcd"])
    assert four.low is not None
    assert four.high is not None
    assert math.log(four.high / four.low) == pytest.approx(math.log(one.high / one.low) / 2)  # type: ignore[operator]


def test_the_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    random = np.random.default_rng(4)
    true, errors = random.uniform(-0.5, 1.5, 12), random.uniform(0.005, 0.08, 12)
    held = 0
    for _ in range(400):
        seen = true + random.normal(0, errors)
        entries = [
            entry(str(i), math.exp(s), 1.0, within=math.exp(1.96 * e))
            for i, (s, e) in enumerate(zip(seen, errors, strict=True))
        ]
        found = score(entries)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= math.exp(true.mean()) <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_what_was_not_called_faster_counts_in_the_mean_too() -> None:
    found = score([entry("a", 4.0, 0.001, verdict="faster"), entry("b", 1.0, verdict="undecided"), entry("c", 1.0)])
    assert found.count == 3
    assert found.geometric_mean == pytest.approx(4 ** (1 / 3))


def test_targets_without_a_speed_up_are_left_out_by_name_with_the_reason() -> None:
    found = score([entry("a", 2.0), entry("b", None, None, verdict="none"), entry("c", 2.0, within=None)])
    assert found.count == 1
    assert found.left_out == (("b", "no speed-up"), ("c", "no interval"))


def test_a_suite_of_nothing_has_no_mean() -> None:
    found = score([])
    assert (found.count, found.geometric_mean, found.low, found.high) == (0, None, None, None)
    assert (found.left_out, found.confirmed, found.not_confirmed, found.level) == ((), (), (), LEVEL)


# -- which verdicts stay -----------------------------------------------------------------------------------------------


def test_the_threshold_is_that_of_the_published_procedure() -> None:
    """The 15 p-values of Benjamini and Hochberg's own example (1995, section 4.1): four are discoveries at 5 %."""
    p_values = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
        0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
    ]  # fmt: skip
    assert benjamini_hochberg(p_values[::-1], 0.05) == 0.0095
    assert benjamini_hochberg([0.06, 0.5], 0.05) < 0
    assert benjamini_hochberg([], 0.05) < 0


def test_a_later_p_value_may_carry_earlier_ones_over_their_own_lines() -> None:
    """It steps up: 0.03 is above 0.05 * 1 / 2, but 0.04 is within 0.05 * 2 / 2."""
    assert benjamini_hochberg([0.03, 0.04], 0.05) == 0.04


def test_one_lucky_verdict_among_twenty_is_not_confirmed_and_a_sure_one_is() -> None:
    idle = [entry(f"idle{number}", 1.0, 0.3 + number / 30) for number in range(18)]
    lucky = entry("lucky", 1.02, 0.04, verdict="faster")
    sure = entry("sure", 0.5, 0.001, verdict="slower")
    found = score([*idle, lucky, sure])
    assert found.confirmed == ("sure",)
    assert found.not_confirmed == ("lucky",)
    alone = score([lucky])
    assert (alone.confirmed, alone.not_confirmed) == (("lucky",), ())


def test_claims_are_weighed_against_all_that_was_compared_and_not_against_each_other_alone() -> None:
    """Every claim has p <= 0.05 by itself; asked over claims alone the procedure would confirm any of them."""
    claims = [entry(f"claim{number}", 1.02, 0.045, verdict="faster") for number in range(3)]
    assert score(claims).confirmed == ("claim0", "claim1", "claim2")
    found = score([*claims, *(entry(f"idle{number}", 1.0, 0.6) for number in range(30))])
    assert (found.confirmed, len(found.not_confirmed)) == ((), 3)


def test_of_a_hundred_identical_pairs_and_ten_real_ones_few_confirmed_are_false() -> None:
    random = np.random.default_rng(8)
    shares = []
    for _ in range(200):
        null = [
            entry(f"null{i}", 1.0, p, verdict="faster" if p <= 0.05 else "same")
            for i, p in enumerate(random.random(100))
        ]
        real = [entry(f"real{i}", 1.1, 0.001, verdict="faster") for i in range(10)]
        found = score([*null, *real])
        assert set(found.confirmed) >= {f"real{i}" for i in range(10)}
        shares.append(sum(name.startswith("null") for name in found.confirmed) / len(found.confirmed))
    assert np.mean(shares) <= LEVEL
    assert np.mean(shares) > 0  # the rule confirms as much as it may


def test_a_claim_without_a_p_value_is_not_confirmed() -> None:
    assert score([entry("a", 2.0, None, verdict="faster")]).not_confirmed == ("a",)


# -- the score against the speed of light ------------------------------------------------------------------------------


def test_the_baseline_scores_a_half_and_the_bound_one() -> None:
    assert score_of_light(3.0, 1.0, 3.0) == 0.5
    assert score_of_light(1.0, 1.0, 3.0) == 1.0
    assert score_of_light(2.0, 1.0, 3.0) == pytest.approx(2 / 3)
    assert score_of_light(5.0, 1.0, 3.0) == pytest.approx(1 / 3)


def test_a_time_below_the_bound_is_a_finding_and_has_no_score() -> None:
    """Unclamped the formula gives 4/3 at 0.5 ms, divides by zero at -1 and is negative beyond."""
    for time in (0.5, 0.999999):
        assert score_of_light(time, 1.0, 3.0) is None


def test_a_baseline_at_its_bound_leaves_no_score() -> None:
    for base in (1.0, 0.7):
        assert score_of_light(1.2, 1.0, base) is None
    assert score_of_light(1.0, 0.0, 3.0) is None
