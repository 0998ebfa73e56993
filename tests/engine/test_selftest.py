"""The self-test of the statistics: rates within their bands with fewer trials too, and what it is there to notice."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aisp.engine import selftest, statistics
from aisp.engine.selftest import PROTOCOLS, SAMPLES, STREAMS, Session, outcome, rates, trial, wilson

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

SEED = 7
TRIALS = 60

# -- the bands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.slow
def test_the_full_protocol_errs_at_most_in_one_of_a_hundred(name: str) -> None:
    """And has the power that it must have: a rule that never decides would err never."""
    found = rates(name, "full", TRIALS, SEED)
    assert found.wrong_sign_rate == 0.0
    assert found.band == (0.0, 0.01)
    assert found.ok, found


@pytest.mark.parametrize("name", STREAMS)
def test_the_quick_protocol_errs_as_often_as_its_band_says(name: str) -> None:
    found = rates(name, "quick", 2 * TRIALS, SEED)
    assert found.band == (0.0, selftest.QUICK_BAND)
    assert found.ok, found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_process_alone_decides_nothing(protocol: str) -> None:
    rule = replace(PROTOCOLS[protocol], replicas=1, looks=())
    looked = trial(STREAMS["process-modes"], rule, np.random.default_rng(1))
    assert [outcome(looked, effect)[0] for effect in (0.0, 7.0)] == ["undecided", "undecided"]


# -- it notices what it is there for -----------------------------------------------------------------------------------


def test_an_interval_that_forgets_processes_leaves_its_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rounds of all replicas in one pot, and nothing known before."""
    honest = statistics.estimates

    def pooled(base: statistics.ByRound, arms: Any, prior: Any, **_: Any) -> dict[str, statistics.Estimate | None]:
        def one(arm: statistics.ByRound) -> statistics.ByRound:
            return statistics.ByRound(np.zeros_like(arm.replica), arm.replica * 1000 + arm.round, arm.median)

        nothing = statistics.Prior(1e-9, 1.0, "nowhere")
        return honest(one(base), {name: one(arm) for name, arm in arms.items()}, nothing, same=())

    monkeypatch.setattr(statistics, "estimates", pooled)
    monkeypatch.setattr(statistics, "LEAST_REPLICAS", 1)
    monkeypatch.setattr(statistics, "noise_floor", lambda twins, quick: 0.005)
    found = rates("processes", "full", TRIALS, SEED)
    assert found.false_positive_rate > selftest.QUICK_BAND
    assert found.coverage < 0.8
    assert not found.ok


def test_without_confirmation_in_cycles_a_higher_clock_is_called_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rates("clocks-apart", "full", 20, SEED).false_positive_rate == 0.0
    monkeypatch.setattr(statistics, "confirmed", lambda time, cycles: time)
    found = rates("clocks-apart", "full", 20, SEED)
    assert found.false_positive_rate == 1.0
    assert not found.ok


def test_rounds_that_are_not_paired_lose_the_power_to_see_through_a_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = statistics.estimates
    monkeypatch.setattr(statistics, "estimates", lambda *given, **how: honest(*given, **how, paired=False))
    assert not rates("ramp", "full", TRIALS, SEED).ok


