"""`aisp run` against an engine that plays scripted runs."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from aisp.engine.protocol import events, requests
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import Correctness, Limiter, State, Timing, Validity
from aisp.store.record import Arm, LinkUse, Run, unplanned
from aisp.store.results.reading import Reading
from aisp.tui.cli.follow import Followed, light_lines, result_lines, summary
from aisp.tui.cli.tree import cli
from tests import heard
from tests.replacing import replace
from tests.tui.fake_engine import FakeEngine, hear, isolate, make_target, remember, start_aisp, wait_for


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> str:
    for name in ("one", "two", "three"):
        make_target(tmp_path / "mine", name)
    return str(tmp_path / "mine")


def run(root: str, *words: str) -> Result:
    return CliRunner().invoke(cli, ["run", "--root", root, *words])


def test_a_good_run_prints_its_table_and_ends_with_0(root: str) -> None:
    with FakeEngine() as engine:
        shown = run(root, "--targets", "mine:one", "--quick")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "mine:one  About mine:one"
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines]
    assert ["rung", "ms [low..high]", "n", "timing", "speed-up [low..high]", "verdict", "SOL", "correct"] in cells
    assert ["baseline", "0.8000 [0.7920..0.8080]", "50", "host", "-", "-", "31 %", "correct"] in cells
    assert [
        "optimized", "0.4000 [0.3960..0.4040]", "50", "host", "2.00x [1.96..2.04]", "faster", "31 %", "correct"
    ] in cells  # fmt: skip
    assert "=> faster 2.00x [1.96..2.04] by optimized" in lines
    assert "noise floor 0.50 %, times valid, 1.5 s, clocks=unlocked" in shown.stdout
    assert "(A/A)" not in shown.stdout
    (asked,) = engine.asked(requests.StartRuns)
    assert (asked.targets, asked.roots, asked.quick, asked.trigger) == (["mine:one"], [root], True, "cli")


def test_on_a_terminal_the_outcome_alone_has_a_colour(root: str) -> None:
    with FakeEngine() as engine:
        words = ["run", "--root", root, "mine:one"]
        fast = CliRunner().invoke(cli, words, color=True).stdout.splitlines()
        engine.outcomes["mine:one"] = "wrong"
        wrong = CliRunner().invoke(cli, words, color=True).stdout.splitlines()
    for lines, colour in ((fast, "\x1b[34m"), (wrong, "\x1b[31m")):
        assert [line.startswith(f"{colour}\x1b[1m=> ") for line in lines if "\x1b" in line] == [True]


def test_what_could_not_run_here_without_a_word_why_has_no_empty_reason() -> None:
    baseline = Arm("baseline", State.OK, Correctness.CORRECT, median_ms=1.0, timing=Timing.HOST, sample_count=20)
    arms = (baseline, Arm("optimized", State.UNAVAILABLE), Arm("optimized_triton", State.OK, Correctness.CORRECT))
    end = {"state": State.OK, "correctness": Correctness.CORRECT, "validity": Validity.VALID}
    made = replace(unplanned("01"), arms=arms, **end)
    assert summary(Reading(made)) == "not here; the baseline is right"


def test_the_json_of_a_run_is_one_object_with_the_documented_keys(root: str) -> None:
    with FakeEngine():
        shown = run(root, "--targets", "mine:one", "--json")
    (found,) = [json.loads(line) for line in shown.stdout.splitlines()]
    assert (found["target"], found["device"], found["status"]) == ("mine:one", "cpu", "ok")
    assert (found["correctness"], found["validity"], found["verdict"]) == ("correct", "valid", "faster")
    optimized = next(arm for arm in found["arms"] if arm["rung"] == "optimized")
    assert (optimized["median_ms"], optimized["low_ms"], optimized["samples"], optimized["sol"]) == (
        0.4,
        0.396,
        50,
        0.31,
    )
    (comparison,) = found["comparisons"]
    assert (comparison["rung"], comparison["baseline"], comparison["verdict"]) == ("optimized", "baseline", "faster")
    assert (comparison["speedup"], comparison["low"], comparison["high"], comparison["floor"]) == (
        2.0,
        1.96,
        2.04,
        0.005,
    )
    assert [(s["name"], s["arm"], s["duration_ms"]) for s in found["steps"]] == [("compile", "optimized", 12.0)]


def test_the_json_of_a_run_is_its_record(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "gpu"
        (line,) = run(root, "--targets", "mine:one", "--json").stdout.splitlines()
    found = json.loads(line)
    record = msgspec.convert({**found, "folder": b"/somewhere"}, Run)
    assert (found["schema"], found["folder"]) == (2, "/somewhere")
    assert msgspec.to_builtins(record.comparisons) == tuple(found["comparisons"])
    assert (record.id, record.state, record.arms[1].sample_count) == (found["run_id"], found["status"], 50)
    assert record.arms[1].light is not None and record.arms[1].light.limiter == "bytes"


def test_the_options_reach_the_engine(root: str) -> None:
    with FakeEngine() as engine:
        run(
            root, "--targets", "mine:one", "--rungs", "optimized", "--replicas", "3", "--device", "cpu", "--case", "cpu"
        )
    (asked,) = engine.asked(requests.StartRuns)
    assert (asked.rungs, asked.replicas, asked.device, asked.case, asked.quick) == (
        ["optimized"],
        3,
        "cpu",
        "cpu",
        False,
    )


def test_warm_caches_and_arms_one_after_the_other_are_asked_for_by_name(root: str) -> None:
    with FakeEngine() as engine:
        run(root, "--targets", "mine:one", "--warm", "--no-interleave")
        run(root, "--targets", "mine:one", "--flush", "dirty")
        run(root, "--targets", "mine:one")
    asked = [(request.cache, request.interleave) for request in engine.asked(requests.StartRuns)]
    assert asked == [(Cache.WARM, False), (Cache.DIRTY, True), (Cache.COLD, True)]
    refused = run(root, "--targets", "mine:one", "--warm", "--flush", "clean")
    assert (refused.exit_code, "--warm flushes nothing" in refused.output) == (2, True)


def test_a_run_on_a_gpu_shows_how_it_was_timed_its_clocks_and_what_light_allows(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "gpu"
        shown = run(root, "--targets", "mine:one")
    cells = [re.split(r"\s{2,}", line.strip()) for line in shown.stdout.splitlines()]
    assert ["rung", "ms [low..high]", "n", "speed-up [low..high]", "verdict", "SOL", "correct"] in cells
    assert ["rung", "timing", "SM MHz", "limit", "spec ms", "clock ms", "measured ms", "score"] in cells
    assert ["baseline", "cold", "1980", "bytes", "0.2000", "0.2000", "0.2480", "-"] in cells
    assert ["optimized", "cold graph x16", "1755", "bytes", "0.2000", "0.2100", "0.2480", "0.78"] in cells


def test_what_must_be_known_of_the_samples_is_told_in_words_and_only_of_the_arm_concerned(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "gpu"
        shown = run(root, "--targets", "mine:one")
    notes = [line for line in shown.stdout.splitlines() if line.startswith(("optimized: ", "baseline: "))]
    assert notes == [
        "optimized: clocks differed",
        "optimized: in SM cycles, which clocks cannot move, 2.25x [2.20..2.30]",
        "optimized: times rise by 2.3 % within a replica",
        "optimized: two modes, 0.3900 and 0.4500 ms (31 % in the slower)",
        "optimized: successive samples hang together (autocorrelation 0.62)",
        "optimized: 4.0 % of the samples set aside: clock below 75 % of its usual",
    ]


def test_the_json_of_a_run_on_a_gpu_carries_bounds_quality_and_cycles(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "gpu"
        found = json.loads(run(root, "--targets", "mine:one", "--json").stdout)
    arms = {arm["rung"]: arm for arm in found["arms"]}
    optimized = arms["optimized"]
    assert (optimized["timing"], optimized["calls"], optimized["sm_clock_mhz"]) == ("cold graph", 16, 1755.0)
    assert optimized["light"] == {
        "spec_ms": 0.2, "clock_ms": 0.21, "measured_ms": 0.248, "limiter": "bytes", "score": 0.784,
        "launch_eager_ms": None, "link": None,
    }  # fmt: skip
    assert optimized["quality"] == {
        "drift": 0.023, "autocorrelation": 0.62, "low_mode_ms": 0.39, "high_mode_ms": 0.45, "high_share": 0.31,
        "throttled_share": 0.04, "resolution_ms": 3.2e-5, "overhead_ms": 1.28e-3, "watch_us": None,
        "right_by_stated": None, "right_by_derived": None,
        "outside_ms": None, "outside_error": None, "outside_copies_ms": None, "outside_read": None,
        "outside_sets": None, "inside": None, "profiler_ms": None,
        "busy_factor": None, "waited_share": None, "others_cores": None, "cores": None, "stolen_share": None,
        "between": None, "between_freedom": None,
    }  # fmt: skip
    assert (arms["baseline (A/A)"]["light"], arms["baseline (A/A)"]["quality"]) == (None, None)
    (comparison,) = found["comparisons"]
    assert (comparison["cycles"], comparison["cycles_low"], comparison["cycles_high"]) == (2.25, 2.2, 2.3)
    assert comparison["p_value"] == 0.0005


def test_several_targets_end_with_their_line_as_a_suite(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:two"] = "wrong"
        shown = run(root, "--targets", "all", "--quick")
        as_json = run(root, "--targets", "all", "--json")
        alone = run(root, "--targets", "mine:one")
    left_out, line, confirmed = shown.stdout.splitlines()[-3:]
    assert left_out == "left out, incorrect: mine:two"
    assert line == "=> all: geometric mean 2.00x [1.97..2.03] over 2 targets, quick"
    assert confirmed == "   2 of 2 FASTER or SLOWER confirmed (Benjamini-Hochberg, 5 %)"
    assert "geometric mean" not in alone.stdout
    assert [json.loads(line)["target"] for line in as_json.stdout.splitlines()] == [
        "mine:one",
        "mine:three",
        "mine:two",
    ]
    assert "=> all: geometric mean 2.00x" in as_json.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--targets", "mine:two,mine:one"], ["mine:two", "mine:one"]),
        (["--targets", "mine:two", "--targets", "mine:one,mine:two"], ["mine:two", "mine:one"]),
        (["--targets", "mine"], ["mine:one", "mine:three", "mine:two"]),
        (["--targets", "mine:three,all"], ["mine:three", "mine:one", "mine:two"]),
    ],
)
def test_targets_are_chosen_by_id_by_chapter_or_all_and_each_runs_once(
    root: str, words: list[str], expected: list[str]
) -> None:
    with FakeEngine() as engine:
        shown = run(root, *words, "--json")
    assert engine.asked(requests.StartRuns)[0].targets == expected
    assert [json.loads(line)["target"] for line in shown.stdout.splitlines()] == expected


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--targets", "mine:on"], "no target 'mine:on'; did you mean mine:one"),
        ([","], "no target is named; give a path, ids"),
        (["mine:on"], "no target 'mine:on'; did you mean mine:one"),
        (["mine:n*"], "no target fits 'mine:n*'"),
        (["one", "tow"], "no target 'tow'; did you mean mine:two?"),
        (["--targets", "mine:one", "--rungs", "fast"], "mine:one has no rung 'fast'; it has baseline, optimized"),
        (["--targets", "mine:one", "--case", "huge"], "mine:one has no case 'huge'; it has"),
    ],
)
def test_what_is_not_there_is_wrong_usage_with_a_suggestion_and_no_engine_is_started(
    root: str, state: Path, words: list[str], sentence: str
) -> None:
    shown = run(root, *words)
    assert shown.exit_code == 2
    assert sentence in shown.stderr
    assert shown.stdout == ""
    assert not (state / "engine.log").exists()


def test_a_wrong_arm_prints_why_and_ends_with_1(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:two"] = "wrong"
        shown = run(root, "--targets", "mine:one,mine:two")
    assert shown.exit_code == 1
    assert "optimized: wrong: y differs from the reference by 41.5 tolerances" in shown.stdout
    assert "  first at [3]: 2.0, expected 1.0" in shown.stdout
    assert "=> wrong: optimized is wrong" in shown.stdout
    assert "=> faster" in shown.stdout


def test_what_the_reason_says_already_is_not_printed_again_below_it() -> None:
    said = "y[3]: got 2.0, expected 1.0; 1 of 8 elements are wrong"
    for reason, lines in ((f"wrong values: {said}", 1), ("its outputs are wrong", 2)):
        run = Followed(unplanned("01"))
        run.take(
            heard.arm(
                run_id="01",
                arm="optimized",
                state="incorrect",
                correctness="wrong",
                timing="none",
                reason=reason,
                detail=said,
            )
        )
        assert sum(said in line or reason in line for line in result_lines(run)) == lines


def test_a_crashed_arm_prints_its_traceback_and_last_lines_cleaned(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "crash"
        shown = run(root, "--targets", "mine:one")
    assert shown.exit_code == 1
    assert "optimized: crashed: died of SIGSEGV" in shown.stdout
    assert '  File "optimized.py", line 5, in run' in shown.stdout
    assert "  ␛]0;owned␇boom" in shown.stdout
    assert "    about to fall" in shown.stdout
    assert "\x1b" not in shown.output


@pytest.mark.parametrize(
    ("outcomes", "words", "status"),
    [
        ({"mine:one": "unavailable"}, ["mine:one"], 3),
        ({"mine:one": "unavailable"}, ["all"], 0),
        ({"mine:one": "unavailable"}, ["all,mine:one"], 3),
        ({"mine:one": "unavailable", "mine:two": "wrong"}, ["mine:one,mine:two"], 1),
        (dict.fromkeys(["mine:one", "mine:two", "mine:three"], "unavailable"), ["all"], 3),
        ({"mine:one": "suspect"}, ["mine:one"], 1),
    ],
)
def test_the_exit_status_says_wrong_before_not_here_before_good(
    root: str, outcomes: dict[str, str], words: list[str], status: int
) -> None:
    with FakeEngine() as engine:
        engine.outcomes.update(outcomes)
        assert run(root, "--targets", *words).exit_code == status


def test_a_machine_without_the_hardware_says_what_is_needed(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "unavailable"
        shown = run(root, "--targets", "mine:one")
    assert "=> not here: needs sm_90" in shown.stdout


def test_times_that_are_not_to_be_believed_are_shown_as_such(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "suspect"
        shown = run(root, "--targets", "mine:one")
    assert "=> suspect, not a verdict: 2.00x [1.96..2.04] by optimized: faster than the memory can be" in shown.stdout


def test_an_engine_that_refuses_is_told_in_its_words(root: str) -> None:
    with FakeEngine() as engine:
        engine.refuse = "the disk is full; free some space"
        shown = run(root, "--targets", "mine:one")
    assert shown.exit_code == 3
    assert "aisp: the disk is full; free some space" in shown.stderr


def test_an_engine_of_another_version_gets_no_command_and_the_fix_is_named(root: str) -> None:
    with FakeEngine() as engine:
        engine.protocol += 1
        shown = run(root, "--targets", "mine:one")
    assert shown.exit_code == 3
    assert "`aisp engine --stop --when-idle`" in shown.stderr
    assert engine.requests == []


def test_an_engine_of_another_build_runs_and_is_named(root: str) -> None:
    with FakeEngine() as engine:
        engine.build = "000000000000"
        shown = run(root, "--targets", "mine:one")
    assert shown.exit_code == 0
    assert "is of another build than this program; `aisp engine --stop --when-idle`" in shown.stderr


def test_an_engine_that_dies_meanwhile_ends_the_command_with_3(root: str) -> None:
    with FakeEngine() as engine:
        engine.drop_after = 3
        shown = run(root, "--targets", "mine:one")
    assert shown.exit_code == 3
    assert "the engine went away" in shown.stderr


def test_events_of_other_peoples_runs_are_not_printed(root: str) -> None:
    with FakeEngine():
        run(root, "--targets", "mine:two")
        shown = run(root, "--targets", "mine:one")
    assert "mine:two" not in shown.output


def test_without_a_terminal_each_target_is_a_line_on_stderr_and_each_step_where_they_are_wanted(root: str) -> None:
    with FakeEngine():
        shown = run(root, "mine:one", "mine:two", "--json")
        people = run(root, "mine:one")
        steps = run(root, "mine:one", "-v").stderr.splitlines()
    ended = [line.partition(" by ")[0] for line in shown.stderr.splitlines() if not line.startswith(("=>", " "))]
    assert ended == ["mine:one: faster 2.00x [1.96..2.04]", "mine:two: faster 2.00x [1.96..2.04]"]
    assert "\r" not in shown.stderr
    assert len(people.stderr.splitlines()) == 1
    assert "mine:one: import and compile optimized  12 ms" in steps
    assert steps[-1].startswith("mine:one: faster 2.00x")


def test_what_is_queued_already_is_followed_and_said_to_be_unless_again_is_given(root: str) -> None:
    with FakeEngine() as engine:
        engine.joins = True
        shown = run(root, "--targets", "mine:one,mine:two")
        asked = run(root, "--targets", "mine:one", "--again")
        sent = engine.asked(requests.StartRuns)
    assert (shown.exit_code, asked.exit_code) == (0, 0)
    told = [line for line in shown.stderr.splitlines() if "already queued: following it (01RUN" in line]
    assert [line.split(": ")[1] for line in told] == ["mine:one", "mine:two"]
    assert told[0].endswith("; --again queues one more")
    assert shown.stdout.count("=> faster") == 2
    assert "already queued" not in asked.stderr
    assert [request.again for request in sent] == [False, True]


def test_ctrl_c_leaves_a_run_that_somebody_else_asked_for(root: str) -> None:
    with FakeEngine() as engine:
        engine.joins, engine.outcomes["mine:one"] = True, "hang"
        process = start_aisp("run", "--root", root, "--targets", "mine:one", "-v")
        hear(process, "compile")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert engine.asked(requests.Cancel) == []
    assert process.returncode == 130
    assert "left; `aisp engine`" in err


def test_who_gives_no_sign_is_told_and_once_that_this_is_over(root: str) -> None:
    sentence = "optimized: no sign for 10 of 60 s (measure); it is ended then (AISP_PROGRESS_LIMIT_S)"
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "hang"
        process = start_aisp("run", "--root", root, "--targets", "mine:one")
        wait_for(lambda: bool(engine.asked(requests.StartRuns)), "the request")
        engine.publish(events.Banner(key="silent: optimized", text=sentence))
        engine.publish(events.Banner(key="silent: optimized", text=""))
        engine.publish(events.Banner(key="silent: baseline", text=""))
        lines = hear(process, "aisp: over")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert lines[-2:] == [f"aisp: warning: {sentence}", f"aisp: over: {sentence}"]
    assert "over" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_ctrl_c_cancels_the_run_and_ends_with_130(root: str, number: signal.Signals) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "hang"
        process = start_aisp("run", "--root", root, "--targets", "mine:one", "--json", "-v")
        wait_for(lambda: bool(engine.asked(requests.StartRuns)), "the request")
        hear(process, "compile")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "cancelling" in err
    assert [request.run_id for request in engine.asked(requests.Cancel)] == [json.loads(out)["run_id"]]
    assert json.loads(out)["status"] == "cancelled"


def test_the_second_ctrl_c_leaves_at_once_though_the_engine_does_not_answer(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "hang"
        process = start_aisp("run", "--root", root, "--targets", "mine:one", "-v")
        hear(process, "compile")
        engine._runs.clear()  # it takes the cancel and never tells of an end
        process.send_signal(signal.SIGINT)
        hear(process, "cancelling")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "left; `aisp engine`" in err


def test_on_a_terminal_one_line_is_rewritten_and_taken_away(root: str) -> None:
    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "hang"
        ours, theirs = pty.openpty()
        process = start_aisp(
            "run", "--root", root, "--targets", "mine:one", stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        while b"samples" not in seen:
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        with pytest.raises(OSError):  # a pty whose other side is closed
            while True:
                seen += os.read(ours, 4096)
        os.close(ours)
    text = seen.decode()
    assert "\r\x1b[K[1/1] mine:one  measure optimized  100 samples  optimized 0.4000 ms" in text
    assert text.rstrip().endswith("aisp: cancelled")
    drawn = [part for part in text.split("\r\x1b[K") if part.startswith("[1/1]")]
    assert all(len(part.split("\n")[0]) < 100 for part in drawn)


def test_a_run_whose_end_was_lost_in_a_gap_is_read_from_the_store(root: str, state: Path) -> None:
    with FakeEngine() as engine:
        engine.lose_end = True
        run_id = "01RUN000000"
        remember(state, "mine:one", run_id=run_id, speedup=3.0)
        shown = run(root, "--targets", "mine:one", "--json")
    assert shown.exit_code == 0
    found = json.loads(shown.stdout)
    assert (found["run_id"], found["status"], found["comparisons"][0]["speedup"]) == (run_id, "ok", 3.0)
    assert len(engine.asked(requests.GetStatus)) == 1


def test_the_headline_is_the_best_optimized_rung_over_the_first_baseline() -> None:
    run = Followed(unplanned("01"))
    for rung, ms in {
        "baseline": 4.0,
        "baseline_slow": 9.0,
        "optimized": 3.0,
        "optimized_wide": 2.0,
        "peer": 1.0,
    }.items():
        run.take(
            heard.arm(run_id="01", arm=rung, state="ok", correctness="correct", timing="host", median_ms=ms, samples=3)
        )
    for rung, baseline, speedup in [
        ("optimized", "baseline_slow", 3.0), ("optimized_wide", "baseline_slow", 4.5), ("peer", "baseline", 4.0),
        ("baseline_slow", "baseline", 0.44), ("optimized", "baseline", 1.33), ("optimized_wide", "baseline", 2.0),
    ]:  # fmt: skip
        run.take(
            heard.comparison(
                run_id="01",
                rung=rung,
                baseline=baseline,
                verdict="faster" if speedup > 1 else "slower",
                speedup=speedup,
                low=speedup,
                high=speedup,
            )
        )
    assert run.best is not None
    assert (run.best.rung, run.best.baseline, run.best_ms) == ("optimized_wide", "baseline", 2.0)
    rows = {line.split()[0]: line for line in result_lines(run) if line}
    assert "1.33x" in rows["optimized"]


def test_a_note_of_several_rungs_stands_once() -> None:
    run = Followed(replace(unplanned("01"), quick=True))
    for rung, note in {"baseline": "", "optimized": "a note", "optimized_wide": "", "optimized_tall": "a note"}.items():
        run.take(heard.arm(run_id="01", arm=rung, state="planned"))
        if rung != "baseline":
            run.take(
                heard.comparison(
                    run_id="01",
                    rung=rung,
                    baseline="baseline",
                    verdict="faster",
                    speedup=2.0,
                    low=1.5,
                    high=3.0,
                    note=note,
                )
            )
    assert [line for line in result_lines(run) if "note" in line] == ["optimized, optimized_tall: a note"]


def test_a_baselines_time_never_stands_for_optimized_rungs_that_have_none() -> None:
    run = Followed(unplanned("01"))
    run.take(
        heard.arm(
            run_id="01", arm="baseline", state="ok", correctness="correct", timing="host", median_ms=4.0, samples=3
        )
    )
    assert run.best_ms == 4.0
    run.take(heard.arm(run_id="01", arm="optimized", state="incorrect", correctness="wrong"))
    assert run.best_ms is None


def test_the_tables_of_a_gpu_fit_80_columns() -> None:
    run = Followed(unplanned("01"))
    for rung in ("baseline", "optimized_with_a_very_long_name"):
        run.take(heard.arm(
            run_id="01", arm=rung, state="ok", correctness="correct", timing="cold batch", calls=32,
            sm_clock_mhz=1980.0,
            median_ms=0.0123456, low_ms=0.0121, high_ms=0.0129, samples=12345, sol=0.5,
            light=heard.light(spec_ms=0.01234, clock_ms=0.01235, measured_ms=0.01236, limiter="launch", score=0.5),
        ))  # fmt: skip
        run.take(
            heard.comparison(
                run_id="01", rung=rung, baseline="baseline", verdict="undecided", speedup=1.01, low=0.98, high=1.04
            )
        )
    lines = result_lines(run, width=80)
    assert max(len(line) for line in lines) <= 80
    assert "cold batch x32" in "\n".join(lines)
    assert "0.01235 [0.01210..0.01290]" in "\n".join(lines)
    assert "launch" in "\n".join(lines)


def test_a_rung_that_the_host_limits_is_told_with_the_price_of_a_launch() -> None:
    run = Followed(unplanned("01"))
    run.take(heard.arm(
        run_id="01", arm="optimized", state="ok", correctness="correct", timing="cold+host", median_ms=20.0,
        light=heard.light(measured_ms=0.07, limiter="host", launch_eager_ms=0.02),
    ))  # fmt: skip
    told = "optimized: an eager launch costs this host 20.0 µs; with one of 5 µs it would be 5.000 ms, derived"
    assert told in result_lines(run)


def test_a_rung_over_a_link_is_told_with_what_it_carries_each_way() -> None:
    use = LinkUse(Limiter.NVLINK, in_bytes_per_s=312e9, out_bytes_per_s=31e9, in_share=0.8, measured=True)
    arm = heard.arm_of("optimized", median_ms=20.0, timing="cold", light=heard.light(measured_ms=0.07, link=use))
    still = heard.arm_of("optimized_other", median_ms=20.0, timing="cold", light=heard.light(measured_ms=0.07))
    (told,) = [line for line in light_lines([arm, still]) if "/s" in line]
    assert told == (
        "optimized: nvlink in 312 GB/s (80 % of the measured ceiling), out 31.0 GB/s (- of a ceiling that is not known)"
    )
    assert json.loads(msgspec.json.encode(arm))["light"]["link"] == {
        "over": "nvlink", "in_bytes_per_s": 312e9, "out_bytes_per_s": 31e9, "in_share": 0.8, "out_share": None,
        "measured": True,
    }  # fmt: skip


def test_the_table_fits_80_columns() -> None:
    run = Followed(unplanned("01"))
    for rung in ("baseline", "optimized_with_a_very_long_name"):
        run.take(heard.arm(
            run_id="01", arm=rung, state="ok", correctness="correct", timing="host", median_ms=12.34567,
            low_ms=12.1, high_ms=12.9, samples=12345, sol=0.5,
        ))  # fmt: skip
        run.take(
            heard.comparison(
                run_id="01", rung=rung, baseline="baseline", verdict="undecided", speedup=1.01, low=0.98, high=1.04
            )
        )
    lines = result_lines(run, width=80)
    assert max(len(line) for line in lines) <= 80
    assert "12.35 [12.10..12.90]" in "\n".join(lines)
    assert "optimized_with_a_very_long_name" in "\n".join(result_lines(run))
