"""Lists of lessons: the targets that there are, all of them with their last results, and what was predicted of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aisp.store.outcomes import State
from aisp.store.results import catalogued, hardware
from aisp.store.results.numbers import DASH, factors, local_time, number, percent, saved, speedup
from aisp.store.results.outcome import Outcome, state_words
from aisp.store.results.overview import Lesson, best_without_gpu
from aisp.store.results.prediction import Says
from aisp.store.results.tables import CELL_CHARS, Column, at, attributes, fields, through
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Expectation
    from aisp.store.record import Arm
    from aisp.store.results.reading import Reading

PREDICTION_WORDS = {
    Says.MET: "met",
    Says.MISSED: "missed",
    Says.UNMEASURED: "memory?",
    Says.QUARANTINED: "quarantined",
    Says.DOUBTED: "doubted",
    Says.PORTABLE: "portable",
    Says.SOME_RUNGS: "some rungs",
}
"""What a run said to a prediction; of the others no run can say anything."""


def last_text(lesson: Lesson) -> str:
    """A last result in a few words: "faster 2.31x", "wrong", "quarantined", "" for none; and what the newest
    attempt came to, where that said nothing."""
    run = lesson.run
    if run is None:
        text, notes = DASH, []
    else:
        best, text = run.best, lesson.word
        if best is not None and lesson.outcome.compared:
            text = f"{text} {speedup(best.speedup)}"
        elif best is None and lesson.outcome is Outcome.RIGHT and run.best_ms is not None:
            text = f"{text}, {number(run.best_ms)} ms"
        notes = ["quick"] if run.record.quick and best is not None and run.record.state is State.OK else []
    notes += ["quarantined"] if lesson.held and text != "quarantined" else []
    notes += [f"last try: {state_words(lesson.attempt.record.state)}"] if lesson.attempt is not None else []
    if notes == ["quarantined"] and run is None:
        return "quarantined"
    return f"{text} ({', '.join(notes)})" if notes else text


_OF_RUN = ("wall", "device", "case", "quick", "correctness", "validity", "verdict", "reason")


def last_json(run: Reading | None) -> dict[str, Any] | None:
    """What a run of a target said; `rung` is the one that it is about."""
    if run is None:
        return None
    lead, best = _timed_lead(run), run.best
    return {
        "run_id": run.id,
        "status": run.record.state,
        **{name: getattr(run.record, name) for name in _OF_RUN},
        "rung": lead.rung if lead else None,
        "median_ms": lead.median_ms if lead else None,
        "sol": lead.sol if lead else None,
        "speedup": best.speedup if best else None,
        "low": best.low if best else None,
        "high": best.high if best else None,
    }


def _timed_lead(run: Reading | None) -> Arm | None:
    return run.lead if run is not None and run.best_ms is not None else None


def held_lines(lessons: Iterable[Lesson]) -> list[str]:
    """Why rungs are in quarantine, below a list."""
    told = [f"{one.target.id}: {bar.sentence}" for one in lessons for bar in one.held.values()]
    return [*([""] if told else []), *(clean_line(line, limit=CELL_CHARS) for line in told)]


_HELD: Column[Lesson] = Column(
    "quarantined",
    "its rungs in quarantine: which check caught each, what it saw, in which run, and when",
    lambda one: [bar.as_json() for bar in one.held.values()],
)

TARGETS: tuple[Column[Lesson], ...] = (
    *(through(column, lambda one: one.target) for column in catalogued.COLUMNS),
    _HELD,
    Column("last", "the last result: its `run_id`, `status`, `verdict`, `rung`, `speedup`, `sol` and the like",
           lambda one: last_json(one.run), "last result", last_text),
    Column("last_try", "a newer run that says nothing, likewise", lambda one: last_json(one.attempt)),
    Column("sol", head="SOL",
           text=lambda one: percent(lead.sol if (lead := _timed_lead(one.run)) else None), right=True),
    Column("without_gpu", "what a machine without a GPU makes of it: `timed`, `checked` or `needs GPU`",
           lambda one: best_without_gpu(one.target), "no GPU", drop=1),
)  # fmt: skip


def prediction_text(lesson: Lesson) -> str:
    """The predicted range, and whether it was met, or the hardware that it speaks of; "" for none."""
    expect = lesson.target.expect
    if expect is None:
        return ""
    word = PREDICTION_WORDS.get(lesson.answer.says) if lesson.answer is not None else None
    low, high = (number(end, 2) for end in expect.speedup)
    return f"{low}..{high}x {word or f'on {hardware.short(expect.on)}'}"


def _ratio_text(lesson: Lesson) -> str:
    ratio = lesson.ratio
    return "" if ratio is None else speedup(ratio.speedup, ratio.low, ratio.high)


def _predicted(lesson: Lesson) -> dict[str, Any] | None:
    expect = lesson.target.expect
    return None if expect is None else {"low": expect.speedup[0], "high": expect.speedup[1], "on": expect.on}


_MET = "whether the prediction came true, `null` where no run can say"

LESSONS: tuple[Column[Lesson], ...] = (
    Column("target", "the lesson", at("target.id"), "lesson", shrink=True),
    *fields("target", {"chapter": "the chapter that it stands in", "title": "one sentence about it"}),
    Column("techniques", "what it uses", lambda one: list(one.target.techniques)),
    Column("outcome", "what its last result comes to, in a word", at("word"), "verdict"),
    Column("why", "why there is no figure, or what must be known beside it", at("why")),
    *fields("ratio", {"rung": "the rung that the run is about"}),
    Column("speedup", "baseline time over its time", at("ratio.speedup"), "speed-up [low..high]", _ratio_text),
    *fields("ratio", {"low": "lower end of its 95 % interval", "high": "upper end", "floor": "the noise floor"}),
    Column("predicted", "the range of the speed-up that was predicted, and `on` which hardware", _predicted,
           "predicted", prediction_text, drop=4),
    Column("sol", "share of the speed of light, 0 to 1", at("sol"), "of light", lambda one: percent(one.sol),
           right=True, drop=3),
    Column("limiter", "what keeps it from being faster", lambda one: one.limiter or None),
    Column("met", _MET, at("answer.met")),
    Column("off_by_log2", "by how many doublings the answer lies outside, below zero for less", at("off_by")),
    Column("run_id", "the run", at("run.id")),
    Column("on", "its hardware", lambda one: one.on or None, "on", lambda one: hardware.short(one.on), drop=2),
    Column("wall", "when it began, in UTC", at("run.record.wall"),
           "when", lambda one: local_time(one.run.record.wall) if one.run else "", drop=1),
    *fields("run.record", {"quick": "whether it was a quick run"}),
)  # fmt: skip


def _expect(lesson: Lesson) -> Expectation:
    assert lesson.target.expect is not None  # only what predicts something stands in this list
    return lesson.target.expect


def _expected(lesson: Lesson) -> dict[str, Any]:
    expect = _expect(lesson)
    return _predicted(lesson) | {"memory": list(expect.memory) if expect.memory else None, "why": expect.why}  # type: ignore[operator]


def _expected_text(lesson: Lesson) -> str:
    expect = _expect(lesson)
    memory = f", {factors(expect.memory)} less memory" if expect.memory else ""
    return f"{factors(expect.speedup)}{memory} on {expect.on}"


def _measured(lesson: Lesson) -> dict[str, Any] | None:
    found = lesson.answer
    if found is None or found.run is None:
        return None
    run, best = found.run, found.measured
    return {
        "run_id": run.id,
        "wall": run.wall,
        "on": found.on or None,
        **attributes(run, "quick", "validity", "policy"),
        **attributes(best, "rung", "speedup", "low", "high", "memory", "verdict"),
    }


def _measured_text(lesson: Lesson) -> str:
    if lesson.answer is None or lesson.answer.run is None:
        return ""
    best = lesson.answer.measured
    text = speedup(best.speedup, best.low, best.high, verdict=best.verdict)
    return f"{text}, {saved(best.memory)} memory" if _expect(lesson).memory and best.memory is not None else text


PREDICTIONS: tuple[Column[Lesson], ...] = (
    Column("target", "the lesson", at("target.id"), "target"),
    Column("predicted", "the ranges of the speed-up and of the `memory` saved, `on` which hardware, and `why`",
           _expected, "predicted", _expected_text),
    Column("measured", "the run that speaks of it; `memory` is the baseline's peak over the rung's", _measured,
           "measured [low..high]", _measured_text),
    Column("on", head="on", text=lambda one: one.answer.on if one.answer else "", drop=1, shrink=True),
    Column("met", _MET, at("answer.met"),
           "met", lambda one: PREDICTION_WORDS.get(one.answer.says, "") if one.answer else ""),
    _HELD,
)  # fmt: skip
