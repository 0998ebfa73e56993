"""A fuzz as the frontends know it: events and records in, views and words out, bounded and exact."""

from __future__ import annotations

import math

from aisp.checks.oracle.schema import Case, Layout, Strategy, Values
from aisp.engine.protocol import events
from aisp.store.outcomes import CaseVerdict, FuzzVerdict
from aisp.store.record import ERROR_BINS, Failure, Fuzz, RungFuzz, Tally
from aisp.store.results.fuzz import FuzzState, RungReading, case_text
from aisp.tui import fuzzes
from aisp.tui.fuzzes import FuzzView
from aisp.tui.model import MAX_FUZZES, Model
from tests.replacing import replace
from tests.tui.fakes import numbered, welcome_event
from tests.tui.fuzz_support import (
    HISTOGRAM,
    SCRIPT,
    TARGET,
    case_event,
    failure_event,
    failure_record,
    fuzz_events,
    fuzz_record,
    plan_event,
)

SECOND_NS = 1_000_000_000


class Clock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now_ns = 5 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


def test_a_fuzz_is_told_whole_case_by_case() -> None:
    model = Model()
    names = model.apply(numbered(fuzz_events()))
    fuzz = model.fuzzes["01F1"]
    assert {"fuzzes", "fuzz:01F1"} <= names
    assert (fuzz.target, fuzz.device, fuzz.seed, fuzz.asked_in_all) == (TARGET, "cpu", 7, 40)
    assert fuzz.state is FuzzState.RUNNING
    assert fuzz.total == Tally(40, 3, 2)
    wrong = fuzz.rungs["wrong_tail"]
    assert wrong.tallies["boundary"] == Tally(4, 3, 0)
    assert wrong.tallies["nonfinite"] == Tally(4, 0, 1)
    # 1e4 is the error of wrong cases: the worst of the right ones does not know of it.
    assert (wrong.worst, wrong.gate_failing, wrong.record) == (0.25, 3, None)
    newest = fuzz.cases[-1]
    assert (newest.rung, newest.case, newest.verdict) == ("wrong_tail", "M=20 N=129 float16", CaseVerdict.RIGHT)


def test_the_record_at_the_end_replaces_what_was_counted() -> None:
    model = Model()
    # The first half was missed: a subscription from the middle.
    model.apply(numbered(fuzz_events(finished=True)[-12:]))
    fuzz = model.fuzzes["01F1"]
    assert fuzz.state is FuzzState.DONE and fuzz.target == TARGET
    assert fuzz.total == Tally(40, 3, 2)
    optimized, wrong = fuzz.rungs["optimized"], fuzz.rungs["wrong_tail"]
    assert (optimized.certain, wrong.certain) == (FuzzVerdict.RIGHT, FuzzVerdict.WRONG)
    assert (optimized.worst, wrong.naive) == (0.31, True)
    assert fuzz.notes == ("the reference was computed in blocks",)
    assert model.fuzzes_of(TARGET) == [fuzz] and model.active_fuzzes() == []


def test_a_stored_fuzz_reads_as_a_live_one() -> None:
    model = Model()
    model.apply(numbered(fuzz_events(finished=True)))
    live = model.fuzzes["01F1"]
    stored = fuzzes.stored_fuzz(fuzz_record(), [failure_record()])
    assert stored.stored and not live.stored
    assert stored.rungs["optimized"].tallies == live.rungs["optimized"].tallies
    assert stored.failures == live.failures
    assert fuzzes.state_text(stored, 0, True) == fuzzes.state_text(live, 0, True)
    assert fuzzes.title_text(stored, True) == fuzzes.title_text(live, True)


def test_the_smallest_case_takes_the_place_of_the_drawn_one() -> None:
    model = Model()
    model.apply(numbered([plan_event(), failure_event(shrunk=False)]))
    fuzz = model.fuzzes["01F1"]
    assert case_text(fuzz.failures["01X1"].case) == "M=1021 N=129 float16 x:transposed,large"
    assert fuzz.drawn == {"01X1"}
    model.apply([replace_seq(failure_event(), 9)])
    assert list(fuzz.failures) == ["01X1"] and not fuzz.drawn
    assert case_text(fuzz.failures["01X1"].case) == "M=1 N=129 float16 x:large"
    assert case_text(fuzz.failures["01X1"].drawn) == "M=1021 N=129 float16 x:transposed,large"


def replace_seq(event: events.Event, seq: int) -> events.Event:
    event.seq = seq
    return event


def test_a_case_reads_here_as_the_oracle_writes_it() -> None:
    case = Case(
        3, Strategy.MIXED, {"M": 3, "N": 129}, "bfloat16", {"x": Layout.TRANSPOSED, "y": Layout.OFFSET},
        {"x": Values.LARGE, "w": Values.TIES},
    )  # fmt: skip
    assert case_text(case.plain()) == case.text
    assert case_text(Case(0, Strategy.BOUNDARY, {"N": 0}).plain()) == "N=0"


