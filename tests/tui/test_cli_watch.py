"""`aisp watch` and `aisp restore`: edits as lines, and an earlier version written back."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisp.engine.protocol import events, requests
from aisp.store.outcomes import State, Validity
from aisp.store.results.reading import Reading
from aisp.tui.cli.restore import choose
from aisp.tui.cli.tree import cli
from tests.tui.fake_engine import FakeEngine, isolate, make_target, remember, start_aisp, wait_for


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> str:
    make_target(tmp_path / "mine", "one")
    return str(tmp_path / "mine")


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with FakeEngine() as engine:
        yield engine


def watching(fake: FakeEngine, root: str, *words: str) -> subprocess.Popen[str]:
    process = start_aisp("watch", "mine:one", "--root", root, *words)
    wait_for(lambda: bool(fake.asked(requests.StartWatch)), "the watch")
    return process


def ended(process: subprocess.Popen[str], how: int = signal.SIGINT) -> tuple[str, str]:
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    return out, err


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def test_each_edit_is_a_line_with_its_verdict_and_its_change(fake: FakeEngine, root: str) -> None:
    process = watching(fake, root)
    fake.edit("mine:one", 0, files=[])
    first = line_of(process)
    fake.edit("mine:one", 1, files=["optimized.py"])
    second = line_of(process)
    _, err = ended(process)
    assert process.returncode == 0
    assert first == ("start  faster 2.00x [1.96..2.04] by optimized  0.4000 ms  best so far  [000000000000]")
    assert second == (
        "#1  faster 2.00x [1.96..2.04] by optimized  0.4000 ms  ~ +0.0 % vs the edit before  ~ +0.0 % vs the best"
        "  (optimized.py)  [010101010101]"
    )
    assert "watching mine:one; Ctrl-C ends it" in err


def test_a_syntax_error_and_a_wrong_answer_are_shown_and_the_watch_goes_on(fake: FakeEngine, root: str) -> None:
    process = watching(fake, root)
    fake.edit("mine:one", 1, files=["optimized.py"], error="optimized.py:4: invalid \x1b[31msyntax")
    assert line_of(process) == "#1  not run  (optimized.py)  [010101010101]"
    assert line_of(process) == "  optimized.py:4: invalid ␛[31msyntax"
    fake.edit("mine:one", 2, files=["optimized.py"], outcome="wrong")
    assert line_of(process) == "#2  wrong: optimized is wrong  (optimized.py)  [020202020202]"
    assert line_of(process) == "  first at [3]: 2.0, expected 1.0"
    fake.edit("mine:one", 3, files=["optimized.py"])
    assert line_of(process).startswith("#3  faster 2.00x")
    ended(process)
    assert process.returncode == 0


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_an_edit_that_a_later_one_superseded_is_told_so_and_is_neither_the_previous_nor_the_best(
    fake: FakeEngine, root: str, words: list[str]
) -> None:
    process = watching(fake, root, *words)
    fake.edit("mine:one", 1, files=["optimized.py"])
    line_of(process)
    fake.supersede("mine:one", 2, by=3)
    second = line_of(process)
    fake.edit("mine:one", 3, files=["optimized.py"])
    third = line_of(process)
    ended(process)
    if not words:
        assert second == "#2  superseded by edit 3  [abababababab]"
        assert "~ +0.0 % vs the edit before  ~ +0.0 % vs the best" in third
        return
    told = json.loads(second)
    assert (told["best_ms"], told["run"]["status"], told["run"]["flags"]) == (None, "cancelled", ["superseded"])
    assert told["run"]["reason"] == "superseded by edit 3"
    assert json.loads(third)["change_to_previous"] == 0.0


def test_the_stream_as_json_is_one_object_per_edit(fake: FakeEngine, root: str) -> None:
    process = watching(fake, root, "--json")
    fake.edit("mine:one", 1, files=["optimized.py"])
    first = json.loads(line_of(process))
    fake.edit("mine:one", 2, files=["lesson.md"], error="no")
    second = json.loads(line_of(process))
    fake.edit("mine:one", 3, files=["optimized.py"])
    third = json.loads(line_of(process))
    ended(process)
    assert (first["target"], first["number"], first["files"]) == ("mine:one", 1, ["optimized.py"])
    assert (first["best_ms"], first["change_to_previous"], first["run"]["verdict"]) == (0.4, None, "faster")
    assert (second["run"], second["error"], second["best_ms"]) == (None, "no", None)
    assert (third["change_to_previous"], third["change_to_best"]) == (0.0, 0.0)


def test_ctrl_c_ends_the_watch_in_the_engine(fake: FakeEngine, root: str) -> None:
    process = watching(fake, root)
    ended(process)
    assert [request.target for request in fake.asked(requests.StopWatch)] == ["mine:one"]


def test_a_dropped_line_ends_it_in_the_same_way(fake: FakeEngine, root: str) -> None:
    process = watching(fake, root)
    ended(process, signal.SIGHUP)
    assert process.returncode == 0
    assert len(fake.asked(requests.StopWatch)) == 1


def test_a_watch_that_is_left_before_the_engine_has_answered_is_ended_there_all_the_same(
    fake: FakeEngine, root: str
) -> None:
    fake.slow_watch_s = 0.5
    process = watching(fake, root)
    ended(process)
    assert process.returncode == 0
    assert [request.target for request in fake.asked(requests.StopWatch)] == ["mine:one"]
    assert fake.watched == {}


def test_a_watch_that_somebody_else_began_is_left_to_them(fake: FakeEngine, root: str) -> None:
    fake.watched["mine:one"] = root
    process = watching(fake, root)
    fake.edit("mine:one", 5, files=["optimized.py"])
    assert line_of(process).startswith("#5  faster")
    ended(process)
    assert fake.asked(requests.StopWatch) == []


def test_the_end_of_the_watch_by_somebody_else_is_told(fake: FakeEngine, root: str) -> None:
    process = watching(fake, root)
    fake.publish(events.WatchChanged(target="mine:one", folder=root, active=False))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "the watch was ended by somebody else" in err


def test_a_watch_that_the_engine_refuses_ends_with_3(fake: FakeEngine, root: str) -> None:
    fake.refuse = "the folder is gone; give another"
    shown = CliRunner().invoke(cli, ["watch", "mine:one", "--root", root])
    assert shown.exit_code == 3
    assert "the folder is gone; give another" in shown.stderr


def test_restore_sends_the_snapshot_whose_beginning_was_given(fake: FakeEngine, root: str, state: Path) -> None:
    old = remember(state, "mine:one", sources="old")
    remember(state, "mine:one", sources="new")
    fake.detail = "cd" * 32
    words = ["restore", "mine:one", old.snapshot[:10], "--root", root, "--yes"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0
    (asked,) = fake.asked(requests.Restore)
    assert (asked.target, asked.snapshot, asked.root) == ("mine:one", old.snapshot, root)
    assert f"restored {old.snapshot[:12]}" in shown.stdout
    assert " into " in shown.stdout
    assert f"aisp restore {Path(root) / 'one'} {'cd' * 32}" in shown.stdout
    told = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert told == {"schema": 1, "target": "mine:one", "restored": old.snapshot, "run_id": old.id, "kept": "cd" * 32}


def test_what_a_restore_kept_can_be_restored_by_its_whole_hash(fake: FakeEngine, root: str, state: Path) -> None:
    from aisp.store import Store

    remember(state, "mine:one", sources="new")
    with Store.open(state / "aisp.db") as store:
        kept = store.put_snapshot({"optimized.py": b"kept before a restore"})
    shown = CliRunner().invoke(cli, ["restore", "mine:one", kept, "--root", root, "--yes"])
    assert shown.exit_code == 0
    assert fake.asked(requests.Restore)[0].snapshot == kept


def test_nothing_is_overwritten_without_a_yes(fake: FakeEngine, root: str, state: Path) -> None:
    remember(state, "mine:one", sources="old")
    shown = CliRunner().invoke(cli, ["restore", "mine:one", "best", "--root", root])
    assert shown.exit_code == 2
    assert "--yes" in shown.stderr
    assert fake.asked(requests.Restore) == []


def test_best_is_the_fastest_correct_version_that_may_be_believed(state: Path) -> None:
    runs = [
        remember(state, "mine:one", speedup=2.0, sources="a"),
        remember(state, "mine:one", speedup=5.0, sources="best"),
        remember(state, "mine:one", speedup=9.0, sources="b", validity=Validity.SUSPECT),
        remember(state, "mine:one", speedup=8.0, sources="c", case="tiny"),
        remember(state, "mine:one", speedup=3.0, sources="d"),
        remember(state, "mine:one", sources="e", state=State.INCORRECT),
    ]
    newest_first = [Reading(record) for record in reversed(runs)]
    assert choose(newest_first, "mine:one", "best").record.snapshot == runs[1].snapshot


def test_a_snapshot_that_is_not_there_names_the_newest(root: str, state: Path) -> None:
    newest = remember(state, "mine:one", sources="old")
    shown = CliRunner().invoke(cli, ["restore", "mine:one", "zzz", "--root", root, "--yes"])
    assert shown.exit_code == 2
    assert f"the newest is {newest.snapshot[:12]}" in shown.stderr
