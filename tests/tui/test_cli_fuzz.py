"""`aisp fuzz | lint | replay`: what is asked of the engine, what is told, and what the exit status means."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.checks.oracle.schema import Strategy
from aisp.engine import corpus
from aisp.engine.protocol import requests
from aisp.store import Store
from aisp.store.record import Failure
from aisp.store.results.fuzz import FUZZ_CASES, REPLAY_WORDS
from aisp.tui.cli.fuzz import CORPUS, STRATEGY_NAMES, corpus_operators
from aisp.tui.cli.tree import cli
from tests.tui.fake_engine import FUZZ_SEED, FakeEngine, fuzzed, hear, isolate, make_target, start_aisp


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A folder with the target mine:one."""
    make_target(tmp_path / "mine", "one")
    return str(tmp_path / "mine")


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A corpus of two right operators and two wrong ones."""
    folder = tmp_path / "corpus"
    for group, name in (("pointwise", "gelu"), ("rows", "softmax")):
        (make_target(folder / group, name) / "wrong_sign.py").unlink()
        wrong = make_target(folder / group, f"{name}_wrong")
        (wrong / "optimized.py").unlink()
        lesson = wrong / "lesson.md"
        lesson.write_text(lesson.read_text().replace('goal       = "speed"', 'goal       = "refusal"'))
    monkeypatch.setattr(corpus, "root", lambda: folder)
    return folder


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words])


def put(state: Path, asked: requests.FuzzTarget, outcome: str, fuzz_id: str = "01FUZZ0001") -> list[Failure]:
    """Store what the fake engine's fuzz of that id ends with."""
    state.mkdir(mode=0o700, exist_ok=True)
    record, failures = fuzzed(fuzz_id, asked, outcome)
    with Store.open(state / "aisp.db") as store:
        store.put_fuzz(record, failures)
    return failures


def asked_of(target: str = "mine:one", cases: int = FUZZ_CASES) -> requests.FuzzTarget:
    return requests.FuzzTarget(seq=1, target=target, cases=cases)


# -- what is shared with the engine ------------------------------------------------------------------------------------


def test_the_command_line_names_the_oracles_strategies_its_number_of_cases_and_its_corpus() -> None:
    assert tuple(Strategy) == STRATEGY_NAMES
    assert requests.FuzzTarget(seq=0, target="x").cases == FUZZ_CASES
    assert corpus.NAME == CORPUS


# -- fuzz --------------------------------------------------------------------------------------------------------------


def test_a_wrong_rung_is_told_with_its_smallest_case_and_how_to_replay_it(root: str) -> None:
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = "wrong"
        shown = bench("fuzz", "mine:one", "--root", root)
    assert shown.exit_code == 1
    out = shown.stdout.splitlines()
    assert out[0] == "mine:one  About mine:one"
    assert out[1] == f"cpu  200 cases  seed {FUZZ_SEED}  fuzz 01FUZZ0001  1.5 s"
    row = next(line for line in out if line.startswith("optimized  wrong"))
    assert row.split() == ["optimized", "wrong", "200", "2", "0", "boundary", "2/40", "0.250", "N=3", "float16"]
    at = out.index("optimized fails at N=3 float16")
    assert [line.strip() for line in out[at + 1 :]] == [
        "boundary case, the smallest of 9 tried; drawn as N=129 float16",
        "wrong, values: y[2]: got 0.5, expected 1.5, 4.2 times the error allowed; 1 of 3 elements are wrong",
        "count 3, wrong 1, max 1, ulp max 1024",
        "",
        "..9",
        "",
        "import torch",
        "print(run(x))",
        "",
        "aisp fuzz --replay 01FUZZ0001F0OPTIMIZED",
        "aisp fuzz --replay 01FUZZ0001F1OPTIMIZED  boundary  N=4 float16",
        "",
        "=> wrong: optimized",
    ]


def test_progress_counts_cases_and_failing_ones_on_stderr(root: str) -> None:
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = "wrong"
        shown = bench("fuzz", "mine:one", "--root", root, "-v")
    told = shown.stderr.splitlines()
    assert "mine:one: 41 of 200 cases, 1 failing" in told
    assert "mine:one: optimized fails: N=129 float16" in told
    assert "mine:one: optimized smallest: N=3 float16" in told


