"""`aisp bisect`: the edit that made a rung slower, found over stored runs and commits, and by the real engine."""

from __future__ import annotations

import asyncio
import datetime
import json
import math
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aisp.engine import paths, written
from aisp.engine.protocol import requests
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import Correctness, State, Timing, Validity, Verdict
from aisp.store.record import Arm, Comparison, Run, unplanned
from aisp.store.results.bisection import Found, Step, Version, Word, search, versions_of
from aisp.store.results.reading import Reading
from aisp.tui.cli import commits, turning
from aisp.tui.cli.tree import cli
from aisp.tui.cli.turning import Turned, as_measured
from tests.engine.harness import EngineUnderTest
from tests.replacing import replace
from tests.tui.fake_engine import FakeEngine, isolate, remember

LESSON = """+++
title = "Sorted"
techniques = ["none"]
goal = "speed"
axes = { N = 40000 }
flops = "N"
[inputs]
x = "float32 [N] normal"
[outputs]
y = "float32 [N]"
[[cases]]
name = "cpu"
axes = { N = 10000 }
+++
"""
SORT = "import torch\n\n\ndef run(x):\n    for _ in range({times}):\n        y = torch.sort(x).values\n    return y\n"


def sources(optimized: str, **more: str) -> dict[str, str]:
    """A target's files with this optimized rung."""
    reference = "import torch\n\n\ndef run(x):\n    return torch.sort(x.double()).values\n"
    others = {f"{name}.py": text for name, text in more.items()}
    return {
        "lesson.md": LESSON,
        "reference.py": reference,
        "baseline.py": SORT.format(times=1),
        "optimized.py": optimized,
        **others,
    }


def sort(edit: int, times: int = 1) -> str:
    return f"# edit {edit}\n" + SORT.format(times=times)


def bisect(*words: str) -> Result:
    return CliRunner().invoke(cli, ["bisect", *words])


# -- the search --------------------------------------------------------------------------------------------------------


def version(text: str) -> Version:
    return Version({}, {"optimized.py": text.encode()}, snapshot=text, run_id=text)


@pytest.mark.parametrize("count", [2, 3, 8, 20])
def test_every_place_of_the_edit_is_found_in_few_measurements(count: int) -> None:
    for culprit in range(1, count):
        found = search(
            [version(str(number)) for number in range(count)],
            lambda number, culprit=culprit: Step(number, Word.BAD if number >= culprit else Word.GOOD),
            Found(),
        )
        assert (found.first_bad, found.before) == (culprit, culprit - 1)
        assert len(found.steps) <= 1 + math.ceil(math.log2(count))


def test_versions_that_cannot_be_measured_are_gone_around_and_named_where_they_may_be_it() -> None:
    for culprit in range(1, 12):
        for gap in range(1, 11):
            skipped = {gap, gap + 1} - {11}

            def ask(number: int, culprit: int = culprit, skipped: set[int] = skipped) -> Step:
                if number in skipped:
                    return Step(number, Word.SKIPPED, reason="broken")
                return Step(number, Word.BAD if number >= culprit else Word.GOOD)

            found = search([version(str(number)) for number in range(12)], ask, Found())
            assert found.first_bad is not None
            assert found.before < culprit <= found.first_bad
            assert set(range(found.before + 1, found.first_bad)) <= skipped


def test_a_source_that_came_back_is_measured_once() -> None:
    texts = ["a", "b", "a", "b", "c", "b", "d"]
    asked: list[str] = []

    def ask(number: int) -> Step:
        asked.append(texts[number])
        return Step(number, Word.BAD if texts[number] == "d" else Word.GOOD)

    found = search([version(text) for text in texts], ask, Found())
    assert (found.first_bad, found.before) == (6, 5)
    assert sorted(asked) == sorted(set(asked))
    assert "a" not in asked  # the good version itself


def test_where_the_last_version_is_not_slower_nothing_else_is_measured() -> None:
    found = search([version(text) for text in "abcd"], lambda number: Step(number, Word.GOOD), Found())
    assert (found.first_bad, [step.number for step in found.steps]) == (None, [3])


def test_versions_are_the_rungs_sources_and_commits_take_their_place_in_time() -> None:
    def at(hour: int, text: str, **facts: str) -> Version:
        files = {"optimized.py": text.encode(), "baseline.py": b"", "reference.py": str(hour).encode()}
        return Version(files, {}, wall=f"2026-05-04T{hour:02}:00:00+00:00", **facts)

    stored = [at(1, "a", run_id="A"), at(3, "a", run_id="B"), at(5, "c", run_id="C"), at(9, "d", run_id="D")]
    made = [at(4, "b", commit="one"), at(6, "c", commit="two"), at(7, "a", commit="three")]
    found = versions_of(stored, made, "optimized")
    told = [(one.rung["optimized.py"].decode(), one.run_id, one.commit) for one in found]
    assert told == [("a", "A", ""), ("b", "", "one"), ("c", "C", "two"), ("a", "", "three"), ("d", "D", "")]


