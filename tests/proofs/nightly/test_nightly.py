"""A short simulation keeps its promises, and finds what it plants."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aisp.store.results.regression import Change
from tests.proofs.nightly import __main__ as program
from tests.proofs.nightly import nights
from tests.proofs.nightly.kernels import stored


@pytest.mark.slow
def test_a_month_of_unchanged_code_is_without_an_alarm_and_turns_are_rare() -> None:
    found = nights.unchanged(stored(), 30, np.random.default_rng(3))
    assert found.alarms == []
    assert sum(found.changes.values()) == 30 * len(stored())
    assert found.changes[Change.SAME] > found.changes[Change.UNDECIDED]
    assert 0 < found.turns < 60, "something looks slower now and then, or the screening sees nothing"


@pytest.mark.slow
def test_a_planted_slowdown_is_found_and_one_of_nothing_is_not() -> None:
    kernels = stored()
    others = nights.unchanged(kernels, 20, np.random.default_rng(4)).rows
    for kernel in program.watched(kernels):
        slow = nights.planted(kernel, 0.05, others, np.random.default_rng(5))
        assert (slow.found, slow.missed) == (1.0, 0.0), kernel.name
        assert "% slower than" in slow.sentence
        assert "confirmed in turns: the source of optimized changed" in slow.sentence
        nothing = nights.planted(kernel, 0.0, others, np.random.default_rng(6))
        assert nothing.found == 0.0, kernel.name
    short = nights.planted(program.watched(kernels)[0], 0.01, others, np.random.default_rng(7))
    assert short.measured_in_turns > 0.9, "1 % of a kernel of 3 us is noticed"


@pytest.mark.slow
def test_the_program_says_its_figures_and_the_same_seed_gives_them_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.json", "two.json"):
        assert program.main(["--nights", "3", "--seed", "9", "--record", str(tmp_path / name)]) == 0
    one, two = (json.loads((tmp_path / name).read_text("utf-8")) for name in ("one.json", "two.json"))
    assert (one.pop("took_s") > 0, two.pop("took_s") > 0, one) == (True, True, two)
    assert capsys.readouterr().out.startswith("3 nights of 22 targets, unchanged code, seed 9: 0 alarms, ")
    assert [(each["time_us"], each["slowed"]) for each in one["planted"]][:3] == [
        (pytest.approx(3.0), 0.01),
        (pytest.approx(3.0), 0.02),
        (pytest.approx(3.0), 0.05),
    ]