def test_cases_per_second_are_not_those_of_a_replayed_burst() -> None:
    clock = Clock()
    model = Model(clock_ns=clock)
    # 1,000 cases come at once after a reconnect, then 10 in each of 4 seconds.
    model.apply([plan_event(), *(case_event(number, "optimized") for number in range(1000))])
    fuzz = model.fuzzes["01F1"]
    assert fuzz.rate(clock.now_ns) is None
    for second in range(4):
        clock.now_ns += SECOND_NS
        model.apply([case_event(1000 + 10 * second + number, "optimized") for number in range(10)])
    assert fuzz.rate(clock.now_ns) == 10.0
    # Nothing comes for 4 s: it goes down while one looks.
    assert fuzz.rate(clock.now_ns + 4 * SECOND_NS) == 5.0


def test_after_its_end_cases_per_second_are_of_the_whole_fuzz() -> None:
    fuzz = fuzzes.stored_fuzz(fuzz_record())
    assert fuzz.rate(0) == 20.0  # 40 in 2 s
    assert fuzzes.stored_fuzz(fuzz_record(duration_ms=None)).rate(0) is None


def test_a_flood_keeps_the_newest_cases_and_exact_counts() -> None:
    model = Model()
    model.apply([plan_event(cases=9000), *(case_event(number, "optimized") for number in range(5000))])
    model.apply([failure_event(f"01X{number:04d}") for number in range(fuzzes.MAX_FAILURES + 50)])
    fuzz = model.fuzzes["01F1"]
    assert (fuzz.case_count, fuzz.total.cases, len(fuzz.cases)) == (5000, 5000, fuzzes.MAX_CASES)
    assert fuzz.cases[-1].case.startswith("M=5000 ")
    assert len(fuzz.failures) == fuzzes.MAX_FAILURES
    model.apply([events.FuzzFinished(fuzz=fuzz_record(f"02F{n:04d}")) for n in range(60)])
    assert len(model.fuzzes) == MAX_FUZZES and "01F1" in model.fuzzes  # it has not ended


def test_what_an_ended_engine_had_under_way_is_lost() -> None:
    model = Model()
    model.apply([welcome_event("E1"), *numbered(fuzz_events())])
    names = model.apply([welcome_event("E2")])
    fuzz = model.fuzzes["01F1"]
    assert fuzz.state is FuzzState.LOST and fuzz.state.final and "fuzzes" in names
    assert fuzzes.state_text(fuzz, 0, True).startswith("engine lost: the engine ended while this was under way")


def test_a_replay_is_no_fuzz_of_the_target() -> None:
    model = Model()
    model.apply([
        *fuzz_events(finished=True), plan_event("01R1", what="replay", rungs=["wrong_tail"]),
    ])  # fmt: skip
    assert [fuzz.id for fuzz in model.fuzzes_of(TARGET)] == ["01F1"]
    assert [fuzz.id for fuzz in model.active_fuzzes()] == ["01R1"]
    names = model.apply([
        events.ReplayFinished(
            fuzz_id="01R1", failure="01X1", outcome="other_inputs", differs=["torch 2.13.0, was 2.11.0"]
        )
    ])  # fmt: skip
    assert "replays" in names and model.active_fuzzes() == []
    said = fuzzes.replay_text(model.replays["01X1"])
    assert said == "nothing is said: the inputs' bytes are not those of then (torch 2.13.0, was 2.11.0)"


def test_a_lint_that_could_not_be_done_has_ended() -> None:
    model = Model()
    model.apply([plan_event("01L1", what="lint")])
    model.apply([events.LintFinished(fuzz_id="01L1", target=TARGET, device="cpu", items=[], reason="no reference")])
    assert (model.fuzzes["01L1"].state, model.fuzzes["01L1"].reason) == (FuzzState.FAILED, "no reference")
    assert model.fuzzes_of(TARGET) == []


def test_texts_of_a_failure_cannot_reach_the_terminal() -> None:
    evil = "\x1b]52;c;aGk=\x07"
    record = replace(
        failure_record(), detail=evil, region=(f" {evil} ",), script=f"print('{evil}')\n", finding=evil, rung=evil
    )
    text = "\n".join(line for line, _ in fuzzes.failure_lines(record, 100, False))
    assert "\x1b" not in text and "\x07" not in text and "\u241b]52" in text
    assert record.region[0].startswith(" ")  # blanks of a picture stay


def test_a_rung_of_a_fuzz_that_was_stopped_says_after_how_many_cases() -> None:
    record = RungFuzz("a", FuzzVerdict.UNDECIDED, 8, 0, reason="cancelled")
    rung = RungReading("a", {"regular": Tally(8, 0, 0)}, record)
    assert fuzzes.verdict_word(rung, FuzzState.CANCELLED, False, 200)[0] == "? stopped after 8 of 200"