# -- what is asked of the store ----------------------------------------------------------------------------------------


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def test_runs_that_do_not_fit_are_wrong_usage(state: Path) -> None:
    one = remember(state, "mine:one", sources=sources(sort(0)))
    two = remember(state, "mine:one", sources=sources(sort(1)))
    other = remember(state, "mine:two", sources=sources(sort(0)))
    bare = remember(state, "mine:one")
    for good, bad, told in (
        (one.id, "9ZZZ", "no run"),
        (one.id, other.id, f"run {other.id} is of mine:two, not of mine:one"),
        (two.id, one.id, "is not older than the bad run"),
        (one.id, one.id, "is not older than the bad run"),
        (one.id, bare.id, f"run {bare.id} kept no sources"),
    ):
        shown = bisect("mine:one", "--good", good, "--bad", bad)
        assert (shown.exit_code, told in shown.stderr + str(shown.exception)) == (2, True), shown.output
    shown = bisect("mine:one", "--good", one.id, "--bad", two.id, "--rung", "optimised")
    assert shown.exit_code == 2
    assert "no rung optimised; there is baseline, optimized" in shown.output


def test_where_no_source_of_the_rung_changed_the_sitting_is_named_without_any_run(state: Path) -> None:
    one = remember(state, "mine:one", sources=sources(sort(0)))
    two = remember(state, "mine:one", sources=sources(sort(0), wrong_sign="\n"))
    shown = bisect("mine:one", "--good", one.id, "--bad", two.id, "--rung", "optimized", "--json")
    told = json.loads(shown.stdout)
    assert (shown.exit_code, told["found"], told["runs"], told["versions"]) == (1, False, 0, 1)
    assert "the difference is of the sitting, not of the code" in told["conclusion"]


def test_a_bad_version_that_is_not_slower_in_turns_ends_with_1(state: Path) -> None:
    """By the scripted engine, where the second version is always the faster one."""
    one = remember(state, "mine:one", sources=sources(sort(0)), case="cpu")
    two = remember(state, "mine:one", sources=sources(sort(1)), case="cpu")
    with FakeEngine() as engine:
        shown = bisect("mine:one", "--good", one.id, "--bad", two.id, "--quick")
    assert shown.exit_code == 1, shown.output
    assert "not slower than the good one in turns (good: faster 2.00x" in shown.stdout
    assert "the difference is of the sitting, not of the code" in shown.stdout
    (asked,) = engine.asked(requests.StartRuns)
    assert (asked.device, asked.case, asked.quick, asked.naive) == ("cpu", "cpu", True, False)
    (root,) = asked.roots
    assert Path(root).parent == state / "turns"
    (folder,) = Path(root).iterdir()
    assert (folder / "baseline.py").read_text() == sort(0)
    assert (folder / "optimized.py").read_text() == sort(1)
    assert asked.targets == [f"{Path(root).name}:{folder.name}"]


def test_the_manner_is_that_of_the_bad_run() -> None:
    record = replace(
        unplanned("01"),
        device="cuda",
        case="wide",
        manifest={"stop_rule": {"warm": True, "interleaved": False}, "validity": "portable"},
    )
    how = as_measured(record, quick=True)
    assert (how.device, how.case, how.quick, how.replicas) == ("cuda", "wide", True, 0)
    assert (how.cache, how.interleave, how.validity, how.naive) == (Cache.WARM, False, "portable", False)


def test_old_folders_make_room(state: Path) -> None:
    turns = paths.turns_dir()
    for number in range(6):
        root = written.write(turns, f"c{number}", {"one": {"a.py": b"1", "sub/b.py": b"2"}}, most=3)
        os.utime(root, (number, number))
    assert sorted(path.name for path in root.parent.iterdir()) == ["c3", "c4", "c5"]
    assert (root / "one" / "sub" / "b.py").read_bytes() == b"2"
    assert written.write(turns, "c5", {"one": {"c.py": b"3"}}, most=3) == root
    assert [path.name for path in (root / "one").iterdir()] == ["c.py"]


# -- what a run in turns says ------------------------------------------------------------------------------------------


