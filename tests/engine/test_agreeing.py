"""What an arm's own interval and that of its ratio say of the same run is never at odds."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.engine import verdicts
from aisp.engine.arms import TWIN_SUFFIX, Arm
from aisp.engine.statistics import HELD, PRIORS, Prior
from aisp.store import record as records
from tests.engine.test_verdicts import arm, rung

RUNGS = ("baseline_other", "optimized", "optimized_more")
ARMS = ("baseline", *RUNGS, "baseline" + TWIN_SUFFIX)


def measured(
    seed: int, replicas: int, rounds: int, noise: float, processes: tuple[float, ...], machine: float, drift: float
) -> list[Arm]:
    """Arms of a run: samples, processes by arm, what a replica does to all of them, and what a round does vary so."""
    random = np.random.default_rng(seed)
    common = random.normal(0.0, 1.0, (replicas, 1)) * machine + random.normal(0.0, 1.0, (replicas, rounds)) * drift
    made = []
    for number, (name, spread) in enumerate(zip(ARMS, processes, strict=True)):
        one = Arm(name, rung(name.removesuffix(TWIN_SUFFIX)), "cpu", True)
        like = arm(name)
        one.state, one.correctness, one.timing = like.state, like.correctness, like.timing
        own = random.normal(0.0, 1.0, (replicas, 1, 1)) * spread
        logs = common[..., None] + own + random.standard_t(3, (replicas, rounds, 4)) * noise
        times = (2.0 / (1 + number % 4) * np.exp(np.clip(logs, -5, 5))).ravel().tolist()
        log = one.samples
        log.device_ms, log.host_ms, log.end_ns = times, times, [0] * len(times)
        log.replica = np.repeat(np.arange(replicas), rounds * 4).tolist()
        log.round = np.tile(np.repeat(np.arange(rounds), 4), replicas).tolist()
        log.inputs = log.discarded = [0] * len(times)
        log.sm_clock_mhz = log.probe_ms = log.cycles = [math.nan] * len(times)
        made.append(one)
    return made


def told(arms: list[Arm], prior: Prior, interleaved: bool) -> tuple[dict[str, records.Arm], list[records.Comparison]]:
    """The arms' records and the comparisons as a run has them."""
    compared, _ = verdicts.comparisons(arms, quick=False, interleaved=interleaved, prior=prior)
    alone = [verdicts.arm_record(one, source=b"", roofline=None, base_ms=None, prior=prior) for one in arms]
    return {one.rung: one for one in verdicts.agreeing(alone, compared)}, compared


SPREADS = st.sampled_from([0.0, 1e-4, 0.002, 0.01, 0.1, 1.0])


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 9),
    SPREADS,
    st.tuples(*[SPREADS] * len(ARMS)),
    SPREADS,
    SPREADS,
    st.sampled_from([*PRIORS["cuda"].values(), Prior(1e-5, 6.0, "here"), Prior(0.2, 6.0, "here")]),
    st.booleans(),
)
def test_a_ratios_interval_lies_within_what_its_arms_intervals_allow_and_is_no_wider(
    seed: int,
    replicas: int,
    rounds: int,
    noise: float,
    processes: tuple[float, ...],
    machine: float,
    drift: float,
    prior: Prior,
    interleaved: bool,
) -> None:
    arms, compared = told(measured(seed, replicas, rounds, noise, processes, machine, drift), prior, interleaved)
    assert {one.rung for one in compared} == set(RUNGS)
    for one in compared:
        base, own = arms[one.baseline], arms[one.rung]
        for figures in (base, own):
            assert figures.low_ms and figures.median_ms and figures.high_ms
            assert figures.low_ms <= figures.median_ms <= figures.high_ms
        assert one.low and one.high and base.low_ms and base.high_ms and own.low_ms and own.high_ms
        assert base.low_ms / own.high_ms <= one.low * (1 + 1e-12)
        assert base.high_ms / own.low_ms >= one.high * (1 - 1e-12)
        assert one.high / one.low <= base.high_ms / base.low_ms * own.high_ms / own.low_ms * (1 + 1e-12)


def test_an_interval_is_seldom_widened_and_then_by_little_where_processes_are_alike() -> None:
    """And the first baseline's never: what a rung does says nothing of it."""
    wider = []
    for seed in range(60):
        arms = measured(seed, 3, 8, 0.01, (0.005,) * len(ARMS), 0.005, 0.01)
        before = {
            one.name: verdicts.arm_record(one, source=b"", roofline=None, base_ms=None, prior=PRIORS["cuda"][HELD])
            for one in arms
        }
        after, _ = told(arms, PRIORS["cuda"][HELD], True)
        assert (before["baseline"].low_ms, before["baseline"].high_ms) == (
            after["baseline"].low_ms, after["baseline"].high_ms
        )  # fmt: skip
        for name in RUNGS:
            widths = [math.log((one[name].high_ms or 0) / (one[name].low_ms or 1)) for one in (before, after)]
            wider.append(widths[1] / widths[0])
    assert np.mean(np.array(wider) > 1 + 1e-9) < 0.2
    assert max(wider) < 1.5
