"""What became of a rung is one rule, and every door says it in words of its own: each cell of the matrix below is a
line's word in `outcomes.txt`, so that a changed one is seen.

After a change that is meant: `pytest tests/test_outcomes.py --snapshot-update`, and read the difference.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings

from aisp.engine.documents import run_json
from aisp.engine.doors import api
from aisp.engine.doors.asking import Answer
from aisp.engine.doors.serve import evaluations
from aisp.kernels.catalog.formats.trace_definition import Harness
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State
from aisp.store.record import Run
from aisp.store.results import audit, candidate, evidence, kernelbench, outcome, suite, traces
from aisp.store.results.outcome import Outcome
from aisp.store.results.overview import Lesson
from aisp.store.results.reading import Reading
from aisp.tui import sharing
from aisp.tui.cli import follow
from aisp.tui.endsignal import _run_words
from aisp.tui.findings import our_text, outcome_text
from aisp.tui.model import RunView
from aisp.tui.readings import verdict_row
from tests.ended import BASE, RUNG, matrix
from tests.store.examples import run_records

GOLDEN = Path(__file__).with_name("outcomes.txt")
NOTHING, DITTO = "-", '"'
MATRIX = matrix()
BY_NAME = dict(MATRIX)
Door = Callable[[Reading], str]


def lesson(run: Reading) -> Lesson:
    target = SimpleNamespace(usual_case=lambda device: SimpleNamespace(name="default"))
    return Lesson(cast(Target, target), run)


def as_evidence(run: Reading) -> str:
    said = evidence.of_run(run, RUNG)
    return f"{said.verdict}, {said.stage}: {said.reason_code}"


def as_candidate(run: Reading) -> str:
    found, among = (candidate.of_run(run, RUNG, alone=alone) for alone in (True, False))
    word = NOTHING if found is None else f"{found.word}, {found.stage}"
    return word if found == among else f"{word} (alone)"


def as_trace(harness: Harness) -> Door:
    def status(run: Reading) -> str:
        arm = run.arm(RUNG)
        return (arm and traces.status_of(run, arm, harness)) or NOTHING

    return status


def as_http(run: Reading) -> str:
    ended = evaluations.of_run(Answer(run))
    return ended.document["status"] if ended.failure is None else f"{ended.failure}{', again' if ended.again else ''}"


def as_audit(kind: audit.Kind) -> Door:
    def row(run: Reading) -> str:
        cheats, twin = ((RUNG,), "") if kind is audit.Kind.CHEAT else ((), RUNG)
        fixture = SimpleNamespace(target_id="a", category="timing", cheats=cheats, twin=twin, checks=())
        rows = audit.judge(cast(audit.Fixture, fixture), {RUNG: run})
        return " ".join(f"{'baseline ' if row.rung == BASE else ''}{row.outcome}" for row in rows)

    return row


def as_kernelbench(run: Reading) -> str:
    arm = run.arm(RUNG)
    if arm is None:
        return NOTHING
    stats: dict[str, Any] = {RUNG: {"mean": 0.5}} if run.bar(RUNG) is None and arm.median_ms is not None else {}
    said = kernelbench._sample(run, arm, 0, stats, "here")
    words = {"compiled": said["compiled"], "right": said["correctness"], "timed": said["runtime"] > 0}
    verdict = said["metadata"]["aisp"]["verdict"]
    return " ".join([*(word for word, is_so in words.items() if is_so), verdict])


def as_row(run: Reading) -> str:
    arm = run.arm(RUNG)
    (column,) = (one for one in follow.RUNGS if one.key == "verdict")
    return NOTHING if arm is None else column.cell((run, arm))


def as_json(run: Reading) -> str:
    return next((arm["outcome"] for arm in run_json(run)["arms"] if arm["rung"] == RUNG), NOTHING)


def as_python(run: Reading) -> str:
    found = api.Compared(Answer(run), RUNG, {})
    return " ".join([found.verdict, *([f"{found.speedup:.2f}"] if found.speedup is not None else [])])


def shared(run: Reading) -> sharing.Shared:
    return sharing.Shared(run, {}, {}, "", "")


def as_text(write: Callable[[sharing.Shared], str], row: str, between: str) -> Door:
    def cells(run: Reading) -> str:
        found = re.search(row.format(rf"{RUNG}{between}"), write(shared(run)))
        said = re.split(between, html.unescape(found[1])) if found else []
        return " ".join(cell for cell in (said[1], said[-1]) if cell != NOTHING)[:44] if said else NOTHING

    return cells


def as_part(run: Reading) -> str:
    part = suite.part_of(run)
    return f"counts, {part.best.speedup}" if part.best is not None else part.left_out[:44]


def as_view(draw: Callable[[RunView], str]) -> Door:
    return lambda run: draw(RunView(run.record, run.quarantined))


TABLES: Mapping[str, Mapping[str, Door]] = {
    "What it is called": {
        "the run": lambda run: outcome.of_run(run).word,
        "the lesson": lambda run: lesson(run).word,
        "on screens": lambda run: outcome_text(lesson(run), ascii=True, held="quarantined").plain,
        "evidence": as_evidence,
        "candidate": as_candidate,
        "a row": as_row,
    },
    "What leaves": {
        "FlashInfer": as_trace(Harness.FLASHINFER),
        "SOL": as_trace(Harness.SOL),
        "HTTP": as_http,
        "KernelBench": as_kernelbench,
        "Python": as_python,
        "a suite's row": as_part,
    },
    "What is written": {
        "the run's JSON": lambda run: str(run_json(run)["outcome"]),
        "JSON of a rung": as_json,
        "a copied line": lambda run: sharing.line(shared(run)).removeprefix(run.record.target)[1:].split(", cuda")[0],
        "Markdown": as_text(sharing.markdown, r"\n\| {}(.*) \|\n", r" \| "),
        "HTML": as_text(sharing.page, r"<tr><td>{}(.*?)</td></tr>", "</td><td>"),
        "audit: a twin": as_audit(audit.Kind.TWIN),
        "audit: a cheat": as_audit(audit.Kind.CHEAT),
    },
    "What a person reads": {
        "status": lambda run: str(follow.exit_status([run])),
        "its end": as_view(_run_words),
        "trust": as_view(lambda run: our_text(run, RUNG, True).plain[:40] if run.arm(RUNG) else NOTHING),
        "its line": lambda run: follow.summary(run)[:44],
        "the big line": as_view(lambda run: verdict_row(run, True).plain[:44]),
    },
}
"""By table and door: what it calls a run, or its rung; the longest ones are cut."""


def drawn() -> str:
    """The matrix: a row that says what the one above it says has a ditto mark."""
    return "\n".join(table(title, doors) for title, doors in TABLES.items())


def table(title: str, doors: Mapping[str, Door]) -> str:
    cells = [[door(run) for door in doors.values()] for _, run in MATRIX]
    widths = [max(map(len, column)) for column in zip(list(doors), *cells, strict=True)]
    names = max(len(name) for name, _ in MATRIX)
    lines = [f"{title:{names}}  {'  '.join(map(str.ljust, doors, widths))}"]
    for at, (name, _) in enumerate(MATRIX):
        same = at > 0 and cells[at] == cells[at - 1]
        lines.append(f"{name:{names}}  {DITTO if same else '  '.join(map(str.ljust, cells[at], widths))}")
    return "".join(line.rstrip() + "\n" for line in lines)


def test_every_door_says_what_became_of_a_rung_as_it_is_written_down(request: pytest.FixtureRequest) -> None:
    found = drawn()
    if request.config.getoption("--snapshot-update"):
        GOLDEN.write_text(found, "utf-8")
    kept = GOLDEN.read_text("utf-8").splitlines()
    assert found.splitlines() == kept, "pytest --snapshot-update writes it anew; read the difference"


def test_the_matrix_has_every_state() -> None:
    assert {run.record.state for run in BY_NAME.values()} == set(State)
    assert len(BY_NAME) == len(MATRIX)


SUSPECTED = {"OK suspect decided": True, "in a run that is suspect": True, "beside one that is suspect": False}


@pytest.mark.parametrize(("name", "suspect"), SUSPECTED.items())
def test_a_rung_is_called_suspect_where_the_doubt_is_about_it(name: str, suspect: bool) -> None:
    run = BY_NAME[name]
    assert our_text(RunView(run.record, run.quarantined), RUNG, True).plain.endswith(", suspect") is suspect


RIGHT = tuple(one for one in Outcome if one.right)
OF_RUN = ("the lesson", "on screens", "its end", "its line", "the big line", "the run's JSON", "a copied line")
OF_RUNG = ("a row", "trust", "JSON of a rung", "Markdown", "HTML")
BEFORE = (
    r" ?(?:(?:optimized|baseline|optimized_other|the run):? )?(?:\W )?(?:(?:baseline|run) )?"
    r"(?:\d\S+x (?:\[\S+ |\(.*?\) )?)?(?:the speed of baseline: )?"
)
"""What may stand before the word: whose it is, a sign, and the figure that it is about."""


@pytest.mark.parametrize("door", [*OF_RUN, *OF_RUNG])
def test_every_door_begins_with_the_one_word_of_what_became_of_it(door: str) -> None:
    draw = next(doors[door] for doors in TABLES.values() if door in doors)
    for name, run in MATRIX:
        ended = outcome.of_run(run) if door in OF_RUN else outcome.of(run, RUNG)
        told = draw(run)
        if told == NOTHING or ended.outcome is Outcome.PENDING:
            continue  # a rung that had no part, and figures that have not ended
        doubted = "(?:faster|undecided), " if door == "trust" and ended.outcome is Outcome.SUSPECT else ""
        assert re.match(f"{BEFORE}(?:{doubted})?{ended.word}", told), f"{name}: {told!r}, {ended.word}"


ALLOWED: Mapping[Door, Mapping[Outcome, set[str]]] = {
    TABLES["What leaves"]["FlashInfer"]: {
        **{one: {"PASSED"} for one in RIGHT},
        Outcome.SUSPECT: {NOTHING},
        Outcome.WRONG: {"INCORRECT_NUMERICAL"},
        Outcome.CAUGHT: {"RUNTIME_ERROR"},
        Outcome.FAILED: {"RUNTIME_ERROR", "TIMEOUT"},
        Outcome.UNAVAILABLE: {NOTHING},
        Outcome.PENDING: {NOTHING},
    },
    TABLES["What it is called"]["a row"]: {
        **{one: {one.value} for one in RIGHT if one is not Outcome.RIGHT},
        Outcome.WRONG: {"wrong", "was wrong"},
        Outcome.CAUGHT: {"caught", "quarantined"},
    },
    TABLES["What leaves"]["KernelBench"]: {
        **{one: {f"compiled right timed {one}"} for one in Outcome if one.compared},
        **{one: {"compiled right none"} for one in (Outcome.SUSPECT,)},
        **{one: {"none", "compiled none"} for one in Outcome if one not in RIGHT},
    },
}


@pytest.mark.parametrize("door", ALLOWED)
def test_a_door_says_the_same_of_the_same_outcome(door: Door) -> None:
    for name, run in MATRIX:
        words = ALLOWED[door].get(outcome.of(run, RUNG).outcome)
        assert words is None or run.arm(RUNG) is None or door(run) in words, name


def test_no_door_gives_a_figure_that_the_outcome_forbids() -> None:
    for name, run in MATRIX:
        arm, ended = run.arm(RUNG), outcome.of(run, RUNG)
        if arm is None:
            continue
        said, found, ours = evidence.of_run(run, RUNG), api.Compared(Answer(run), RUNG, {}), traces.ours(run, arm, {})
        kept = candidate.of_run(run, RUNG, alone=True)
        ratios = (said.speedup, said.interval, found.speedup, found.interval, found.comparison, kept and kept.speedup)
        assert ended.outcome.compared or {*ratios, ours["speedup"], ours["interval"]} <= {None}, name
        assert (found.verdict, found.faster) == (ended.verdict, ended.outcome is Outcome.FASTER), name
        times = (said.counters.get("median_ms"), kept and kept.median_ms, ours["latency_interval_ms"], said.limiter)
        assert ended.outcome is not Outcome.SUSPECT or {*times} <= {None}, name
        assert (suite.part_of(run).best is not None) is outcome.of_run(run).outcome.compared, name


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(run_records())
@pytest.mark.slow
def test_every_run_and_every_rung_has_an_outcome_in_words(record: Run) -> None:
    run = Reading(record)
    ends = [outcome.of(run, rung) for rung in [*(arm.rung for arm in record.arms), "nothing_of_this_name", ""]]
    for ended in [*ends, outcome.of_run(run)]:
        assert ended.word and ended.words and ended.code and "{" not in ended.words
        assert ended.fix or ended.outcome.compared
        assert not (ended.outcome.right and ended.own and ended.bar is not None)
        assert record.state.final or ended.outcome is Outcome.PENDING
