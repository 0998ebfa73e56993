"""All lessons on one page: what each comes to, which figure may be drawn, in which order and choice they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aisp.kernels.catalog.model import Expectation, Kind, Needs, Rung
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from aisp.store.record import Arm, Comparison, Quarantine
from aisp.store.results import overview
from aisp.store.results.outcome import Outcome
from aisp.store.results.overview import Here, Lesson
from aisp.store.results.prediction import answer
from aisp.store.results.reading import Bar, Reading, of_quarantine
from tests.replacing import replace
from tests.store.examples import finding, finished, planned
from tests.tui.app_support import H100, write_target


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def lesson(root: Path, name: str = "one", *, speedup: float = 2.0, expect: Any = (1.5, 3.0), **changes: Any) -> Lesson:
    """A lesson with a good run on an H100, or `changes` of the run."""
    target = write_target(root, "ch07", name, expect=Expectation(expect, "H100", "why") if expect else None)
    wall = changes.pop("wall", "2026-05-04T10:20:30+00:00")
    end = finished(planned(target.id, device="cuda", case="default", wall=wall), speedup=speedup, flags=(), **changes)
    said = answer([end], target, lambda run: H100, quarantined=False) if expect else None
    return Lesson(target, Reading(end), facts=H100, answer=said)


def ratio(verdict: Verdict, speedup: float, spread: float = 1.02) -> Comparison:
    return Comparison("optimized", "baseline", verdict, speedup, speedup / spread, speedup * spread, floor=0.004)


@pytest.mark.parametrize(
    ("verdict", "speedup"), [(Verdict.SLOWER, 0.8), (Verdict.SAME, 1.0), (Verdict.UNDECIDED, 1.05)]
)
def test_a_verdict_is_the_outcome_and_has_its_figure(root: Path, verdict: Verdict, speedup: float) -> None:
    found = lesson(root, comparisons=(ratio(verdict, speedup),), verdict=verdict)
    assert found.outcome.value == verdict.value
    assert found.ratio is not None
    assert found.ratio.speedup == speedup
    assert found.sol == 0.82


HELD = Quarantine("ch07:one", b"", "optimized", "c0de", "01OLD", "timing.wall_clock", "9 ms by the clock", "")
CAUGHT = finding("timing.wall_clock", "optimized", "caught", "0.4 ms by events, 9 ms by the clock")
MISTAKEN = finding("output.values", "optimized", "caught", "y[3]: got 1, expected 2")
WRONG_ARM = Arm("optimized", State.INCORRECT, Correctness.WRONG, reason="y[3]: got 1")
RIGHT_ARM = Arm("baseline", State.OK, Correctness.CORRECT)


def figureless(root: Path, how: str) -> Lesson:
    good = lesson(root)
    assert good.run is not None
    record = good.run.record
    bare = replace(record, comparisons=(), verdict=Verdict.NONE)
    match how:
        case "caught":
            return replace(
                good, run=Reading(replace(bare, validity=Validity.CAUGHT, findings=(CAUGHT,), reason="caught"))
            )
        case "wrong":
            arms = (RIGHT_ARM, WRONG_ARM)
            ended = {"state": State.INCORRECT, "correctness": Correctness.WRONG, "reason": "wrong values"}
            return replace(good, run=Reading(replace(bare, arms=arms, findings=(MISTAKEN,), **ended)))
        case "quarantined":
            return replace(good, held={"optimized": of_quarantine(HELD)})
        case "suspect":
            return replace(good, run=Reading(replace(record, validity=Validity.SUSPECT, reason="clocks differ")))
        case "error":
            return replace(good, run=Reading(replace(bare, state=State.USER_ERROR, reason="'(' was never closed")))
        case "right":
            return replace(good, run=Reading(bare))
        case "not here":
            return replace(good, run=None, missing="needs sm_100")
    return replace(good, run=None)


@pytest.mark.parametrize("how", ["caught", "wrong", "quarantined", "suspect", "error", "right", "not here", "not run"])
def test_what_is_no_verdict_has_no_figure(root: Path, how: str) -> None:
    found = figureless(root, how)
    assert found.word == how
    assert found.ratio is None
    assert found.sol is None
    assert found.bad == (how in ("caught", "wrong", "quarantined", "suspect", "error"))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("caught", "optimized: caught by timing.wall_clock: 0.4 ms by events, 9 ms by the clock"),
        ("quarantined", "optimized: quarantined by timing.wall_clock: 9 ms by the clock"),
        ("error", "'(' was never closed"),
        ("suspect", "clocks differ"),
        ("not here", "needs sm_100"),
    ],
)
def test_why_there_is_no_figure_is_said(root: Path, how: str, told: str) -> None:
    assert figureless(root, how).why == told


def test_a_rung_in_quarantine_beside_the_lead_takes_no_figure_away(root: Path) -> None:
    other = Bar("optimized_slow", "timing.wall_clock", "seen")
    assert replace(lesson(root), held={"optimized_slow": other}).outcome is Outcome.FASTER


@pytest.mark.parametrize(("speedup", "off"), [(6.0, 1.0), (2.0, 0.0), (1.5, 0.0)])
def test_the_distance_to_a_prediction_is_in_doublings(root: Path, speedup: float, off: float) -> None:
    assert lesson(root, speedup=speedup).off_by == pytest.approx(off)


def test_a_run_on_other_hardware_is_at_no_distance_and_the_prediction_is_not_meant(root: Path) -> None:
    found = lesson(root)
    assert found.run is not None
    elsewhere: dict[str, object] = {"gpu": "NVIDIA A100"}
    said = answer([found.run.record], found.target, lambda run: elsewhere, quarantined=False)
    there = replace(found, facts=elsewhere, answer=said)
    assert (there.off_by, there.meant, found.meant) == (None, False, True)


def test_orders_put_the_known_first_and_the_rest_as_the_catalogue_has_them(root: Path) -> None:
    slow, fast = lesson(root, "a", speedup=1.6), lesson(root, "b", speedup=12.0, wall="2026-04-01T00:00:00+00:00")
    less = lesson(root, "c", speedup=1.2)
    unknown = replace(lesson(root, "d"), run=None, answer=None)
    every = [unknown, slow, fast, less]

    def names(sort: str) -> str:
        return "".join(one.target.name for one in overview.ordered(every, sort))

    assert names("chapter") == "dabc"
    assert names("speed-up") == "bacd"
    assert names("distance to prediction") == "bcad"
    assert names("age") == "bacd"
    assert names("share of light") == "abcd"


def test_choices(root: Path) -> None:
    met, less = lesson(root, "met"), lesson(root, "less", speedup=1.2)
    more = lesson(root, "more", speedup=30.0)
    same = lesson(root, "same", comparisons=(ratio(Verdict.SAME, 1.0),), verdict=Verdict.SAME)
    fresh = replace(lesson(root, "fresh"), run=None, answer=None)
    there = replace(lesson(root, "there"), run=None, answer=None, missing="needs sm_100")
    bad = replace(lesson(root, "bad"), held={"optimized": of_quarantine(HELD)})
    every = [met, less, more, same, fresh, there, bad]

    def names(only: str) -> list[str]:
        return [one.target.name for one in every if overview.FILTERS[only](one)]

    assert len(names("all")) == 7
    assert "there" not in names(overview.HERE)
    assert names("not run") == ["fresh", "there"]
    assert names("less than predicted") == ["less", "same"]
    assert names("prediction missed") == ["less", "more", "same"]
    assert names("not faster") == ["same"]
    assert names("failed or doubted") == ["bad"]


def test_without_a_gpu_only_what_pytorch_runs_is_timed(root: Path) -> None:
    target = lesson(root).target
    assert overview.times_without_gpu(target)
    triton = tuple(replace(rung, kind=Kind.TRITON) for rung in target.rungs)
    assert not overview.times_without_gpu(replace(target, rungs=triton))
    assert not overview.FILTERS[overview.HERE](replace(lesson(root, "two"), timed_here=False))


def test_words_find_techniques_outcomes_and_hardware_all_together(root: Path) -> None:
    found = lesson(root)
    assert overview.matches(found, "coalescing H100 FASTER")
    assert not overview.matches(found, "coalescing slower")
    assert overview.matches(found, "running", "running")
    assert overview.matches(found, "")


def test_the_axis_reaches_around_all_that_is_drawn(root: Path) -> None:
    assert overview.span([]) == (0.5, 4.0)
    wild = Comparison("optimized", "baseline", Verdict.UNDECIDED, 2.0, 0.001, 4000.0)
    assert overview.span([lesson(root, "w", comparisons=(wild,), verdict=Verdict.UNDECIDED)]) == (0.5, 4.0)
    assert overview.span([lesson(root, "a", speedup=11.0)]) == (0.5, 16.0)
    assert overview.span([lesson(root, "b", expect=(0.2, 40.0))]) == (0.125, 64.0)
    assert overview.span([lesson(root, "c", speedup=1e6)])[1] == 1024.0
    assert overview.ticks(0.25, 16.0, 4) == [0.25, 1.0, 4.0, 16.0]
    for most in (1, 2, 5, 20):
        ticks = overview.ticks(1 / 8, 256.0, most)
        assert 1.0 in ticks
        assert len(ticks) <= max(1, most)


def test_a_lesson_that_needs_what_is_missing_but_has_a_result_keeps_it(root: Path) -> None:
    assert replace(lesson(root), missing="needs sm_100").outcome is Outcome.FASTER


def test_without_a_gpu_a_lesson_is_timed_checked_or_needs_one_by_the_best_of_its_optimized_rungs(root: Path) -> None:
    target = write_target(root, "ch07", "here")
    base, fast, wrong = target.rungs
    checked, gpu_only = replace(fast, name="optimized_b", kind=Kind.TRITON), replace(fast, gpu_only=True)

    def best(*rungs: Rung) -> Here:
        return overview.best_without_gpu(replace(target, rungs=(base, *rungs, wrong)))

    assert best(gpu_only) is Here.NEEDS_GPU
    assert best(gpu_only, checked) is Here.CHECKED
    assert best(gpu_only, checked, replace(fast, name="optimized_c")) is Here.TIMED
    assert best(replace(fast, needs=Needs(gpus=2))) is Here.NEEDS_GPU