class Bench:
    """In the place of the engine: what the second version is, by a word in its source."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, requests.StartRuns]] = []

    def turn(self, collection: str, folders: Mapping[str, Mapping[str, bytes]], manner: requests.StartRuns) -> Turned:
        ((name, files),) = folders.items()
        word = files["optimized.py"].decode().split()[1]
        self.asked.append((word, manner))
        return Turned({name: Reading(outcome(word))}, {})


def outcome(word: str) -> Run:
    """The run of the good version and one that is `word`."""
    arm = Arm("optimized", State.OK, Correctness.CORRECT, median_ms=1.0, timing=Timing.HOST, sample_count=20)
    base = replace(arm, rung="baseline")
    end: dict[str, Any] = {"state": State.OK, "correctness": Correctness.CORRECT, "validity": Validity.VALID}
    if word == "broken":
        arm = Arm("optimized", State.USER_ERROR, reason="optimized.py:1: invalid syntax")
        base = Arm("baseline", State.UNAVAILABLE, reason="not timed: there is nothing to compare it with")
        end = {"state": State.USER_ERROR, "reason": "optimized.py:1: invalid syntax"}
    verdict, ratio = {"slow": (Verdict.SLOWER, 0.5), "fast": (Verdict.FASTER, 2.0), "same": (Verdict.SAME, 1.0)}.get(
        word, (Verdict.UNDECIDED, 0.99)
    )
    compared = Comparison("optimized", "baseline", verdict, ratio, ratio * 0.99, ratio * 1.005)
    return replace(
        unplanned(f"RUN-{word}", "bisect:one"),
        manifest={"stop_rule": {"replicas": 5}},
        arms=(base, arm),
        comparisons=() if word == "broken" else (compared,),
        **end,
    )


def test_the_edit_is_named_with_its_diff_and_what_was_skipped_or_left_undecided(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    monkeypatch.setattr(turning, "turn", bench.turn)
    words = ["same", "broken", "unclear", "fast", "slow", "slow", "slow"]
    runs = [remember(state, "mine:one", sources=sources(f"# {w} {n}\n" + SORT)) for n, w in enumerate(words)]
    shown = bisect("mine:one", "--good", runs[0].id, "--bad", runs[-1].id, "--json")
    told = json.loads(shown.stdout)
    assert shown.exit_code == 0
    from tests.test_docs import example, same_keys  # imports every command

    same_keys(example("aisp bisect"), told)
    assert told["first_bad"]["run_id"] == runs[4].id
    assert told["first_bad"]["snapshot"] == runs[4].snapshot
    assert told["before"]["run_id"] == runs[3].id
    assert told["diff"].splitlines()[:2] == [
        f"--- optimized.py (run {runs[3].id})",
        f"+++ optimized.py (run {runs[4].id})",
    ]
    assert "-# fast 3\n+# slow 4\n" in told["diff"]
    assert [word for word, _ in bench.asked] == ["slow", "fast", "slow"]
    assert (told["runs"], told["versions"], told["rung"], told["may_be"]) == (3, 7, "optimized", [])
    shown = bisect("mine:one", "--good", runs[0].id, "--bad", runs[-1].id)
    assert shown.exit_code == 0
    assert f"run {runs[4].id}" in shown.stdout
    assert "+# slow 4" in shown.stdout
    assert "3 runs over 7 versions" in shown.stdout


def test_an_undecided_version_is_measured_once_more_and_then_counted_as_good(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    monkeypatch.setattr(turning, "turn", bench.turn)
    runs = [
        remember(state, "mine:one", sources=sources(f"# {word} {n}\n" + SORT))
        for n, word in enumerate(["same", "unclear", "slow"])
    ]
    shown = bisect("mine:one", "--good", runs[0].id, "--bad", runs[-1].id, "--json")
    told = json.loads(shown.stdout)
    assert told["before"]["run_id"] == runs[1].id
    assert [(word, manner.replicas) for word, manner in bench.asked] == [("slow", 0), ("unclear", 0), ("unclear", 10)]
    (step,) = [step for step in told["steps"] if step["verdict"] == "undecided"]
    assert (step["word"], step["reason"]) == ("good", "undecided with 10 replicas, counted as good")


def test_a_skipped_version_beside_the_edit_may_be_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "turn", Bench().turn)
    runs = [
        remember(state, "mine:one", sources=sources(f"# {word} {n}\n" + SORT))
        for n, word in enumerate(["same", "broken", "slow"])
    ]
    told = json.loads(bisect("mine:one", "--good", runs[0].id, "--bad", runs[-1].id, "--json").stdout)
    assert (told["first_bad"]["run_id"], told["before"]["run_id"]) == (runs[2].id, runs[0].id)
    assert [one["run_id"] for one in told["may_be"]] == [runs[1].id]
    assert [step["reason"] for step in told["steps"] if step["word"] == "skipped"] == ["optimized.py:1: invalid syntax"]


def test_a_bad_version_that_does_not_run_any_more_ends_with_3(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "turn", Bench().turn)
    runs = [
        remember(state, "mine:one", sources=sources(f"# {word} {n}\n" + SORT))
        for n, word in enumerate(["same", "broken"])
    ]
    shown = bisect("mine:one", "--good", runs[0].id, "--bad", runs[-1].id)
    assert shown.exit_code == 3
    assert "the bad version cannot be measured: optimized.py:1: invalid syntax" in shown.stderr


def test_ctrl_c_ends_with_130(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(*given: object) -> Turned:
        raise turning.LeftError

    monkeypatch.setattr(turning, "turn", left)
    runs = [remember(state, "mine:one", sources=sources(sort(n))) for n in range(2)]
    assert bisect("mine:one", "--good", runs[0].id, "--bad", runs[-1].id).exit_code == 130


# -- git ---------------------------------------------------------------------------------------------------------------

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")


def commit(root: Path, day: int, message: str) -> float:
    when = datetime.datetime(2026, 5, day, 12, tzinfo=datetime.UTC)
    who = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    own = {**os.environ, "GIT_COMMITTER_DATE": when.isoformat(), "GIT_AUTHOR_DATE": when.isoformat()}
    for words in (["add", "-A"], ["commit", "-qm", message]):
        subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True, timeout=60, env=own)
    return when.timestamp()


@needs_git
def test_the_commits_that_touched_the_folder_come_with_its_sources(tmp_path: Path) -> None:
    folder = tmp_path / "repo" / "mine" / "one"
    (folder / "sub").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "repo", check=True, timeout=60)
    (folder / "optimized.py").write_text("one")
    (folder / "notes.txt").write_text("no source")
    first = commit(tmp_path / "repo", 1, "begin")
    (folder / "optimized.py").write_text("two")
    (folder / "sub" / "tile.cuh").write_text("é")
    commit(tmp_path / "repo", 2, "the \x1b[31msecond")
    (tmp_path / "repo" / "elsewhere.py").write_text("1")
    commit(tmp_path / "repo", 3, "not of the folder")
    (folder / "optimized.py").unlink()
    last = commit(tmp_path / "repo", 4, "gone")
    found = commits.touching(folder, first, last)
    assert [(one.subject, dict(one.files)) for one in found] == [
        ("the \u241b[31msecond", {"optimized.py": b"two", "sub/tile.cuh": "é".encode()}),
        ("gone", {"sub/tile.cuh": "é".encode()}),
    ]
    assert [one.subject for one in commits.touching(folder, first - 1, first)] == ["begin"]


def test_what_git_cannot_say_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(commits.NoCommitsError, match="is not there any more"):
        commits.touching(tmp_path / "gone", 0, 1)
    (tmp_path / "one.py").touch()
    with pytest.raises(commits.NoCommitsError, match="is one file, and commits are those of a folder"):
        commits.touching(tmp_path / "one.py", 0, 1)
    if shutil.which("git"):
        with pytest.raises(commits.NoCommitsError, match=r"^not a git repository"):
            commits.touching(tmp_path, 0, 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(commits.NoCommitsError, match="git is not installed here"):
        commits.touching(tmp_path, 0, 1)


# -- by the real engine ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_real_engine_finds_the_one_edit_that_does_eight_times_the_work(tmp_path: Path) -> None:
    engine = EngineUnderTest(tmp_path / "engine")
    # Each version but the first is clearly faster or slower than it, so that two replicas decide.
    texts = [sort(0, times=2), sort(1), "def run(x:\n", sort(3), sort(4, times=8), sort(5, times=8)]
    runs = [remember(engine.home / "state", "mine:one", sources=sources(text), case="cpu") for text in texts]
    try:
        asyncio.run(engine.start())
        with engine.use():
            shown = bisect("mine:one", "--good", runs[0].id, "--bad", runs[-1].id, "--quick", "--json")
    finally:
        engine.close()
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.stdout)
    assert (told["first_bad"]["run_id"], told["before"]["run_id"], told["may_be"]) == (runs[4].id, runs[3].id, [])
    assert "-    for _ in range(1):\n+    for _ in range(8):" in told["diff"]
    skipped = [step["version"]["run_id"] for step in told["steps"] if step["word"] == "skipped"]
    assert skipped == [runs[2].id]
    bad = next(step for step in told["steps"] if step["word"] == "bad")
    assert bad["high"] < 1
