"""What a word may be where a TARGET is asked for: kinds of words by the commands, each of which takes them all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import aisp.tui.app as app_module
from aisp.engine.doors import tuning
from aisp.engine.doors.asking import RefusedError
from aisp.engine.protocol import events, requests
from aisp.kernels.catalog import contracts, list_ids, load, read_sources
from aisp.store import Store
from aisp.tui.cli import judge, resolve, restore, roofline, watch
from aisp.tui.cli.tree import cli
from aisp.tui.screens import Place
from aisp.tui.start import app
from tests.kernels.formats import kernelbench
from tests.replacing import replace
from tests.store.examples import examined, planned
from tests.tui.fake_engine import FakeEngine, isolate, make_target

FILE = """
def reference(x: "float32 [8] normal") -> "float32 [8]":
    return x


def baseline(x):
    return x + 0


def optimized(x):
    return x
"""
SHIPPED = "ch07:transpose"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return isolate(monkeypatch, tmp_path)


def ran(folder: Path) -> str:
    """The id of a stored run of the target at a path."""
    from aisp.engine import paths

    (target,) = load([folder]).targets
    with Store.open(paths.database_file()) as store:
        run = planned(target.id, snapshot=store.put_snapshot(read_sources(target)))
        run = replace(run, folder=os.fsencode(folder))
        store.plan([run])
        store.finish(examined(run), {})
    return run.id


# -- kinds of words: each makes what it names, and returns the word and the folder, or file, that is meant -------------


def own_folder(home: Path) -> tuple[str, Path]:
    make_target(home / "work", "mine")
    ran(home / "work" / "mine")
    return "work/mine", home / "work" / "mine"


def this_folder(home: Path) -> tuple[str, Path]:
    _, folder = own_folder(home)
    os.chdir(folder)
    return ".", folder


def one_file(home: Path) -> tuple[str, Path]:
    (home / "softmax.py").write_text(FILE)
    ran(home / "softmax.py")
    return "softmax.py", home / "softmax.py"


def folder_of_one_file(home: Path) -> tuple[str, Path]:
    (home / "alone").mkdir()
    file = home / "alone" / "softmax.py"
    file.write_text(FILE)
    ran(file)
    return "./alone", file


def earlier_id(home: Path) -> tuple[str, Path]:
    one_file(home)
    return "softmax:softmax", home / "softmax.py"


def earlier_name(home: Path) -> tuple[str, Path]:
    own_folder(home)
    return "mine", home / "work" / "mine"


def run_id(home: Path) -> tuple[str, Path]:
    make_target(home / "work", "mine")
    return ran(home / "work" / "mine")[:22].lower(), home / "work" / "mine"


def shipped_name(home: Path) -> tuple[str, Path]:
    (home / "transpose").mkdir()  # a target comes before a folder of its name
    ran(list_ids()[SHIPPED])
    return "transpose", list_ids()[SHIPPED]


def foreign_answer(home: Path) -> tuple[str, Path]:
    candidate, problem = kernelbench.written(home, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    folder = Path(judge.answer_root(str(candidate), str(problem)))
    ran(folder)
    return load([folder]).targets[0].id, folder


KINDS = [
    *(own_folder, this_folder, one_file, folder_of_one_file, earlier_id, earlier_name, run_id, shipped_name),
    foreign_answer,
]

# -- commands: each is played with a word, and returns what it reached: a path or the id of a target -------------------


def aisp(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def asking(kind: type, *words: str) -> Callable[[str, pytest.MonkeyPatch], Path]:
    def play(word: str, monkeypatch: pytest.MonkeyPatch) -> Path:
        with FakeEngine() as engine:
            done = aisp(*words, word, "--json")
            assert done.exit_code == 0, done.output
            (asked,) = engine.asked(kind)
        roots = asked.roots if isinstance(asked, requests.StartRuns) else [asked.root] * bool(asked.root)
        target = asked.targets[0] if isinstance(asked, requests.StartRuns) else asked.target
        return load([Path(root) for root in roots] or None).find(target).folder

    return play


def watching(word: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    begun: list[tuple[str, str]] = []

    class Watching:
        def __init__(self, target: str, root: str, device: str, *, as_json: bool) -> None:
            begun.append((target, root))

        async def run(self) -> int:
            return 0

    monkeypatch.setattr(watch, "Watching", Watching)
    done = aisp("watch", word)
    assert done.exit_code == 0, done.output
    ((target, root),) = begun
    return load([Path(root)] if root else None).find(target).folder


def restoring(word: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    begun: list[tuple[str, str]] = []

    async def answer(root: str, target: str, snapshot: str) -> events.Reply:
        begun.append((target, root))
        return events.Reply(to=1)

    monkeypatch.setattr(restore, "_restore", answer)
    found = resolve.target(word)
    if found.folder.is_file():  # refused before anything is asked
        done = aisp("restore", word, "best")
        assert (done.exit_code, "is one file" in done.output, begun) == (2, True, [])
        return found.folder
    with Store.open(Path(os.environ["AISP_STATE"]) / "aisp.db") as store:
        snapshot = store.put_snapshot(read_sources(found))
    done = aisp("restore", word, snapshot, "--yes")
    assert done.exit_code == 0, done.output
    ((target, root),) = begun
    return load([Path(root)] if root else None).find(target).folder


def tuned(word: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    found: list[Any] = []

    def refuse(target: Any, *_: object) -> None:
        found.append(target)
        raise RefusedError("nothing to search")

    monkeypatch.setattr(tuning, "prepare", refuse)
    assert "nothing to search" in aisp("tune", word, "optimized").output
    return found[0].folder


def compared(word: str, monkeypatch: pytest.MonkeyPatch) -> str:
    done = aisp("diff", word, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["target"]


def in_history(word: str, monkeypatch: pytest.MonkeyPatch) -> str:
    done = aisp("history", word, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    return (told["runs"][0] if "runs" in told else told)["target"]


def checked(word: str, monkeypatch: pytest.MonkeyPatch) -> str:
    done = aisp("checks", word)
    assert done.exit_code == 0, done.output
    return done.stdout.rpartition(" of ")[2].partition(",")[0]


def exported(word: str, monkeypatch: pytest.MonkeyPatch) -> str:
    done = aisp("export", word, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["run"]["target"]


def kept(word: str, monkeypatch: pytest.MonkeyPatch) -> str:
    file = Path(os.environ["AISP_STATE"]) / "contract.toml"
    file.write_text(contracts.render(contracts.example()))
    done = aisp("contract", str(file), word)
    assert done.exit_code in (0, 1), done.output
    return next(line for line in done.stdout.splitlines() if line.startswith("run ")).split()[3]


def scored(word: str, monkeypatch: pytest.MonkeyPatch) -> str:
    done = aisp("score", word, "--json")
    assert done.exit_code in (0, 1), done.output
    told = json.loads(done.stdout)
    (one,) = [*told["results"], *told["left_out"]]
    return one["target"]


def bisected(word: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (run, *_) = json.loads(aisp("history", "--json").stdout)["runs"]
    done = aisp("bisect", word, "--good", run["run_id"], "--bad", run["run_id"])
    assert (done.exit_code, "is not older" in done.stderr) == (2, True), "it is of the target, so this is what is wrong"
    return run["target"]


def side_by_side(word: str, monkeypatch: pytest.MonkeyPatch) -> str:
    done = aisp("compare", word, word, "--json")
    assert done.exit_code in (0, 1), done.output
    return json.loads(done.stdout)["b"]["target"]


def under_roofs(word: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    found: list[Path] = []
    monkeypatch.setattr(roofline, "look", lambda target, *_: found.append(target.folder) or "no roof")
    assert "no roof" in aisp("roofline", word).stderr
    return found[0]


def placed(place: Place) -> Path | str:
    if place.screen == "run":
        return str(place.arguments["run_id"])
    if place.screen == "lesson":
        return list_ids()[place.arguments["target_id"]]
    assert place.folder is not None
    return resolve.at(place.folder)[0].folder


def in_the_app(word: str, monkeypatch: pytest.MonkeyPatch) -> Path | str:
    places: list[Place] = []
    monkeypatch.setattr(app_module, "run", lambda place, **_: places.append(place) or 0)
    monkeypatch.setattr(app_module, "refusal", lambda: "")
    said = CliRunner().invoke(app, [word])
    assert said.exit_code == 0, said.output
    return placed(places[0])


def opened(word: str, monkeypatch: pytest.MonkeyPatch) -> Path | str:
    done = aisp("open", word, "--json")
    assert done.exit_code == 0, done.output
    program, place = json.loads(done.stdout)["command"]
    assert program == "aisp-tui"
    return in_the_app(place, monkeypatch)


COMMANDS = {
    "run": asking(requests.StartRuns, "run"),
    "judge": asking(requests.StartRuns, "judge"),
    "fuzz": asking(requests.FuzzTarget, "fuzz"),
    "lint": asking(requests.FuzzTarget, "lint"),
    "watch": watching,
    "restore": restoring,
    "tune": tuned,
    "diff": compared,
    "history": in_history,
    "checks": checked,
    "export": exported,
    "contract": kept,
    "score": scored,
    "bisect": bisected,
    "compare": side_by_side,
    "roofline": under_roofs,
    "open": opened,
    "aisp-tui": in_the_app,
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_command_takes_every_kind_of_target(
    kind: Callable[[Path], tuple[str, Path]], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word, path = kind(tmp_path)
    reached = COMMANDS[command](word, monkeypatch)
    if isinstance(reached, Path):
        assert reached == path
    elif kind is run_id and command in ("open", "aisp-tui"):
        assert reached.lower().startswith(word)
    else:
        assert reached == load([path]).targets[0].id


# -- several targets ---------------------------------------------------------------------------------------------------


def test_a_folder_of_targets_runs_all_of_them_and_is_several_where_one_is_asked_for(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_target(tmp_path / "work", name)
    (tmp_path / "softmax.py").write_text(FILE)
    with FakeEngine() as engine:
        done = aisp("run", "work", "softmax.py", "transpose", "--json")
        assert done.exit_code == 0, done.output
        (asked,) = engine.asked(requests.StartRuns)
    assert asked.targets == ["work:one", "work:two", "softmax:softmax", SHIPPED]
    catalog = load([Path(root) for root in asked.roots])
    assert [catalog.find(each).folder.name for each in asked.targets] == ["one", "two", "softmax.py", "transpose"]
    one = aisp("watch", "work")
    assert one.exit_code == 2
    assert f"'work' may be {tmp_path / 'work' / 'one'}, {tmp_path / 'work' / 'two'}; give one of them" in one.stderr


def test_two_targets_of_one_id_are_not_run_together(tmp_path: Path) -> None:
    for home in ("a", "b"):
        make_target(tmp_path / home / "work", "mine")
    done = aisp("run", "a/work/mine", "b/work/mine")
    assert done.exit_code == 2
    assert "two targets have the id work:mine" in done.stderr and "in two commands" in done.stderr


def test_an_answer_runs_beside_the_problem_that_it_is_judged_against(tmp_path: Path) -> None:
    candidate, problem = kernelbench.written(tmp_path, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    with FakeEngine() as engine:
        done = aisp("run", str(candidate), "--against", str(problem), "--json")
        assert done.exit_code == 0, done.output
        (asked,) = engine.asked(requests.StartRuns)
    assert asked.roots == [judge.answer_root(str(candidate), str(problem))]
    many = aisp("run", "a.py", "b.py", "--against", str(problem))
    assert many.exit_code == 2 and "`aisp judge FOLDER` takes many" in many.stderr


# -- what is no target -------------------------------------------------------------------------------------------------


def nothing(home: Path) -> tuple[str, str]:
    (home / "softmax.py").write_text(FILE)
    return "softmix.py", f"there is no folder or file {home}/softmix.py; did you mean {home}/softmax.py?"


def empty_folder(home: Path) -> tuple[str, str]:
    (home / "empty").mkdir()
    return "./empty", "holds no targets; a target is a folder with lesson.md and baseline.py, or a Python file"


def half_a_target(home: Path) -> tuple[str, str]:
    (make_target(home / "work", "mine") / "reference.py").unlink()
    return "work/mine", "reference.py: missing; write run(...) there in fp64"


def text_file(home: Path) -> tuple[str, str]:
    (home / "notes.txt").write_text("")
    return "notes.txt", f"notes.txt: not a folder; give the folder that holds it: {home}"


def foreign_problem(home: Path) -> tuple[str, str]:
    _, problem = kernelbench.written(home, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    return str(problem), f"is a KernelBench problem, and no answer to it; `aisp run ANSWER --against {problem}`"


def answer_alone(home: Path) -> tuple[str, str]:
    answer, _ = kernelbench.written(home, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    return str(answer), f"is an answer in the form of KernelBench; `aisp run {answer} --against PROBLEM`"


def mistyped_name(home: Path) -> tuple[str, str]:
    return "transpoze", "no target 'transpoze'; did you mean ch07:transpose"


def mistyped_folder(home: Path) -> tuple[str, str]:
    make_target(home, "minimum_of_rows")
    return "minimum_of_row", f"there is no folder or file {home}/minimum_of_row; did you mean {home}/minimum_of_rows?"


WRONG = [nothing, empty_folder, half_a_target, text_file, foreign_problem, answer_alone, mistyped_name, mistyped_folder]


@pytest.mark.parametrize("words", ["run", "watch", "fuzz", "lint", "tune", "diff", "restore", "open"])
@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_what_is_no_target_is_told_alike_everywhere_with_the_next_move(
    kind: Callable[[Path], tuple[str, str]], words: str, tmp_path: Path
) -> None:
    word, sentence = kind(tmp_path)
    more = {"tune": ["optimized"], "restore": ["best"]}.get(words, [])
    done = aisp(*words.split(), word, *more)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr


@pytest.mark.parametrize("kind", [earlier_id, run_id])
def test_what_is_gone_runs_from_the_sources_that_ran_and_is_not_edited(
    kind: Callable[[Path], tuple[str, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word, path = kind(tmp_path)
    before = read_sources(load([path]).targets[0])
    path.rename(tmp_path / "moved")
    for command in ("run", "judge", "fuzz", "lint", "tune"):
        reached = COMMANDS[command](word, monkeypatch)
        assert isinstance(reached, Path) and reached.is_relative_to(tmp_path / "state")
        assert read_sources(load([reached]).targets[0]) == before
    for words in (["watch"], ["restore", "best"]):
        done = aisp(words[0], word, *words[1:])
        assert done.exit_code == 2
        assert f"{path} is not on this machine; `aisp diff " in done.stderr


def test_a_name_means_what_a_person_has_and_not_the_copy_that_was_made_while_it_was_away(tmp_path: Path) -> None:
    """Else `restore` and `watch` would write where nobody looks."""
    _, folder = own_folder(tmp_path)
    (own,) = load([folder]).targets
    run = ran(folder)
    folder.rename(folder.with_name("away"))
    copy = resolve.target(run, live=False)
    assert copy.folder != folder
    ran(copy.folder)
    folder.with_name("away").rename(folder)
    assert resolve.target(own.id).folder == folder
    assert resolve.target(own.id, live=True).folder == folder


def test_a_word_that_means_no_run_is_unknown_in_every_list() -> None:
    for words in (("compare", "01A", "01B"), ("history", "01A"), ("export", "01A"), ("run", "01A")):
        done = aisp(*words, "--json")
        assert done.exit_code == 2
        if words[0] != "export":  # whose --json is a package
            assert json.loads(done.stdout)["error"]["kind"] == "unknown", words