@pytest.mark.parametrize(
    ("outcome", "status", "told"),
    [
        ("right", 0, "=> right: optimized"),
        ("wrong", 1, "=> wrong: optimized"),
        ("doubted", 0, "=> doubted: optimized (only triage cases failed: look at them first)"),
        ("undecided", 3, "=> undecided: optimized"),
    ],
)
def test_the_exit_status_of_a_fuzz_says_whether_a_rung_is_wrong(
    root: str, outcome: str, status: int, told: str
) -> None:
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = outcome
        shown = bench("fuzz", "mine:one", "--root", root)
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (status, told)
    assert ("optimized: needs sm_90" in shown.stdout) == (outcome == "undecided")


def test_the_options_of_a_fuzz_reach_the_engine(root: str) -> None:
    words = (
        "--rung optimized --rung wrong_sign --cases 30 --seed 7 --strategy mixed --strategy huge --device cpu --naive"
    )
    with FakeEngine() as engine:
        shown = bench("fuzz", "mine:one", "--root", root, *words.split())
        bench("fuzz", "mine:one", "--root", root)
    assert shown.exit_code == 0
    given, usual = engine.asked(requests.FuzzTarget)
    assert given == requests.FuzzTarget(
        seq=given.seq, root=root, target="mine:one", rungs=["optimized", "wrong_sign"], device="cpu", cases=30, seed=7,
        strategies=["mixed", "huge"], naive=True,
    )  # fmt: skip
    assert usual == requests.FuzzTarget(seq=usual.seq, root=root, target="mine:one")
    (row,) = [line for line in shown.stdout.splitlines() if line.startswith("wrong_sign")]
    assert row.split() == ["wrong_sign", "right", "30", "0", "0", "-", "0.250", "accepts", "accepts", "-"]


def test_the_json_of_a_fuzz_carries_verdicts_tallies_and_whole_failures(root: str) -> None:
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = "wrong"
        shown = bench("fuzz", "mine:one", "--root", root, "--cases", "20", "--naive", "--json")
    found = json.loads(shown.stdout)
    assert (shown.exit_code, found["fuzz_id"], found["seed"], found["status"]) == (1, "01FUZZ0001", FUZZ_SEED, "done")
    (rung,) = found["rungs"]
    assert (rung["verdict"], rung["cases"], rung["failing"]) == ("wrong", 20, 2)
    assert rung["by_strategy"][:2] == [
        {"strategy": "boundary", "cases": 4, "failing": 2, "unsupported": 0},
        {"strategy": "regular", "cases": 4, "failing": 0, "unsupported": 0},
    ]
    assert rung["smallest"] == {"failure": "01FUZZ0001F0OPTIMIZED", "case": "N=3 float16"}
    assert rung["naive"] == {"allclose": True, "assert_close": False}
    assert [failure["id"] for failure in found["failures"]] == rung["failures"]
    assert found["failures"][0]["case"]["axes"] == {"N": 3}
    assert found["failures"][0]["drawn"]["axes"] == {"N": 129}
    assert found["failures"][0]["script"] == "import torch\nprint(run(x))"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["mine:two"], "mine:one"),
        (["mine:one", "--rung", "optimised"], "optimized"),
        (["mine:one", "--strategy", "edges"], "boundary"),
        (["mine:one", "--cases", "0"], "1<=x<=1000000"),
        (["mine:one", "--seed", "-1"], "0<=x<="),
    ],
)
def test_what_cannot_be_asked_is_wrong_usage_and_names_what_would_work(root: str, words: list[str], told: str) -> None:
    with FakeEngine() as engine:
        shown = bench("fuzz", *words, "--root", root)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert told in shown.output
    assert engine.requests == []


