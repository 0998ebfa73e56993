"""`aisp diff` and `aisp open`: sources side by side, and the app at a place."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.tui.cli import diff
from aisp.tui.cli.tree import cli
from tests.tui.fake_engine import MAIN, isolate, make_target, remember

WITH_LOOP = "import torch\n\n\ndef run(x):\n    for _ in range(3):\n        x = x + 1\n    return x\n"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> str:
    folder = make_target(tmp_path / "mine", "one")
    (folder / "optimized.py").write_text(WITH_LOOP)
    make_target(tmp_path / "mine", "two")
    return str(tmp_path / "mine")


def ran(state: Path, root: str, name: str, text: str) -> str:
    """Id of a stored run of mine:one whose file `name` was `text`."""
    folder = Path(root) / "one"
    files = {file.name: file.read_text() for file in folder.iterdir()} | {name: text}
    return remember(state, "mine:one", sources=files).id


def told(root: str, *words: str) -> Result:
    return CliRunner().invoke(cli, ["diff", *words, "--root", root])


def test_a_target_alone_is_its_baseline_against_its_optimized_rung(root: str) -> None:
    shown = told(root, "one")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "--- baseline.py (now)",
        "+++ optimized.py (now)",
        "@@ -2,4 +2,6 @@",
        " ",
        " ",
        " def run(x):",
        "-    return x + 1",
        "+    for _ in range(3):",
        "+        x = x + 1",
        "+    return x",
    ]
    assert CliRunner().invoke(cli, ["diff", "mine:one", "--root", root]).stdout == shown.stdout


def test_one_rung_stands_against_the_baseline_and_two_in_the_order_given(root: str) -> None:
    assert told(root, "one", "optimized").stdout == told(root, "one").stdout
    turned = told(root, "one", "optimized", "wrong_sign", "-U", "0").stdout.splitlines()
    assert turned[:2] == ["--- optimized.py (now)", "+++ wrong_sign.py (now)"]
    assert turned[-1] == "+    return x + 1"


def test_what_does_not_differ_is_said_on_stderr(root: str) -> None:
    shown = told(root, "one", "baseline", "wrong_sign")
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr == "aisp: no difference between baseline.py (now) and wrong_sign.py (now)\n"


def test_a_run_stands_against_the_folder_as_it_is_now_and_a_rung_against_what_it_was(state: Path, root: str) -> None:
    run = ran(state, root, "optimized.py", "import torch\n\n\ndef run(x):\n    return x + 2\n")
    for words in ((run,), (run[:20].lower(),), ("one", run), ("one", run, "now"), ("one", run, "optimized")):
        lines = told(root, *words).stdout.splitlines()
        assert lines[:2] == [f"--- optimized.py (run {run})", "+++ optimized.py (now)"], words
        assert "-    return x + 2" in lines
        assert sum(line.startswith("---") for line in lines) == 1, "the other files are as they were"
    assert told(root, "one", run, "baseline").stdout == ""


def test_a_run_of_ones_own_work_knows_its_folder_and_without_it_shows_what_it_ran(state: Path, root: str) -> None:
    folder = Path(root) / "one"
    files = {file.name: file.read_text() for file in folder.iterdir()}
    run = remember(state, "mine:one", sources=files, folder=os.fsencode(folder)).id
    (folder / "optimized.py").write_text("import torch\n")
    shown = CliRunner().invoke(cli, ["diff", run])
    assert shown.stdout.splitlines()[:2] == [f"--- optimized.py (run {run})", "+++ optimized.py (now)"], shown.output
    folder.rename(folder.with_name("moved"))
    left = CliRunner().invoke(cli, ["diff", run])
    assert left.stdout.splitlines()[:2] == [f"--- baseline.py (run {run})", f"+++ optimized.py (run {run})"], (
        left.output
    )
    assert "is not on this machine; this is what the run ran" in left.stderr
    none = CliRunner().invoke(cli, ["diff", run, "now"])
    assert none.exit_code == 2 and "nothing stands there now" in none.stderr


def test_two_runs_are_what_each_of_them_ran_with_files_that_came_and_went(state: Path, root: str) -> None:
    old = ran(state, root, "helper.py", "SIZE = 1\n")
    new = ran(state, root, "optimized.py", "import torch\n")
    lines = told(root, old, new).stdout.splitlines()
    assert f"--- helper.py (run {old})" in lines
    assert f"+++ /dev/null (helper.py (run {new}) is not there)" in lines
    assert "-SIZE = 1" in lines
    assert f"+++ optimized.py (run {new})" in lines


def test_side_by_side_has_a_sign_between_the_halves(root: str) -> None:
    lines = told(root, "one", "-y").stdout.splitlines()
    assert lines[0].split() == ["baseline.py", "(now)", "optimized.py", "(now)"]
    assert [line for line in lines if line.startswith("    return x + 1 ") and line[58:61] == " | "]
    assert [line for line in lines if line.endswith(" >     for _ in range(3):")]


def test_a_file_of_the_folder_may_be_named_and_escape_sequences_are_made_visible(root: str) -> None:
    (Path(root) / "one" / "helper.py").write_text("# \x1b]0;owned\x07\n")
    shown = told(root, "one", "helper.py", "reference.py").stdout
    assert "-# ␛]0;owned␇" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["oen"], "no target 'oen'; did you mean mine:one"),
        (["one", "optimised"], "no rung, file or run 'optimised'; did you mean optimized"),
        (["one", "01ZZ"], "no run '01ZZ'"),
        (["one", "optimized", "elsewhere"], "no rung, file or run 'elsewhere'; mine:one has baseline, optimized"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(root: str, words: list[str], sentence: str) -> None:
    shown = told(root, *words)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert sentence in shown.stderr


def test_on_a_terminal_the_pager_shows_it_in_colours(root: str, tmp_path: Path) -> None:
    near, far = pty.openpty()
    environment = {**os.environ, "PAGER": "less", "TERM": "xterm-256color", "LESS": "FRX"}
    process = subprocess.Popen(
        [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", "diff", "one", "--root", root],
        cwd=MAIN, env=environment, stdin=far, stdout=far, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(far)
    seen = b""
    while True:
        try:
            part = os.read(near, 65536)
        except OSError:  # the program closed its side
            break
        if not part:
            break
        seen += part
    os.close(near)
    assert process.wait(30) == 0
    assert b"\x1b[31m-    return x + 1" in seen


def test_colours_are_left_out_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert diff.coloured("+ a\n", side_by_side=False) == "\x1b[32m+ a\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert diff.coloured("+ a\n", side_by_side=False) == "+ a\n"


# -- open --------------------------------------------------------------------------------------------------------------


def test_open_becomes_the_app_at_that_place(monkeypatch: pytest.MonkeyPatch, state: Path, root: str) -> None:
    begun: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: begun.append(words[3:]))
    run = remember(state, "mine:one").id
    for words in (["transpose"], ["ch07:transpose"], [run[:20]], ["one", "--root", root]):
        assert CliRunner().invoke(cli, ["open", *words]).exit_code == 0
    assert begun == [["ch07:transpose"], ["ch07:transpose"], [run], [f"{root}/one"]]


def test_open_as_json_says_what_it_would_open_and_opens_nothing(state: Path) -> None:
    run = remember(state, "mine:one").id
    shown = CliRunner().invoke(cli, ["open", run, "--json"])
    assert json.loads(shown.stdout) == {
        "schema": 1, "target": None, "run_id": run, "command": ["aisp-tui", run]
    }  # fmt: skip


def test_open_of_neither_a_target_nor_a_run_opens_nothing(root: str) -> None:
    shown = CliRunner().invoke(cli, ["open", "oen", "--root", root])
    assert shown.exit_code == 2
    assert "no target 'oen'; did you mean mine:one" in shown.stderr