def test_only_what_is_certain_is_said_of_a_rung_before_the_end() -> None:
    def said(*stages: tuple[str, str]) -> str:
        view = FuzzView("01F1")
        for number, (stage, verdict) in enumerate(stages):
            view.take_case(case_event(number, "a", stage=stage, verdict=verdict), 0)
        return fuzzes.verdict_word(view.rung("a"), view.state, False)[0]

    assert said() == "-"
    assert said(("gate", "right")) == "right so far"
    assert said(("gate", "unsupported"), ("triage", "wrong")) == "! doubted"
    assert said(("triage", "wrong"), ("gate", "crashed")) == "✗ wrong"


def test_every_verdict_has_a_sign_that_works_without_colour() -> None:
    assert {fuzzes.case_sign(verdict, True) for verdict in CaseVerdict if verdict.failing} == {"x", "!"}
    assert {fuzzes.case_sign(verdict, True) for verdict in CaseVerdict if not verdict.failing} == {"+", "-", "?"}
    assert all(fuzzes.case_sign(verdict, True).isascii() for verdict in CaseVerdict)
    assert [fuzzes.error_word(verdict, 0.5) for verdict in CaseVerdict] == [
        "0.500", "0.500", "n/a", "error", "crashed", "timeout", "memory", "skipped",
    ]  # fmt: skip
    assert fuzzes.error_word(CaseVerdict.WRONG, None) == "wrong"


def test_a_histogram_shows_a_single_wrong_element_among_many() -> None:
    histogram = (1_000_000, *([0] * 5), 1, *([0] * 4))
    lines = fuzzes.histogram_lines(histogram, 60, True)
    assert len(lines) == len(ERROR_BINS)
    assert lines[0][0] == "  0 to 0.01       1,000,000  " + "#" * 30
    # The bin from 1 to 3 begins where nothing is allowed any more: no mark below it.
    assert [line[0] for line, _ in lines] == [" "] * 5 + ["x"] * 6
    assert lines[6][0] == "x 3 to 10                 1  ##" and lines[6][1] == fuzzes.WRONG_STYLE
    assert lines[-1][0].startswith("x not finite ") and "#" not in lines[-1][0]
    assert fuzzes.histogram_lines((), 60, True) == []
    assert math.isinf(ERROR_BINS[-1]) and len(HISTOGRAM) == len(ERROR_BINS)


def test_a_failure_tells_cases_picture_figures_and_script() -> None:
    view = failure_record()
    lines = [line for line, _ in fuzzes.failure_lines(view, 100, True, replay="it passes now")]
    text = "\n".join(lines)
    assert lines[0] == "x wrong: wrong_tail, values in y"
    assert "  replay   it passes now" in lines
    assert "  smallest M=1 N=129 float16 x:large" in lines
    assert "  drawn    M=1021 N=129 float16 x:transposed,large" in lines
    assert "  tried    14 smaller cases" in lines
    assert lines.count("..........38##") == 2
    assert "Errors of the wrong elements: 12 of 129" in lines
    assert ["absolute", "0.500", "0.0625", "0.0312", "0.250", "0.500"] in [line.split() for line in lines]
    assert ["ULP", "2048", "300", "128", "1024", "2048"] in [line.split() for line in lines]
    assert text.endswith(SCRIPT.rstrip("\n")) and text.isascii()


def test_a_large_picture_is_cut_and_says_so() -> None:
    view = failure_record(region=("#" * 40,) * 100)
    lines = [line for line, _ in fuzzes.failure_lines(view, 100, True)]
    assert lines.count("#" * 40) == fuzzes.PICTURE_ROWS
    assert f"and {100 - fuzzes.PICTURE_ROWS} more rows" in lines


def test_a_crash_without_figures_has_no_empty_headings() -> None:
    crash = Failure(
        id="01X2", fuzz="01F1", target=TARGET, rung="optimized", device="cuda:0", seed=7, stage="triage",
        strategy="adversarial", case={"text": "N=1"}, drawn={"text": "N=1"}, verdict=CaseVerdict.CRASHED,
        snapshot="5nap", wall="", detail="signal 11",
    )  # fmt: skip
    lines = [line for line, _ in fuzzes.failure_lines(crash, 80, True)]
    assert lines == [
        "! crashed: optimized", "  strategy adversarial, triage: look at it before you believe it", "",
        "  smallest N=1", "  drawn    the same", "", "signal 11",
    ]  # fmt: skip


def test_a_fuzz_that_did_not_come_to_its_end_says_why() -> None:
    record: Fuzz = fuzz_record(state="unavailable", reason="needs sm_90", rungs=(), duration_ms=None)
    fuzz = fuzzes.stored_fuzz(record)
    assert fuzzes.state_text(fuzz, 0, True) == "unavailable: needs sm_90 | 0 of 20 cases | 0 failing"
    assert [line for line, _ in fuzzes.summary_lines(fuzz, True, 80)] == [
        "needs sm_90", "the reference was computed in blocks",
    ]  # fmt: skip