def test_a_fuzz_that_the_engine_refuses_ends_with_3_in_its_words(root: str) -> None:
    with FakeEngine() as engine:
        engine.refuse_fuzz["mine:one"] = "axis N has no candidate: widen [fuzz] axes"
        shown = bench("fuzz", "mine:one", "--root", root, "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["error"]["kind"]) == (3, "not_here")
    assert "aisp: axis N has no candidate: widen [fuzz] axes" in shown.stderr


def test_an_engine_that_dies_during_a_fuzz_ends_the_command_with_3(root: str) -> None:
    with FakeEngine() as engine:
        engine.drop_after = 2
        shown = bench("fuzz", "mine:one", "--root", root)
    assert shown.exit_code == 3
    assert "the engine went away" in shown.stderr


def test_a_fuzz_whose_end_was_lost_in_a_gap_is_read_from_the_store(root: str, state: Path) -> None:
    put(state, asked_of(), "wrong")
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = "wrong"
        engine.lose_end = engine.mute_failures = True
        shown = bench("fuzz", "mine:one", "--root", root)
    assert shown.exit_code == 1
    assert "optimized fails at N=3 float16" in shown.stdout


def test_failing_cases_that_were_not_heard_of_are_read_from_the_store(root: str, state: Path) -> None:
    put(state, asked_of(), "wrong")
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = "wrong"
        engine.mute_failures = True
        shown = bench("fuzz", "mine:one", "--root", root, "--json")
    assert len(json.loads(shown.stdout)["failures"]) == 2


def test_ctrl_c_cancels_a_fuzz_and_tells_what_there_is(root: str) -> None:
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = "hang"
        process = start_aisp("fuzz", "mine:one", "--root", root, "-v")
        hear(process, "cases")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [request.run_id for request in engine.asked(requests.Cancel)] == ["01FUZZ0001"]
    assert "aisp: cancelled" in err
    assert "Traceback" not in err
    assert out.splitlines()[-1] == "=> undecided: optimized; cancelled: cancelled by its owner"


def test_a_fuzz_fits_80_columns(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisp.tui.cli.common.terminal_width", lambda: 80)
    with FakeEngine() as engine:
        engine.fuzzes["mine:one"] = "wrong"
        shown = bench("fuzz", "mine:one", "--root", root, "--naive")
    table = [line for line in shown.stdout.splitlines() if line.startswith(("rung ", "optimized  "))]
    assert len(table) == 2
    assert max(len(line) for line in table) <= 80
    assert table[1].split()[:2] == ["optimized", "wrong"]
    assert table[1].endswith("N=3 float16")


# -- the corpus --------------------------------------------------------------------------------------------------------

WRONG_ONES = ("pointwise:gelu_wrong", "rows:softmax_wrong")


@pytest.mark.parametrize("words", [["fuzz", "mine:one"], ["lint", "mine:one"]])
def test_a_fuzz_that_is_queued_already_is_followed_and_said_to_be(root: str, words: list[str]) -> None:
    with FakeEngine() as engine:
        engine.joins = True
        shown = bench(*words, "--root", root)
        asked = bench(*words, "--root", root, "--again")
        sent = engine.asked(requests.FuzzTarget)
    assert (shown.exit_code, asked.exit_code) == (0, 0), shown.output
    assert "aisp: mine:one: already queued: following it (01FUZZ" in shown.stderr
    assert [request.again for request in sent] == [False, True]


def test_the_corpus_is_one_fuzz_per_operator_of_one_seed_and_ends_with_0_where_each_is_told_apart(
    operators: Path,
) -> None:
    with FakeEngine() as engine:
        engine.fuzzes |= dict.fromkeys(WRONG_ONES, "wrong")
        shown = bench("fuzz", "corpus", "--cases", "50")
    assert shown.exit_code == 0, shown.output
    sent = engine.asked(requests.FuzzTarget)
    assert {(request.root, request.naive, request.cases) for request in sent} == {("corpus", True, 50)}
    assert [(request.target, request.rungs, request.seed) for request in sent] == [
        ("pointwise:gelu", ["optimized"], None),
        ("pointwise:gelu_wrong", ["wrong_sign"], FUZZ_SEED),
        ("rows:softmax", ["optimized"], FUZZ_SEED),
        ("rows:softmax_wrong", ["wrong_sign"], FUZZ_SEED),
    ]
    out = shown.stdout.splitlines()
    assert out[0] == f"4 operators  cpu  seed {FUZZ_SEED}"
    rows = {line.split()[0]: line.split() for line in out if line.startswith(("gelu", "softmax"))}
    assert rows["gelu"] == ["gelu", "right", "right", "50", "0", "-", "accepts", "accepts", "-", "-"]
    assert rows["gelu_wrong"][1:8] == ["wrong", "wrong", "50", "2", "boundary", "2/10", "accepts"]
    assert rows["gelu_wrong"][8:] == ["refuses", "N=3", "float16", "01FUZZ0002F0WRONG_SIGN"]
    shares = {line.split()[0]: line.split()[1:] for line in out if line.startswith(STRATEGY_NAMES)}
    assert shares["boundary"] == ["20", "%", "0.0", "%"]
    assert shares["mixed"] == ["0", "%", "0.0", "%"]
    assert out[-3:] == [
        "=> 2 of 2 wrong operators found, 2 of 2 right operators passed",
        "   allclose on one shape accepts 2 of 2 wrong ones and refuses 0 of 2 right ones",
        "   assert_close on one shape accepts 0 of 2 wrong ones and refuses 0 of 2 right ones",
    ]
    assert "[2/4] pointwise:gelu_wrong: wrong" in shown.stderr.splitlines()


@pytest.mark.parametrize(
    ("target", "outcome", "status"),
    [
        ("pointwise:gelu", "wrong", 1),
        ("pointwise:gelu", "doubted", 1),
        ("pointwise:gelu", "undecided", 3),
        ("pointwise:gelu_wrong", "right", 1),
        ("pointwise:gelu_wrong", "doubted", 1),
    ],
)
def test_an_operator_that_is_not_judged_as_its_file_says_is_marked_and_decides_the_exit_status(
    operators: Path, target: str, outcome: str, status: int
) -> None:
    with FakeEngine() as engine:
        engine.fuzzes |= {**dict.fromkeys(WRONG_ONES, "wrong"), target: outcome}
        shown = bench("fuzz", "corpus")
    assert shown.exit_code == status
    marked = [line.split()[0] for line in shown.stdout.splitlines() if f"{outcome} !" in line]
    assert marked == [target.removeprefix("pointwise:")]


def test_the_json_of_the_corpus_has_truth_verdict_and_what_a_naive_harness_says(operators: Path) -> None:
    with FakeEngine() as engine:
        engine.fuzzes |= dict.fromkeys(WRONG_ONES, "wrong")
        engine.refuse_fuzz["rows:softmax"] = "no reference"
        shown = bench("fuzz", "corpus", "--cases", "50", "--seed", "9", "--json")
    found = json.loads(shown.stdout)
    assert shown.exit_code == 3
    assert (found["seed"], found["cases"], found["device"]) == (9, 50, "cpu")
    gelu, gelu_wrong, softmax, _ = found["operators"]
    assert [each["name"] for each in found["operators"]] == ["gelu", "gelu_wrong", "softmax", "softmax_wrong"]
    assert gelu_wrong == {
        "name": "gelu_wrong",
        "target": "pointwise:gelu_wrong",
        "rung": "wrong_sign",
        "truth": "wrong",
        "verdict": "wrong",
        "cases": 50,
        "failing": 2,
        "unsupported": 0,
        "by_strategy": [
            {"strategy": name, "cases": 10, "failing": 2 * (name == "boundary"), "unsupported": 0}
            for name in STRATEGY_NAMES[:5]
        ],
        "smallest": {"failure": "01FUZZ0002F0WRONG_SIGN", "case": "N=3 float16"},
        "naive": {"allclose": True, "assert_close": False},
        "max_error": 0.25,
        "fuzz_id": "01FUZZ0002",
        "reason": "",
    }
    assert (gelu["truth"], gelu["verdict"], gelu["smallest"]) == ("right", "right", None)
    assert (softmax["verdict"], softmax["cases"], softmax["reason"]) == ("undecided", None, "no reference")
    assert found["strategies"][0] == {"strategy": "boundary", "found": 0.2, "false_alarms": 0.0}


def test_one_operator_of_the_corpus_is_fuzzed_like_a_target(operators: Path) -> None:
    with FakeEngine() as engine:
        engine.fuzzes["pointwise:gelu_wrong"] = "wrong"
        shown = bench("fuzz", "corpus:gelu_wrong", "--rung", "wrong_sign", "--no-naive")
    assert shown.exit_code == 1
    (sent,) = engine.asked(requests.FuzzTarget)
    assert (sent.root, sent.target, sent.rungs, sent.naive) == (
        "corpus",
        "pointwise:gelu_wrong",
        ["wrong_sign"],
        False,
    )
    assert "wrong_sign fails at N=3 float16" in shown.stdout


def test_an_operator_that_is_not_there_is_wrong_usage_with_the_nearest(operators: Path) -> None:
    for words in (["fuzz", "corpus:sofmax"], ["lint", "corpus:sofmax"]):
        shown = bench(*words)
        assert shown.exit_code == 2
        assert "no operator 'sofmax' in the corpus; did you mean softmax or softmax_wrong" in " ".join(
            shown.output.split()
        )


def test_the_shipped_corpus_has_sixteen_right_operators_and_ten_wrong_ones_each_of_a_name_of_its_own() -> None:
    found = corpus_operators()
    assert len({operator.name for operator in found}) == len(found) == 26
    assert [operator.truth for operator in found].count("wrong") == 10


def test_a_rung_of_the_whole_corpus_is_wrong_usage(operators: Path) -> None:
    shown = bench("fuzz", "corpus", "--rung", "optimized")
    assert shown.exit_code == 2
    assert "leave --rung out" in shown.output


def test_a_persons_own_folder_called_corpus_is_theirs(tmp_path: Path) -> None:
    make_target(tmp_path / "corpus", "one")
    with FakeEngine() as engine:
        shown = bench("fuzz", "corpus:one", "--root", str(tmp_path / "corpus"))
    assert shown.exit_code == 0
    (sent,) = engine.asked(requests.FuzzTarget)
    assert (sent.root, sent.naive) == (str(tmp_path / "corpus"), False)


# -- lint --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "status", "told"),
    [
        (["ok", "ok"], 0, "=> 2 ok"),
        (["ok", "weak", "unknown"], 1, "=> 1 weak, 1 unknown, 1 ok"),
        (["ok", "unknown"], 0, "=> 1 unknown, 1 ok"),
        (["unknown"], 3, "=> 1 unknown"),
        ([], 3, "=> nothing was found out"),
    ],
)
def test_the_exit_status_of_a_lint_says_whether_anything_is_weak(
    root: str, answers: list[str], status: int, told: str
) -> None:
    with FakeEngine() as engine:
        engine.lint_items = [
            {"name": f"asked {n}", "status": answer, "detail": f"why {n}"} for n, answer in enumerate(answers)
        ]
        engine.lint_reason = "" if answers else "the reference needs sm_90"
        shown = bench("lint", "mine:one", "--root", root, "--cases", "6", "--seed", "3")
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (status, told)
    assert [line.split()[2:] for line in shown.stdout.splitlines() if line.startswith("asked ")][1:] == [
        [answer, "why", str(n)] for n, answer in enumerate(answers)
    ]
    (sent,) = engine.asked(requests.FuzzTarget)
    assert sent == requests.FuzzTarget(seq=sent.seq, root=root, target="mine:one", cases=6, seed=3, lint=True)
    assert ("the reference needs sm_90" in shown.stderr) == (not answers)


def test_a_lint_whose_end_was_lost_does_not_wait_for_ever(root: str) -> None:
    with FakeEngine() as engine:
        engine.lose_end = True
        shown = bench("lint", "mine:one", "--root", root, "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["error"]["kind"]) == (3, "not_here")
    assert "ask again" in shown.stderr


# -- replay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("reproduced", 0), ("fails_otherwise", 1), ("passes", 1), ("other_inputs", 1), ("impossible", 3)],
)
def test_a_replay_says_whether_every_byte_is_the_same_and_what_differs(state: Path, outcome: str, status: int) -> None:
    first, _ = put(state, asked_of(), "wrong")
    with FakeEngine() as engine:
        engine.replay = (outcome, [] if status == 0 else ["torch 2.13.0, was 2.11.0"], "seen")
        shown = bench("fuzz", "--replay", first.id[:13].lower())
        told_json = json.loads(bench("fuzz", "--replay", first.id, "--json").stdout)
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (status, f"=> {REPLAY_WORDS[outcome]}")
    assert [request.failure for request in engine.asked(requests.ReplayFailure)] == [first.id] * 2
    assert ("  torch 2.13.0, was 2.11.0" in shown.stdout.splitlines()) == (status != 0)
    assert shown.stdout.splitlines()[0] == f"mine:one  optimized  cpu  failure {first.id}"
    assert told_json == {
        "schema": 1,
        "failure": first.id,
        "fuzz_id": "01FUZZ0001",
        "target": "mine:one",
        "rung": "optimized",
        "device": "cpu",
        "seed": FUZZ_SEED,
        "case": "N=3 float16",
        "outcome": outcome,
        "differs": [] if status == 0 else ["torch 2.13.0, was 2.11.0"],
        "detail": "seen",
    }


def test_a_failure_that_is_not_stored_is_wrong_usage(state: Path) -> None:
    put(state, asked_of(), "wrong")
    with FakeEngine() as engine:
        unknown, several = bench("fuzz", "--replay", "01NONE"), bench("fuzz", "--replay", "01FUZZ")
    assert (unknown.exit_code, several.exit_code, engine.requests) == (2, 2, [])
    assert "no failure '01NONE'" in unknown.output
    assert "begins more than one failure id" in several.output
