"""The command line as a whole: help, wrong usage, listing, the app without a terminal, pipes and colours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from aisp.store.outcomes import State
from aisp.tui.cli.stored import Opened
from aisp.tui.cli.tree import OLD, TREE, Entry, cli
from tests.tui.fake_engine import MAIN, aisp, isolate, make_target, remember


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def commands(entries: Mapping[str, Entry] = TREE, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, entry in entries.items():
        found += commands(entry.below, (*before, name)) if entry.below else [(*before, name)]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_explains_itself_and_its_exit_status_and_has_json(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*words, "--help"])
    assert shown.exit_code == 0
    assert "Exit status:" in shown.output
    assert "--json" in shown.output or words in (("export",), ("dev", "schema"))


def leaf(words: tuple[str, ...]) -> Entry:
    *groups, name = words
    return (TREE[groups[0]].below if groups else TREE)[name]


def test_help_is_one_screen_that_lists_every_command_with_its_summary() -> None:
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80)
    lines = shown.output.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    visible = {name: entry for name, entry in TREE.items() if entry.section}
    assert all(f"  {name:<9}{entry.summary}" in shown.output for name, entry in visible.items())
    assert not any(f"  {name} " in shown.output for name in TREE if name not in visible)
    assert {entry.section for entry in visible.values()} <= set(lines)
    narrow = CliRunner().invoke(cli, ["--help"], terminal_width=60).output.splitlines()
    assert "  run      Check and time a target" in narrow


def test_help_of_a_group_lists_its_commands() -> None:
    shown = CliRunner().invoke(cli, ["dev", "--help"], terminal_width=200)
    assert all(f"{name:<12}  {entry.summary}" in shown.output for name, entry in TREE["dev"].below.items())


MOST_COMMANDS = 29
MOST_OPTIONS = 163


def test_there_are_no_more_commands_and_options_than_there_were() -> None:
    """Either number may only fall. Before adding a command: which one is it an option or an argument of?"""
    visible = [words for words in commands() if TREE[words[0]].section]
    context = click.Context(cli)
    found = [command for (name,) in visible if (command := cli.get_command(context, name)) is not None]  # no group
    options = [one for command in found for one in command.params if isinstance(one, click.Option) and not one.hidden]
    assert (len(found), len(options)) == (MOST_COMMANDS, MOST_OPTIONS), "a smaller number: write it here"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("engine --start --stop", "--start and --stop are two things to do: give one of them"),
        ("engine --force", "--force goes with --stop"),
        ("engine --logs --when-idle", "--when-idle goes with --stop"),
        ("jobs 01JZ0", "JOB goes with --up or --cancel"),
        ("jobs --up --all 01JZ0", "--all goes with --cancel"),
        ("jobs --up", "name the one JOB that goes up"),
        ("store copy.db", "FILE goes with --verify or --backup or --recover"),
        ("store --vacuum --yes", "--yes goes with --recover"),
        ("store --verify copy.db", "'copy.db' does not exist"),
        ("suite --quick", "--quick goes with NAME"),
        ("suite tier1 other", "B goes with --compare"),
        ("suite tier1 --history --quick", "--quick goes with NAME"),
        ("suite --history", "--history takes the NAME of a suite"),
        ("suite --compare 01JZ0", "--compare takes two"),
        ("fleet --against rows", "--against goes with FOLDER"),
        ("fleet tests", "Directory 'tests' does not exist"),
        ("fleet .", "--against TARGET says what they are candidates for"),
        ("contract", "give a contract FILE"),
        ("contract --diff a.toml", "give a contract FILE, two with --diff"),
        ("contract --new --yaml", "--yaml goes with FILE"),
        ("fuzz --replay 01JZ0 --cases 3", "--cases does not go with --replay"),
    ],
)
def test_what_a_command_is_not_asked_to_do_is_refused_with_what_it_goes_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, typed: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(cli, typed.split())
    assert (shown.exit_code, told in shown.stderr) == (2, True), shown.output


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_shows_two_calls_that_its_options_take(words: tuple[str, ...]) -> None:
    group: click.Command = cli
    for word in words:
        context = click.Context(group)
        assert isinstance(group, click.Group)
        command = group.get_command(context, word)
        assert command is not None
        group = command
    shown = CliRunner().invoke(cli, [*words, "--help"]).output
    examples = leaf(words).examples
    assert len(set(examples)) == 2
    for example in examples:
        assert f"  {example}\n" in shown
        program, *typed = example.partition(" > ")[0].split()
        assert (program, tuple(typed[: len(words)])) == ("aisp", words)
        given, rest, _ = group.make_parser(click.Context(group)).parse_args(typed[len(words) :])
        arguments = [p for p in group.params if isinstance(p, click.Argument)]
        assert all(given.get(p.name or "") for p in arguments if p.required), example
        assert not rest, example
        for parameter in group.params:
            if isinstance(parameter.type, click.Choice) and parameter.name in given:
                parameter.type.convert(given[parameter.name], parameter, None)


@pytest.mark.parametrize("old", OLD)
def test_an_old_spelling_does_what_the_new_one_does_and_names_it(old: str) -> None:
    new = OLD[old]
    before = CliRunner().invoke(cli, [*old.split(), "--help"])
    now = CliRunner().invoke(cli, [*new.split(), "--help"])
    assert (before.exit_code, before.stdout) == (0, now.stdout)
    words = " ".join(["aisp", *new.split()])
    assert before.stderr == f"aisp: `aisp {old}` is `{words}` now; the old spelling goes with the next version\n"
    assert not now.stderr and f"aisp {old} " not in now.stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("engine stop --when-idle --json", "engine --stop --when-idle --json"),
        ("engine logs --lines 3", "engine --logs --lines 3"),
        ("bench engine status", "engine"),
        ("store verify --anew --json", "store --verify --anew --json"),
        ("store restore --yes", "store --recover --yes"),
        ("store backup copy.db", "store --backup -o copy.db"),
        ("suite list --json", "suite --json"),
        ("suite history tier1 --limit 2", "suite --history tier1 --limit 2"),
        ("suite compare 01JZ0 01JZ1", "suite --compare 01JZ0 01JZ1"),
        ("contract new x.contract.toml", "contract --new -o x.contract.toml"),
        ("contract check x.contract.toml 01JZ0", "contract x.contract.toml 01JZ0"),
        ("contract diff x.toml y.toml", "contract --diff x.toml y.toml"),
        ("fleet status --json", "fleet --json"),
        ("cancel --all", "jobs --cancel --all"),
        ("replay 01NONE", "fuzz --replay 01NONE"),
    ],
)
def test_an_old_spelling_takes_the_arguments_that_it_took(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str
) -> None:
    done = []
    for number, typed in enumerate((old, new)):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        shown = CliRunner().invoke(cli, typed.split())
        done.append((shown.exit_code, shown.stdout, sorted(path.name for path in Path().iterdir())))
        assert "No such option" not in shown.output
    assert done[0] == done[1]


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    shown = CliRunner().invoke(cli, ["histroy"])
    assert shown.exit_code == 2
    assert "did you mean history" in shown.output


def test_list_targets_names_each_target_with_what_it_needs(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    make_target(tmp_path / "mine", "two", title="日本語の題")
    shown = CliRunner().invoke(cli, ["list", "--root", str(tmp_path / "mine")])
    assert shown.exit_code == 0
    head, *rows = shown.stdout.splitlines()
    assert head.split() == ["target", "title", "rungs", "needs", "last", "result", "SOL", "no", "GPU"]
    assert [row.split()[0] for row in rows] == ["mine:one", "mine:two"]
    assert "日本語の題" in rows[1]


def test_list_targets_as_json_carries_the_documented_keys(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    shown = CliRunner().invoke(cli, ["list", "--root", str(tmp_path / "mine"), "--json"])
    (target,) = json.loads(shown.stdout)["targets"]
    assert target["id"] == "mine:one"
    assert target["chapter"] == "mine"
    assert target["title"] == "Two passes made one"
    assert target["goal"] == "speed"
    assert target["needs"] == {"sm": None, "gpus": 0}
    assert [rung["name"] for rung in target["rungs"]] == ["baseline", "optimized", "wrong_sign"]
    assert target["last"] is None


def test_a_chapter_that_is_not_there_is_wrong_usage_and_names_those_that_are(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    words = ["list", "--root", str(tmp_path / "mine"), "--chapter", "ch99"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 2
    assert "no chapter 'ch99'; there are mine" in shown.stderr
    assert shown.stdout == ""


def test_a_target_that_does_not_load_is_told_and_the_others_are_listed(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    broken = make_target(tmp_path / "mine", "two")
    (broken / "lesson.md").write_text("+++\ntitle = 3\n+++\n")
    shown = CliRunner().invoke(cli, ["list", "--root", str(tmp_path / "mine")])
    assert shown.exit_code == 0
    assert "mine:one" in shown.stdout
    assert "mine:two" not in shown.stdout
    assert "two/lesson.md" in shown.stderr


def test_the_last_result_of_each_target_stands_in_the_list(tmp_path: Path, state: Path) -> None:
    make_target(tmp_path / "mine", "one")
    make_target(tmp_path / "mine", "two")
    remember(state, "mine:one", speedup=4.0, state=State.INCORRECT)
    remembered = remember(state, "mine:one", speedup=2.5, quick=True)
    remember(state, "mine:one", speedup=9.0, state=State.CANCELLED)
    words = ["list", "--root", str(tmp_path / "mine")]
    lines = CliRunner().invoke(cli, words).stdout.splitlines()
    assert "faster 2.50x (quick, last try: cancelled)" in lines[1]
    assert lines[1].endswith("82 %\ttimed")
    assert lines[2].split()[-3:-1] == ["-", "-"]
    one, two = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)["targets"]
    assert two["last"] is None
    assert one["last"] == {
        "run_id": remembered.id, "status": "ok", "wall": remembered.wall, "device": "cpu", "case": "cpu",
        "quick": True, "correctness": "correct", "validity": "valid", "verdict": "faster", "reason": "",
        "rung": "optimized", "speedup": 2.5, "low": 2.45, "high": 2.55, "median_ms": 0.4, "sol": 0.82,
    }  # fmt: skip


def test_a_last_result_that_is_wrong_says_so(tmp_path: Path, state: Path) -> None:
    make_target(tmp_path / "mine", "one")
    remember(state, "mine:one", speedup=2.5)
    remember(state, "mine:one", speedup=2.5, state=State.INCORRECT)
    lines = CliRunner().invoke(cli, ["list", "--root", str(tmp_path / "mine")]).stdout.splitlines()
    assert lines[1].split()[-3:-1] == ["wrong", "-"]


def test_a_damaged_store_costs_the_last_results_and_not_the_list(tmp_path: Path, state: Path) -> None:
    make_target(tmp_path / "mine", "one")
    state.mkdir(mode=0o700)
    (state / "aisp.db").write_bytes(b"this is no database, it only looks big enough to be one" * 100)
    shown = CliRunner().invoke(cli, ["list", "--root", str(tmp_path / "mine")])
    assert shown.exit_code == 0
    assert "mine:one" in shown.stdout
    assert "earlier results cannot be read" in shown.stderr


def test_new_makes_a_target_that_the_catalogue_loads_and_says_what_to_type_next(tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["new", "my_kernel", "--into", str(tmp_path / "my kernels"), "--json"])
    made = json.loads(shown.stdout)
    assert shown.exit_code == 0
    assert Path(made["folder"]) == tmp_path / "my kernels" / "my_kernel"
    listed = CliRunner().invoke(cli, ["list", "--root", made["root"], "--json"])
    assert [target["id"] for target in json.loads(listed.stdout)["targets"]] == [made["id"]]
    assert made["next"][0] == f"aisp run '{made['folder']}'"
    again = CliRunner().invoke(cli, ["new", "my_kernel", "--into", str(tmp_path / "my kernels")])
    assert again.exit_code == 2
    assert "already there" in again.stderr


def test_new_copies_a_shipped_target_under_its_own_name_or_another(tmp_path: Path) -> None:
    words = ["new", "--from", "ch09:small_matmuls", "--into", str(tmp_path / "mine")]
    made = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert (made["id"], made["from"]) == ("mine:small_matmuls", "ch09:small_matmuls")
    assert {"lesson.md", "loop.py", "wrong_last_group.py"} <= set(made["files"])
    taken = CliRunner().invoke(cli, words)
    assert taken.exit_code == 2 and "for example small_matmuls_2" in taken.stderr
    named = CliRunner().invoke(cli, [*words, "matmuls"])
    assert "made mine:matmuls, a copy of ch09:small_matmuls, in " in named.stdout
    listed = CliRunner().invoke(cli, ["list", "--root", made["root"], "--json"])
    assert [target["id"] for target in json.loads(listed.stdout)["targets"]] == ["mine:matmuls", "mine:small_matmuls"]


def test_new_says_what_it_needs(tmp_path: Path) -> None:
    bare = CliRunner().invoke(cli, ["new"])
    assert bare.exit_code == 2 and "give a NAME for the new target, or --from TARGET" in bare.stderr
    near = CliRunner().invoke(cli, ["new", "--from", "ch09:small_matmul", "--into", str(tmp_path / "mine")])
    assert near.exit_code == 2 and "did you mean ch09:small_matmuls" in near.stderr
    assert not (tmp_path / "mine").exists()


def test_store_info_knows_an_empty_place_from_an_unreadable_one(state: Path) -> None:
    shown = CliRunner().invoke(cli, ["store", "--json"])
    found = json.loads(shown.stdout)
    assert (shown.exit_code, found["exists"], found["runs"], found["size_bytes"]) == (0, False, None, None)
    assert found["path"] == str(state / "aisp.db")
    (state / "aisp.db").write_bytes(b"no database" * 1000)
    broken = CliRunner().invoke(cli, ["store"])
    assert broken.exit_code == 3
    assert "cannot be read" in broken.stderr


def test_the_app_without_a_terminal_prints_the_plain_list_and_no_escape_sequences(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    pytest.importorskip("aisp.tui.app", reason="the app is not there")
    done = subprocess.run(
        [sys.executable, "-c", "from aisp.tui.start import main; main()", str(tmp_path / "mine")],
        cwd=MAIN, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert b"mine:one" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"terminal" in done.stderr


def test_a_reader_that_goes_away_is_no_error_message(tmp_path: Path) -> None:
    for number in range(400):
        make_target(tmp_path / "mine", f"target_number_{number}")
    code = (
        "from aisp.tui.cli.tree import main\n"
        "import sys; sys.argv = ['aisp', 'list', '--json', '--root', sys.argv[1]]\n"
        "main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "mine")],
        cwd=MAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_a_foreseen_trouble_is_one_line_and_status_3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "link"))
    done = aisp("store")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("aisp: ")
    assert "symbolic link" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unforeseen_exception_is_one_line_with_the_traceback_in_a_file(
    monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    def fall(_: object) -> None:
        raise RuntimeError("what nobody\x1b[31m thought of")

    monkeypatch.setattr("aisp.tui.cli.store.facts", fall)
    shown = CliRunner().invoke(cli, ["store"])
    assert shown.exit_code == 3
    assert "a mistake in aisp itself: RuntimeError: what nobody␛[31m thought of" in shown.stderr
    assert "Traceback" not in shown.stderr
    assert "RuntimeError" in (state / "crash.log").read_text()


def test_what_a_person_typed_reaches_the_terminal_without_its_escape_sequences() -> None:
    done = aisp("list", "--chapter", "\x1b]0;owned\x07")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_are_left_out_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    from aisp.tui.cli import common

    @click.command()
    def probe() -> None:
        common.say_outcome("=> faster", "faster")

    monkeypatch.setitem(
        TREE,
        "probe",
        Entry("Prints a coloured line.", "tests.tui.test_cli:PROBE"),
    )
    monkeypatch.setattr(sys.modules[__name__], "PROBE", probe, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert CliRunner().invoke(cli, ["probe"], color=True).output == "\x1b[34m\x1b[1m=> faster\x1b[0m\n"
    monkeypatch.setenv(name, value)
    assert CliRunner().invoke(cli, ["probe"], color=True).output == "=> faster\n"


def test_a_terminal_of_another_encoding_gets_escapes_and_no_failure(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one", title="日本")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = aisp("list", "--root", str(tmp_path / "mine"), env=environment)
    assert done.returncode == 0
    assert "\\u65e5\\u672c" in done.stdout


def test_a_folder_whose_name_is_not_utf8_is_listed(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad_\xff"))
    make_target(root, "one")
    listed = aisp("list", "--root", str(root), "--json")
    (target,) = json.loads(listed.stdout)["targets"]
    assert target["folder"].endswith("bad_\\xff/one")
    run = aisp("run", "--targets", target["id"], "--root", str(root))
    assert run.returncode == 2
    assert "not UTF-8" in run.stderr


def test_ctrl_c_during_a_question_is_told_and_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("aisp.tui.cli.store.facts", interrupted)
    shown = CliRunner().invoke(cli, ["store"])
    assert shown.exit_code == 128 + signal.SIGINT
    assert "interrupted" in shown.stderr


# -- without a word ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("dev",)], ids=" ".join)
def test_a_group_alone_prints_its_help_once_and_ends_well(words: tuple[str, ...]) -> None:
    done = aisp(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage:") == 1
    assert done.stdout == aisp(*words, "--help").stdout


def test_a_command_that_stands_below_a_group_is_told_where() -> None:
    shown = CliRunner().invoke(cli, ["audit"])
    assert shown.exit_code == 2
    assert "no command 'audit'; did you mean dev audit?" in shown.stderr


# -- targets by name ---------------------------------------------------------------------------------------------------


def listed_by(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words])


def test_a_name_that_two_targets_have_is_answered_with_both(tmp_path: Path) -> None:
    roots = []
    for chapter in ("mine", "yours"):
        make_target(tmp_path / chapter, "one")
        roots += ["--root", str(tmp_path / chapter)]
    for words in (("run", "one"), ("diff", "one"), ("open", "one"), ("roofline", "one")):
        shown = listed_by(*words, *roots, "--json")
        assert shown.exit_code == 2
        error = json.loads(shown.stdout)["error"]
        assert (error["kind"], error["try"]) == ("ambiguous", ["mine:one", "yours:one"])
        assert "'one' may be mine:one, yours:one; give one of them" in shown.stderr


def test_a_target_that_does_not_load_is_told_with_file_key_and_fix_and_not_as_unknown(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    broken = make_target(tmp_path / "mine", "two")
    lesson = (broken / "lesson.md").read_text()
    (broken / "lesson.md").write_text(lesson.replace('"speed"', '"sped"'))
    for words in (("run", "two"), ("run", "mine:two"), ("watch", "mine:two"), ("lint", "two")):
        shown = listed_by(*words, "--root", str(tmp_path / "mine"), "--json")
        assert shown.exit_code == 2
        error = json.loads(shown.stdout)["error"]
        assert error["kind"] == "broken"
        assert error["text"].startswith(f"mine:two does not load: {broken}/lesson.md: goal: ")
        assert "speed" in error["text"].rpartition("; ")[2], "what would work"
        assert "no target" not in shown.stderr


def test_a_folder_without_targets_is_told_so_and_ends_with_1(tmp_path: Path) -> None:
    shown = listed_by("list", "--root", str(tmp_path))
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "no targets; `aisp new NAME` makes one" in shown.stderr
    as_json = listed_by("list", "--root", str(tmp_path), "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (1, {"schema": 1, "targets": []})


def test_a_list_in_a_pipe_is_cells_with_a_tab_between(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one", title="A title that is long " * 5)
    make_target(tmp_path / "mine", "two", title="Short")
    done = aisp("list", "--root", str(tmp_path / "mine"))
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["target", "title", "rungs", "needs", "last result", "SOL", "no GPU"]
    assert rows[2] == ["mine:two", "Short", "2", "-", "-", "-", "timed"]


# -- errors as JSON ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "kind"),
    [
        (("run",), 2, "usage"),
        (("run", "no_such_target"), 2, "unknown"),
        (("bench", "histroy"), 2, "unknown"),
        (("compare",), 2, "usage"),
        (("history", "01A"), 2, "unknown"),
        (("list", "--nonsense"), 2, "usage"),
        (("roofline", "transpose"), 1, "no"),
        (("peak", "--stored"), 1, "no"),
        (("engine", "--logs"), 1, "no"),
        (("store", "--verify", "/nonexistent"), 2, "usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.slow
def test_an_error_under_json_is_one_object_on_stdout_and_its_text_on_stderr(
    words: tuple[str, ...], status: int, kind: str
) -> None:
    done = aisp(*words, "--json")
    assert done.returncode == status
    (line,) = done.stdout.splitlines()
    told = json.loads(line)
    assert told.keys() == {"schema", "error"}
    assert told["error"].keys() == {"kind", "text", "try"}
    assert told["error"]["kind"] == kind
    assert told["error"]["text"] in done.stderr
    assert aisp(*words).stdout == ""


def test_what_would_work_stands_beside_an_error() -> None:
    told = json.loads(aisp("run", "transpoze", "--json").stdout)
    assert told["error"]["try"][0] == "ch07:transpose"


def test_an_unforeseen_exception_is_an_object_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(_: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("aisp.tui.cli.store.facts", fall)
    shown = CliRunner().invoke(cli, ["store", "--json"])
    assert shown.exit_code == 3
    assert json.loads(shown.stdout)["error"]["kind"] == "not_here"


def test_a_list_reads_the_runs_that_it_shows_and_a_name_reads_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: Path
) -> None:
    from aisp.store import reader

    make_target(tmp_path / "mine", "one")
    for name in ("mine:one", "mine:one", "ch07:transpose", "ch09:softmax"):
        remember(state, name, environment={"host": "atlas"})
    loaded: list[int] = []
    environments: list[str] = []
    load, look_up = reader.load_runs, reader.History.environment
    monkeypatch.setattr(reader, "load_runs", lambda opened, numbers: loaded.extend(numbers) or load(opened, numbers))
    monkeypatch.setattr(
        reader.History, "environment", lambda self, digest: environments.append(digest) or look_up(self, digest)
    )
    shown = json.loads(CliRunner().invoke(cli, ["list", "--root", str(tmp_path / "mine"), "--json"]).stdout)
    assert shown["targets"][0]["last"] is not None
    assert (loaded, environments) == ([2], [])
    loaded.clear()
    assert CliRunner().invoke(cli, ["score", "nothing"]).exit_code == 2
    assert loaded == []
    with Opened(state / "aisp.db") as opened:
        found = opened.last_result("mine:one")
        assert loaded == [] and opened.run(found).target == "mine:one"
