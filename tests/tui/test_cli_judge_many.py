"""`aisp judge FOLDER --against TARGET`: many candidates from the command line to their outcomes."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aisp.engine.doors import many
from aisp.store.candidates import Candidates, CandidateState, Level
from aisp.store.outcomes import Correctness, State, Verdict
from aisp.store.results.candidate import Outcome
from aisp.store.results.outcome import Stage
from aisp.store.results.tables import as_json
from aisp.tui.cli import judge_many
from aisp.tui.cli.tree import cli
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.kernels.formats import kernelbench
from tests.tui.fake_engine import MAIN, aisp, isolate, start_aisp, wait_for

RIGHT = "FIRST = 0\n\n\ndef run(x):\n    return x[:, FIRST:].sum(-1)\n"
SAME = "def run(x):\n    return x\n"
BROKEN = {
    "leaves.py": ("import os\n\nos._exit(0)\n\n\ndef run(x):\n    return x\n", "premature_exit", "load"),
    "nothing.py": ("x = 1\n", "user_error", "parse"),
    "raises.py": ("def run(x):\n    raise ValueError('no')\n", "user_error", "load"),
    "unparsed.py": ("def run(x:\n    return x\n", "user_error", "parse"),
    "wrong.py": (RIGHT.replace("0", "1"), "incorrect", "values"),
}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Sums of rows, column by column in the baseline."""
    columns = "total = x[:, 0].clone()\n    for column in range(1, x.shape[1]):\n        total += x[:, column]\n"
    files = {
        "reference.py": "def run(x):\n    return x.sum(-1)\n",
        "baseline.py": f"def run(x):\n    {columns}    return total\n",
        "optimized.py": "def run(x):\n    return x.sum(-1)\n",
    }
    lines = {"inputs": 'x = "float32 [M, N] normal"', "outputs": 'y = "float32 [M]"'}
    case = '[[cases]]\nname = "cpu"\naxes = { M = 256, N = 256 }'
    return write_target(tmp_path / "targets", files, axes="{ M = 256, N = 256 }", cases=case, **lines).folder


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def environment(engine: EngineUnderTest) -> dict[str, str]:
    return {name: value for name, value in (os.environ | engine.environment).items() if value}


