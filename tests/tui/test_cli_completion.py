"""`aisp completion`: what a shell is offered, asked as the shell asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisp.tui.cli.tree import TREE, cli
from tests.test_imports import modules_of
from tests.tui.fake_engine import MAIN, aisp, isolate, make_target, remember

ASKED = """
from aisp.tui.cli.tree import main
main()
"""


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> str:
    make_target(tmp_path / "mine", "one")
    make_target(tmp_path / "mine", "two")
    return str(tmp_path / "mine")


def offered(line: str, **environment: str) -> list[str]:
    """What bash is told for a line that ends at the cursor; "type,value" each."""
    done = aisp(env={**os.environ, "_AISP_COMPLETE": "bash_complete", "COMP_LINE": line, **environment})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


def in_bash(line: str, tmp_path: Path) -> list[str]:
    """What readline is given where Tab is pressed at the end of `line`: the real script, in a real bash."""
    program = tmp_path / "bin" / "aisp"
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{ASKED.strip()}" "$@"\n')
        program.chmod(0o700)
    script = (
        'eval "$(aisp completion bash)" || exit 9\n'
        "complete -p aisp >&2\n"
        f"COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}\n"
        "_aisp_completion aisp\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=MAIN,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(MAIN)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "-F _aisp_completion aisp" in done.stderr
    return done.stdout.split()


def test_bash_puts_in_what_stands_behind_the_colon_since_it_cuts_words_there(tmp_path: Path, root: str) -> None:
    assert in_bash(f"aisp run --root {root} mine:o", tmp_path) == ["one"]
    assert in_bash(f"aisp run --root {root} mi", tmp_path) == ["mine:one", "mine:two", "mine"]


def test_commands_are_offered_without_old_spellings() -> None:
    assert offered("aisp di") == ["plain,diff"]
    assert offered("aisp bench di") == ["plain,diff"]
    assert offered("aisp ben") == []
    assert offered("aisp ") == [f"plain,{name}" for name in TREE]


@pytest.mark.slow
def test_targets_are_offered_by_id_and_by_name_and_groups_where_several_may_be_meant(root: str) -> None:
    assert offered(f"aisp watch --root {root} mine:") == ["plain,one", "plain,two"]
    assert offered(f"aisp watch --root {root} mine:", COMP_WORDBREAKS=" ") == ["plain,mine:one", "plain,mine:two"]
    assert offered(f"aisp watch --root {root} tw") == ["plain,two"]
    assert offered(f"aisp run --root {root} a") == ["plain,all"]
    assert "plain,ch01:batching" in offered("aisp run ch01")


def test_rungs_are_those_of_the_target_before(root: str) -> None:
    assert offered(f"aisp diff --root {root} one opt") == ["plain,optimized"]
    assert offered(f"aisp run --root {root} mine:one --rungs baseline,w") == ["plain,baseline,wrong_sign"]
    assert offered(f"aisp fuzz --root {root} mine:one --rung wr") == ["plain,wrong_sign"]


def test_runs_are_offered_newest_first_with_what_they_were_of(state: Path, root: str) -> None:
    first, second = remember(state, "mine:one"), remember(state, "mine:two", quick=True)
    assert offered("aisp compare 0") == [f"plain,{second.id}", f"plain,{first.id}"]
    assert offered(f"aisp diff --root {root} one 0") == [f"plain,{first.id}"]
    asked = {"_AISP_COMPLETE": "zsh_complete", "COMP_WORDS": "aisp history 0", "COMP_CWORD": "2"}
    told = aisp(env={**os.environ, **asked}).stdout
    assert second.id in told
    assert "mine:two, " in told
    assert ", quick" in told


def test_what_cannot_be_read_offers_nothing_and_says_nothing(state: Path) -> None:
    state.mkdir(mode=0o700)
    (state / "aisp.db").write_bytes(b"no database" * 1000)
    assert offered("aisp restore ch07:transpose 0") == []
    assert offered("aisp run --root /nonexistent mi") == ["file,mi"]  # which the shell looks for


def test_the_app_is_completed_like_its_command_line(root: str) -> None:
    asked = {"_AISP_TUI_COMPLETE": "bash_complete", "COMP_LINE": "aisp-tui ch07:transpo"}
    words = [sys.executable, "-c", "from aisp.tui.start import main; main()"]
    done = subprocess.run(words, cwd=MAIN, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["plain,transpose"], "")
    assert "_AISP_TUI_COMPLETE=bash_complete" in CliRunner().invoke(cli, ["completion", "bash"]).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell_and_asks_in_its_way(shell: str) -> None:
    shown = CliRunner().invoke(cli, ["completion", shell])
    assert shown.exit_code == 0
    assert f"_AISP_COMPLETE={shell}_complete" in shown.stdout
    assert json.loads(CliRunner().invoke(cli, ["completion", shell, "--json"]).stdout)["shell"] == shell
    assert f"aisp completion {shell}" in (MAIN / "README.md").read_text("utf-8")


def test_fish_keeps_a_description_with_commas_whole() -> None:
    script = CliRunner().invoke(cli, ["completion", "fish"]).stdout
    assert 'string split -m 1 ","' in script and 'string split ","' not in script


def test_fish_is_told_ids_whole(root: str) -> None:
    line = f"aisp run --root {root} mine:o"
    asked = {"_AISP_COMPLETE": "fish_complete", "COMP_WORDS": line, "COMP_CWORD": "mine:o"}
    assert aisp(env={**os.environ, **asked}).stdout.split() == ["plain,mine:one"]


@pytest.mark.parametrize("line", ["aisp ", "aisp run ch", "aisp compare 0", "aisp bench roof"])
def test_an_answer_between_two_key_strokes_imports_little(line: str, tmp_path: Path, state: Path) -> None:
    remember(state, "mine:one")
    asked = {"_AISP_COMPLETE": "bash_complete", "COMP_LINE": line}
    found = modules_of(f"import os\nos.environ.update({asked!r})\nsys.argv[0] = 'aisp'{ASKED}", tmp_path)
    assert not found & {"torch", "triton", "numpy", "textual", "rich", "sqlite_utils", "watchfiles", "pynvml"}
    if line in ("aisp ", "aisp bench roof"):  # names alone: no command is imported
        assert not found & {"sqlite3", "msgspec", "asyncio"}