def test_samples_at_a_low_clock_that_are_kept_are_seen_in_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the share set to nothing all samples of the clock steps are kept."""
    random = [np.random.default_rng([SEED, number]) for number in (1, 1)]
    set_aside = trial(STREAMS["clock-steps"], PROTOCOLS["full"], random[0])
    monkeypatch.setattr(selftest, "THROTTLED_BELOW", 0.0)
    kept = trial(STREAMS["clock-steps"], PROTOCOLS["full"], random[1])
    assert kept[-1].time[0].error != set_aside[-1].time[0].error


def test_a_rule_that_never_decides_is_out_of_its_band(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "noise_floor", lambda twins, quick: 0.5)
    found = rates("iid", "full", 10, SEED)
    assert found.false_positive_rate == 0.0
    assert not found.ok


# -- streams -----------------------------------------------------------------------------------------------------------


def test_arms_take_turns_in_an_order_that_the_next_round_reverses() -> None:
    session = Session.of(np.random.default_rng(0), 2, 6, 3)
    turn = session.moment[..., 0] // SAMPLES
    place = turn % 3
    assert (place[:, 0::2] + place[:, 1::2] == 2).all()
    for replica in range(2):
        assert sorted(session.moment[replica].ravel().tolist()) == list(range(session.length))
    assert len({tuple(order) for order in place[:, 0::2].reshape(-1, 3).tolist()}) > 1


@pytest.mark.parametrize("name", STREAMS)
def test_arms_of_a_stream_do_the_same_work(name: str) -> None:
    """Over many sessions no arm is faster than another: in cycles, where clocks differ."""
    differences = []
    for number in range(60):
        session = Session.of(np.random.default_rng([3, number]), 5, 6, 3)
        stream = STREAMS[name].make(session)
        logs = stream.logs if stream.clock_mhz is None else stream.logs + np.log(stream.clock_mhz)
        medians = np.median(logs, axis=(0, 1, 3))
        differences.append(medians - medians[0])
    spread = np.std(differences, axis=0) / math.sqrt(60)
    assert (np.abs(np.mean(differences, axis=0)) <= 4 * spread + 1e-9).all()


def test_the_autoregressive_series_has_the_memory_and_spread_that_it_is_given() -> None:
    series = selftest._ar1(np.random.default_rng(1), 400, 720, 0.9, 0.02)
    assert series.std() == pytest.approx(0.02, rel=0.03)
    assert series[:, 0].std() == pytest.approx(0.02, rel=0.15)
    assert np.corrcoef(series[:, 1:].ravel(), series[:, :-1].ravel())[0, 1] == pytest.approx(0.9, abs=0.01)


def test_the_stop_rule_is_the_one_that_runs_follow() -> None:
    """Calm streams end at the least rounds, wild ones at the most."""
    rule = PROTOCOLS["full"]
    session = Session.of(np.random.default_rng(0), rule.replicas, rule.most_rounds, 2)
    kept = np.ones(session.shape, np.bool_)
    for spread, wanted in ((0.001, rule.least_rounds), (0.5, rule.most_rounds)):
        base, rung = selftest._arms(np.exp(session.noise(spread)), kept)
        assert selftest._last_rounds(base, rung, rule).tolist() == [wanted] * rule.replicas


def test_a_quick_run_ends_where_the_effect_is_clear_and_a_full_one_does_not() -> None:
    session = Session.of(np.random.default_rng(0), 2, 8, 2)
    base, rung = selftest._arms(np.exp(session.noise(0.1)), np.ones(session.shape, np.bool_))
    ended = {
        protocol: [selftest._last_rounds(base, rung, replace(rule, replicas=2), by).max() for by in (0.0, 2.0)]
        for protocol, rule in PROTOCOLS.items()
    }
    assert ended == {"full": [12, 12], "quick": [8, 4]}


def test_an_effect_moves_the_verdict_of_the_same_samples() -> None:
    looked = trial(STREAMS["iid"], PROTOCOLS["full"], np.random.default_rng(1))
    assert [judged.replicas for judged in looked] == [2, 3, 5]
    assert [outcome(looked, effect)[0] for effect in (0.0, 0.10, -0.10)] == ["same", "faster", "slower"]


def test_a_clear_case_ends_after_two_replicas_and_a_close_one_takes_all() -> None:
    looked = trial(STREAMS["iid"], PROTOCOLS["full"], np.random.default_rng(1))
    assert outcome(looked, 7.0) == ("faster", 2)
    assert outcome(looked, 0.0) == ("same", 5)
    assert outcome([], 0.0) == ("none", 0)


def test_what_is_spent_over_the_looks_is_what_the_rule_says() -> None:
    most = statistics.LOOKS[-1].replicas
    spent = [statistics.CLAIM * (look.replicas / most) ** statistics.SPENDING for look in statistics.LOOKS]
    assert np.diff([0.0, *spent]) == pytest.approx([look.level for look in statistics.LOOKS])
    assert sum(look.level for look in statistics.LOOKS) == pytest.approx(statistics.CLAIM)


def test_replicas_are_judged_by_the_look_that_they_have_come_to() -> None:
    at = [statistics.look_at(count, statistics.LOOKS) for count in range(1, 8)]
    assert at[0] is None  # one process: its rounds are all there is
    assert [look.replicas for look in at[1:] if look] == [2, 3, 5, 5, 5, 5]
    assert statistics.look_at(4, ()) is None


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_rates_own_interval_is_wilsons() -> None:
    assert wilson(0, 400) == pytest.approx((0.0, 0.00951), abs=1e-5)
    assert wilson(20, 400) == pytest.approx((0.03258, 0.07596), abs=1e-4)


def test_the_same_seed_gives_the_same_rates_whatever_else_is_asked_for() -> None:
    assert rates("ar1", "quick", 20, 3) == rates("ar1", "quick", 20, 3)
    assert rates("ar1", "quick", 20, 3) != rates("ar1", "quick", 20, 4)


def test_json_has_the_promised_fields_and_progress_is_told_aside(capsys: pytest.CaptureFixture[str]) -> None:
    status = selftest.main(["--json", "--trials", "20", "--seed", "5", "--streams", "iid, two-modes"])
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert status == 0
    assert [stream["name"] for stream in found["streams"]] == [
        "iid", "iid (quick)", "two-modes", "two-modes (quick)"
    ]  # fmt: skip
    assert (found["trials"], found["seed"], found["replicas"], found["level"], found["ok"]) == (20, 5, 5, 0.01, True)
    first = found["streams"][0]
    assert first["band"] == [0.0, 0.01]
    assert found["looks"] == [
        {"replicas": 2, "level": 0.00064, "margin": 0.15},
        {"replicas": 3, "level": 0.00152, "margin": 0.1},
        {"replicas": 5, "level": 0.00784, "margin": 0.0},
    ]
    assert first["replicas"]["1.0"] == 2.0
    assert list(first["power"]) == ["0.005", "0.01", "0.02", "0.05", "0.1", "1.0"]
    assert first["power"]["0.1"] == 1.0
    assert first["coverage"] >= first["least_coverage"] == 0.9
    assert 0.001 < first["width"] < 0.01
    assert first["ok"] is True
    assert [line.split(",")[0] for line in told.err.splitlines()] == ["[1/2] iid", "[2/2] two-modes"]


def test_a_rate_out_of_its_band_ends_in_status_one_and_is_marked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "confirmed", lambda time, cycles: time)
    assert selftest.main(["--trials", "5", "--streams", "clocks-apart"]) == 1
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("clocks-apart")]
    assert len(rows) == 2
    assert rows[0].endswith("out of its band")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--streams", "iid,nope"], "no stream named nope; there are iid, ramp"),
        (["--streams", ""], "no stream named (nothing)"),
        (["--trials", "0"], "trials must be at least 1"),
        (["--seed", "-1"], "the seed at least 0"),
    ],
)
def test_a_wrong_request_says_what_would_work(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        selftest.main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err