def judge(engine: EngineUnderTest, folder: Path, against: Path, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """The exit status, the lines, and what was told beside them."""
    given = [str(folder), "--against", str(against), "--device", "cpu", "--quick", "--json", *words]
    done = aisp("judge", *given, env=environment(engine))
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def runs_of(engine: EngineUnderTest, lines: list[dict[str, Any]]) -> dict[str, int]:
    """By rung of these candidates: in how many runs of the store it is."""
    wanted = {many.rung_of(line["sha256"]): 0 for line in lines if line["sha256"]}
    with engine.history() as history:
        for name in history.targets():
            for run in history.history(name, limit=1000):
                for arm in run.arms:
                    if arm.rung in wanted:
                        wanted[arm.rung] += 1
    return wanted


# -- without an engine -------------------------------------------------------------------------------------------------


def refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> Result:
    isolate(monkeypatch, tmp_path)
    return CliRunner().invoke(cli, ["judge", *words])


def test_what_cannot_be_judged_is_wrong_usage_and_says_what_would_work(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, empty = write(tmp_path / "c", {"one.py": RIGHT}), write(tmp_path / "e", {"notes.txt": "", ".x.py": ""})
    for words, told in (
        ([str(folder), "--sweep", "FIRST=0,1"], "--against TARGET"),
        ([str(folder), "--against", str(target), "--sweep", "FIRST"], "as in BLOCK=64,128"),
        ([str(folder), "--against", str(target), "--sweep", "BLOCK=1"], "there is: FIRST"),
        ([str(folder), "--against", str(target), "--sweep", "FIRST=a"], "'a' is no int"),
        ([str(folder), "--against", str(target), "--sweep", "FIRST=0", "--sweep", "FIRST=1"], "named twice"),
        ([str(folder), "--against", str(target), "--rungs", "optimized"], "candidates are rungs by themselves"),
        ([str(folder), "--against", str(target), "--case", "huge"], "no case"),
        ([str(folder), "--against", "ch07:transpos"], "ch07:transpose"),
        ([str(empty), "--against", str(target)], "holds no candidates"),
    ):
        shown = refused(monkeypatch, tmp_path, *words)
        assert (shown.exit_code, told in shown.output) == (2, True), shown.output


def test_a_candidate_never_takes_the_place_of_what_the_target_has(target: Path, tmp_path: Path) -> None:
    from aisp.kernels import catalog

    (loaded,) = catalog.load([target]).targets
    shared = many.Common.of(loaded)
    for name in ("reference.py", "baseline.py", "inputs.py", "rule.py", "optimized_other.py"):
        folder = write(
            tmp_path / name.removesuffix(".py"), {"candidate.py": RIGHT, name: "def run(x):\n    return x\n"}
        )
        found = many.bring(folder, shared)
        assert f"{name} would take the place" in found.refused and not found.files
    assert many.bring(write(tmp_path / "two", {"a.py": RIGHT, "b.py": RIGHT}), shared).refused
    found = many.bring(write(tmp_path / "good", {"candidate.py": RIGHT, "helper.py": ""}), shared)
    assert (found.name, set(found.files), found.refused) == ("good", {many.ENTRY, "helper.py"}, "")


# -- with the real one -------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_each_candidate_has_an_end_of_its_own_and_none_is_judged_twice(
    shared: EngineUnderTest, target: Path, tmp_path: Path
) -> None:
    folder = write(
        tmp_path / "c", {"right.py": RIGHT, "same.py": RIGHT} | {n: text for n, (text, _, _) in BROKEN.items()}
    )
    write(
        folder / "parts",
        {"candidate.py": "from helper import total as run\n", "helper.py": "def total(x):\n    return x.sum(-1)\n"},
    )
    status, lines, told = judge(shared, folder, target)
    found = {line["candidate"]: line for line in lines}
    assert set(found) == {"right.py", "same.py", "parts", *BROKEN}
    for name, (_, state, stage) in BROKEN.items():
        outcome = found[name]["outcome"]
        assert (outcome["state"], outcome["stage"], found[name]["right"]) == (state, stage, False), outcome
    assert "Error: no" in found["raises.py"]["outcome"]["why"]
    assert found["leaves.py"]["outcome"]["check"]
    for name in ("right.py", "same.py", "parts"):
        outcome = found[name]["outcome"]
        assert (outcome["state"], found[name]["right"], outcome["check"]) == ("ok", True, ""), outcome
        assert outcome["median_ms"] > 0
    assert found["right.py"]["sha256"] == found["same.py"]["sha256"]
    counted = runs_of(shared, lines)
    unrun = [many.rung_of(found[name]["sha256"]) for name in ("nothing.py", "unparsed.py")]
    assert {rung: runs for rung, runs in counted.items() if runs != 1} == dict.fromkeys(unrun, 0)
    # Those of one file are rungs of one run, that of two files is alone.
    run_ids = {
        name: found[name]["outcome"]["run_id"] for name in ("right.py", "wrong.py", "raises.py", "leaves.py", "parts")
    }
    assert len(set(run_ids.values())) == 2 and list(run_ids.values()).count(run_ids["parts"]) == 1
    assert "8 candidates, 7 different" in told
    assert status in (0, 1)  # 1 where a busy machine left the speed-ups undecided
    again, known, _ = judge(shared, folder, target)
    assert again == status and runs_of(shared, known) == counted
    assert {line["candidate"]: line["outcome"] for line in known} == {n: line["outcome"] for n, line in found.items()}
    assert all(line["known"] for line in known if line["outcome"]["run_id"])


# Each hands the right answer back, and leaves other inputs: for the next call, and for whoever shares them.
OVERWRITING = {
    "in_place.py": "def run(x):\n    found = x.sum(-1)\n    x.fill_(42.0)\n    return found\n",
    "through_files.py": """
import contextlib
import mmap
import os

import torch


def run(x):
    found = x.sum(-1)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if "memfd:aisp" in os.readlink(f"/proc/self/fd/{name}"):
                overwrite(int(name))
    return found


def overwrite(file):
    size = max(os.fstat(file).st_size, 1)
    for way in (
        lambda: os.pwrite(file, b"*" * size, 0),
        lambda: torch.UntypedStorage.from_file(f"/proc/self/fd/{file}", shared=True, nbytes=size).fill_(42),
        lambda: mmap.mmap(file, size).write(b"*" * size),
    ):
        with contextlib.suppress(OSError, RuntimeError):
            way()
""",
}


@pytest.mark.slow
async def test_who_overwrites_inputs_ends_alone_and_nothing_wrong_is_kept_of_the_others(
    shared: EngineUnderTest, target: Path, tmp_path: Path
) -> None:
    honest = {f"honest{n}.py": f"{RIGHT}# beside writers {n}\n" for n in range(3)}
    folder = write(tmp_path / "c", OVERWRITING | honest)
    _, lines, _ = judge(shared, folder, target)
    found = {line["candidate"]: line for line in lines}
    assert [name for name in sorted(found) if not found[name]["right"]] == sorted(OVERWRITING)
    for name in honest:
        assert (found[name]["outcome"]["state"], found[name]["outcome"]["check"]) == ("ok", ""), found[name]
    with shared.history() as history:
        record = history.run(found["honest0.py"]["outcome"]["run_id"])
    assert {found[name]["outcome"]["run_id"] for name in OVERWRITING} == {record.id}, "they shared their inputs"
    base = record.arm("baseline")
    assert base is not None and (base.state, base.correctness) == (State.OK, Correctness.CORRECT)
    _, again, _ = judge(shared, folder, target)
    assert {line["candidate"] for line in again if line["right"]} == set(honest)
    assert all(line["known"] for line in again)


@pytest.mark.slow
async def test_a_run_that_ended_while_nobody_listened_is_taken_for_what_it_is(
    shared: EngineUnderTest, target: Path, tmp_path: Path
) -> None:
    """The driver was killed after it had asked the engine, and before it had noted the answer."""
    folder = write(tmp_path / "c", {f"{n}.py": f"{RIGHT}# unheard {n}\n" for n in range(2)})
    _, lines, _ = judge(shared, folder, target)
    counted = runs_of(shared, lines)
    assert list(counted.values()) == [1, 1]
    with sqlite3.connect(Path(shared.environment["AISP_STATE"]) / "candidates.db") as db:
        changed = db.execute(
            "UPDATE candidates SET state = 'leased', owner = 'gone', expires_s = 0, run_id = '', outcome = NULL"
            " WHERE candidate IN (?, ?)",
            [line["sha256"] for line in lines],
        )
        assert changed.rowcount == 2
    db.close()
    _, taken, _ = judge(shared, folder, target)
    assert {line["candidate"]: line["outcome"] for line in taken} == {n["candidate"]: n["outcome"] for n in lines}
    assert runs_of(shared, taken) == counted
    _, anew, _ = judge(shared, folder, target, "--again")
    assert list(runs_of(shared, anew).values()) == [2, 2]


@pytest.mark.evil
async def test_a_driver_that_is_killed_goes_on_where_it_was(
    shared: EngineUnderTest, target: Path, tmp_path: Path
) -> None:
    """Killed when its first run is asked for, and when some candidates have their outcomes."""
    count = 2 * many.GROUP + 1
    folder = write(tmp_path / "c", {f"{n:02}.py": f"{RIGHT}# killed {n}\n" for n in range(count)})
    words = ["judge", str(folder), "--against", str(target), "--device", "cpu", "--quick", "--json"]
    names = {f"{n:02}.py" for n in range(count)}
    with Candidates(Path(shared.environment["AISP_STATE"]) / "candidates.db") as table:

        def ours() -> list[Any]:
            with sqlite3.connect(table.path) as db:
                found = db.execute(
                    "SELECT DISTINCT c.number FROM candidates c JOIN entries e ON e.number = c.number"
                    f" WHERE c.target = '{target.parent.name}:one' AND e.name IN ({','.join('?' * count)})",
                    sorted(names),
                ).fetchall()
            db.close()
            return [table.row(number) for (number,) in found]

        for reached in (
            lambda: any(row.asked_as for row in ours()),
            lambda: any(row.state is CandidateState.DONE for row in ours()),
        ):
            driver = start_aisp(*words, env=environment(shared))
            wait_for(reached, "the driver to be that far")
            driver.send_signal(signal.SIGKILL)
            driver.communicate()
    status, lines, _ = judge(shared, folder, target)
    assert {line["candidate"] for line in lines} == names
    assert [line for line in lines if not line["right"]] == []
    assert set(runs_of(shared, lines).values()) == {1}
    assert status in (0, 1)


@pytest.mark.slow
async def test_the_winner_of_a_sweep_is_judged_anew_by_itself(
    shared: EngineUnderTest, target: Path, tmp_path: Path
) -> None:
    summed = "sum(x[:, at : at + PART].sum(-1) for at in range(0, x.shape[1], PART))"
    text = f"PART = 256\n\n\ndef run(x):\n    return {summed}\n"
    folder = write(tmp_path / "c", {"parts.py": text})
    given = [str(folder / "parts.py"), "--against", str(target), "--sweep", "PART=1,16,256", "--device", "cpu"]
    done = aisp("judge", *given, "--finalists", "1", "--json", env=environment(shared))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    quick = {line["candidate"]: line for line in lines if line["level"] == "quick"}
    assert set(quick) == {f"parts.py PART={part}" for part in (1, 16, 256)}
    full = lines[-1]
    assert full["level"] == "full", json.dumps([line["outcome"] for line in lines])
    with shared.history() as history:
        run = history.run(full["outcome"]["run_id"])
    assert not run.quick and sum(arm.rung.startswith("optimized_k") for arm in run.arms) == 1
    assert full["outcome"]["run_id"] != quick[full["candidate"]]["outcome"]["run_id"]
    assert full["candidate"] != "parts.py PART=1"  # 256 kernels instead of one
    assert f"=> {full['candidate']}" in done.stderr or not full["outcome"]["speedup"]
    assert done.returncode in (0, 1)


@pytest.mark.slow
async def test_answers_to_a_problem_of_others_share_its_baseline(shared: EngineUnderTest, tmp_path: Path) -> None:
    answer, problem = kernelbench.written(tmp_path, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    folder = write(tmp_path / "answers", {"one.py": answer.read_text(), "two.py": answer.read_text() + "# two\n"})
    write(folder, {"none.py": "x = 1\n"})
    _, lines, _ = judge(shared, folder, problem)
    found = {line["candidate"]: line for line in lines}
    assert "ModelNew" in found["none.py"]["outcome"]["why"]
    run_ids = {found[name]["outcome"]["run_id"] for name in ("one.py", "two.py")}
    assert len(run_ids) == 1 and all(found[name]["right"] for name in ("one.py", "two.py"))
    with shared.history() as history:
        files = history.snapshot(history.run(run_ids.pop()).snapshot)
    assert b"one.py" not in files["lesson.md"] and b"12_Of_ours_" in files["lesson.md"]


# -- telling -----------------------------------------------------------------------------------------------------------


def end(name: str, level: Level = Level.QUICK, **found: Any) -> many.Ended:
    outcome = Outcome(**{"state": State.OK, "stage": Stage.QUICK, "rung": "r", "run_id": "01RUN", **found})
    return many.Ended(name, level, outcome, candidate=name)


def times(speedup: float, verdict: Verdict = Verdict.FASTER) -> dict[str, Any]:
    return {"verdict": verdict, "speedup": speedup, "low": speedup * 0.9, "high": speedup * 1.1, "floor": 0.01}


ENDS = [
    end("b.py", **times(2.0)),
    end("a.py", **times(2.1), own_rule="wrong by its own rule", shared=False),
    end("c.py", **times(0.5, Verdict.SLOWER), shared=True),
    end("d\x1b[31m.py", state=State.CRASHED, stage=Stage.LOAD, why="it died of SIGSEGV"),
    many.Ended("e.py", Level.QUICK, None, candidate="e", why="the queue is full"),
    end("a.py", Level.FULL, stage=Stage.FULL, **times(1.8)),
    end("b.py", Level.FULL, stage=Stage.FULL, **times(1.9)),
]


def test_the_table_has_the_best_full_run_first_and_what_has_no_outcome_last() -> None:
    lines = judge_many.table_lines(ENDS, width=None)
    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows[1:]] == ["b.py", "a.py", "c.py", "d␛[31m.py", "e.py"]
    assert rows[1][2:6] == ["full time", "2.00x [1.80..2.20]", "1.90x [1.71..2.09]", "faster"]
    assert rows[4][1:3] == ["crashed", "load"] and rows[5][1] == "given up" and rows[5][-1] == "the queue is full"
    assert all(len(line) <= 80 for line in judge_many.table_lines(ENDS, width=80))


def test_the_last_lines_name_the_winner_and_what_its_lead_is_worth() -> None:
    told = judge_many.summary_lines(ENDS, finalists=2)
    assert told[0] == "5 candidates: 2 faster, 1 slower, 1 crashed, 1 given up"
    assert told[1:3] == ["by the problem's own rule: 1 of 2 as by ours", "a.py: wrong by its own rule"]
    assert told[3] == "=> b.py: 1.90x [1.71..2.09] faster, run 01RUN"
    assert "the fastest of 3 in quick runs showed 2.10x there, and is taken for" in told[4]
    quick = judge_many.summary_lines(ENDS[:3], finalists=0, quick=True)
    assert "=> a.py" in quick[3] and "leave --quick out" in quick[3]
    assert "give --finalists 1 or more to have" in judge_many.summary_lines(ENDS[:3], finalists=0)[3]
    assert judge_many.summary_lines(ENDS[3:4], finalists=0)[-1] == "=> none is right"
    lacking = end("x.py", state=State.UNAVAILABLE, stage=Stage.LOAD, why="it needs a GPU")
    assert judge_many.summary_lines([lacking], finalists=0)[-1] == "=> none could be judged here"
    some = judge_many.summary_lines([lacking, ENDS[3]], finalists=0)[-1]
    assert some == "=> none that could be judged here is right (1 could not)"


def test_the_exit_status_says_whether_one_is_faster_and_whether_all_were_judged() -> None:
    assert judge_many.exit_status(ENDS[:3], full=False) == 0
    assert judge_many.exit_status([ENDS[0], ENDS[6]], full=True) == 0
    assert judge_many.exit_status(ENDS[2:4], full=False) == 1
    assert judge_many.exit_status(ENDS, full=True) == 3
    assert judge_many.exit_status([end("x.py", state=State.UNAVAILABLE, stage=Stage.LOAD)], full=False) == 3


def test_the_documents_keys_are_those_of_the_page() -> None:
    page = (MAIN / "docs/candidates.md").read_text("utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    shown, printed = json.loads(block), as_json(judge_many.ENDS, ENDS[0])
    assert shown.keys() == {"schema", *printed} and shown["outcome"].keys() == printed["outcome"].keys()
    assert as_json(judge_many.ENDS, ENDS[4])["given_up"] == "the queue is full"
