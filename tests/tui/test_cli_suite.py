"""`aisp suite`, its list, histories and comparisons, against an engine that stores what it is told to find."""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from aisp.engine.protocol import events, requests
from aisp.kernels import catalog
from aisp.store import new_ulid, suites
from aisp.store.outcomes import State, Verdict
from aisp.store.record import Comparison, Run
from aisp.store.results.progress import all_of
from aisp.store.results.reading import Reading
from aisp.tui.cli import suite_plan, turning
from aisp.tui.cli.follow import Followed
from aisp.tui.cli.tree import cli
from aisp.tui.cli.turning import Turned
from tests import heard
from tests.replacing import replace
from tests.tui.fake_engine import FakeEngine, isolate, make_target, remember

HERE: dict[str, object] = {"host": "one", "cpu": "Xeon", "cores": 8, "versions": {"torch": "2.11.0"}}
SUITE = 'title = "Three of mine"\ntargets = ["mine:one", "mine:three", "mine:two"]\n'
GOOD = "import torch\n\n\ndef run(x):\n    return x + 1\n"
SLOW = "import torch\n\n\ndef run(x):\n    return x + 0.5 + 0.5\n"


class Keeping(FakeEngine):
    """Stores each run as the real one does, ended at once.

    Attributes:
        finds: by target, what `remember` is to store beside the usual.
        wants: by target, how its runs end; others well.
    """

    def __init__(self, state: Path) -> None:
        super().__init__()
        self.state = state
        self.finds: dict[str, dict[str, Any]] = {}
        self.kept: dict[str, Run] = {}

    async def _start_runs(self, request: requests.StartRuns) -> events.Event:
        wanted = [target for target in request.targets if target not in self.not_here]
        for target in wanted:
            record = made(self.state, target, **{"quick": request.quick, **self.finds.get(target, {})})
            self.kept[record.id] = record
            self._runs[record.id] = target
        refused = {target: why for target, why in self.not_here.items() if target in request.targets}
        if not wanted:
            told = ". ".join(f"{target} cannot run here: {why}" for target, why in refused.items())
            return events.Reply(to=request.seq, error=told, refused=refused)
        ids = [run.id for run in list(self.kept.values())[-len(wanted) :]]
        return events.Reply(to=request.seq, run_ids=ids, refused=refused)

    def _play(self, run_id: str, target: str) -> None:
        self._runs.pop(run_id)
        self._broadcast(events.RunFinished(run=self.kept[run_id]))


def made(folder: Path, target: str, *, optimized: str = GOOD, quick: bool = False, **changes: Any) -> Run:
    """A stored run of a target of `root`, whose baseline never changes."""
    sources = {
        "lesson.md": Path(folder.parent / "mine" / target.partition(":")[2] / "lesson.md").read_text("utf-8"),
        "reference.py": GOOD,
        "baseline.py": GOOD,
        "optimized.py": optimized,
    }
    arms = {
        "baseline": {"sources": "b" * 64},
        "optimized": {"sources": ("c" if optimized == GOOD else "d") * 64},
    }
    place = os.fsencode(folder.parent / "mine" / target.partition(":")[2])
    usual = {"folder": place, "sources": sources, "arms": arms, "environment": HERE, "comparison": {"p_value": 0.0005}}
    return remember(folder, target, quick=quick, **{**usual, **changes})


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with three targets and the suite `mine` of them."""
    for name in ("one", "two", "three"):
        make_target(tmp_path / "mine", name)
    (tmp_path / "mine" / "suites").mkdir()
    (tmp_path / "mine" / "suites" / "mine.toml").write_text(SUITE)
    return tmp_path / "mine"


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words])


def measure(root: Path, *words: str, name: str = "mine") -> Result:
    return bench("suite", name, "--root", str(root), *words)


def packages(state: Path, name: str = "mine") -> list[suites.Package]:
    return suites.read_index(state / "suites" / name).here


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch, state: Path) -> dict[str, Verdict]:
    """What old against new comes to in turns, by the folder's name; every one that is asked for is noted in it."""
    says: dict[str, Verdict] = {}

    def turn(collection: str, folders: dict[str, dict[str, bytes]], manner: Any) -> Turned:
        runs = {}
        for name, files in folders.items():
            verdict = says.setdefault(name, Verdict.SLOWER)
            assert (files["baseline.py"].decode(), files["optimized.py"].decode()) == (GOOD, SLOW)
            assert not manner.quick
            figures = (0.75, 0.74, 0.76) if verdict is Verdict.SLOWER else (1.0, 0.999, 1.001)
            run = remember(state, f"{collection}:{name}", speedup=1.0)
            item = Comparison("optimized", "baseline", verdict, *figures, 0.005)
            runs[name] = Reading(replace(run, comparisons=(item,)))
        return Turned(runs, {})

    monkeypatch.setattr(turning, "turn", turn)
    return says


# -- a run of a suite --------------------------------------------------------------------------------------------------


def test_a_first_run_measures_every_target_and_leaves_a_whole_package_and_no_plan(root: Path, state: Path) -> None:
    with Keeping(state) as engine:
        shown = measure(root)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[1].split("\t") == ["mine:one", "faster", "2.00x [1.96..2.04]", "first run", "first run"]
    assert "=> mine: geometric mean 2.00x [1.98..2.02] over 3 targets" in lines
    assert lines[-2] == "=> against earlier runs: 3 run for the first time"
    (asked,) = engine.asked(requests.StartRuns)
    assert (asked.targets, asked.quick, asked.naive) == (["mine:one", "mine:three", "mine:two"], False, False)
    (package,) = packages(state)
    assert lines[-1] == f"   package: {package.folder}"
    assert sorted(path.name for path in package.folder.iterdir()) == [
        "regression.json", "regression.md", "runs.json", "summary.json", "trend.json"
    ]  # fmt: skip
    assert [entry["run_id"] for entry in package.summary["targets"]] == list(engine.kept)
    assert (state / "suites" / "mine" / "over").read_text() == package.id
    assert "[3/3] mine:two: faster 2.00x" in shown.stderr


def test_a_slower_source_is_worse_once_the_turns_confirm_it(
    root: Path, state: Path, turned: dict[str, Verdict]
) -> None:
    made(state, "mine:one")
    made(state, "mine:two")
    with Keeping(state) as engine:
        engine.finds["mine:two"] = {"speedup": 1.5, "optimized": SLOW}
        shown = measure(root)
    assert shown.exit_code == 1, shown.output
    assert list(turned) == ["mine_two_last"]
    rows = {line.split("\t")[0]: line.split("\t")[3:] for line in shown.stdout.splitlines() if "\t" in line}
    assert rows["mine:one"] == ["+0.0 % undecided", "the same run"]
    assert rows["mine:two"] == ["-33.3 % worse, confirmed", "the same run"]
    lines = shown.stdout.splitlines()
    sentence = lines[lines.index("worse") + 1]
    assert sentence.startswith("  mine:two (optimized): 33.3 % slower than on 2 Jan")
    assert sentence.endswith("confirmed in turns: the source of optimized changed")
    assert "=> against earlier runs: 1 worse, 1 undecided, 1 run for the first time" in lines
    assert [entry["target"] for entry in packages(state)[-1].regression["worse"]] == ["mine:two"]


def test_what_is_the_same_in_turns_is_not_worse(root: Path, state: Path, turned: dict[str, Verdict]) -> None:
    made(state, "mine:two")
    turned["mine_two_last"] = Verdict.SAME
    with Keeping(state) as engine:
        engine.finds["mine:two"] = {"speedup": 1.5, "optimized": SLOW}
        shown = measure(root)
    assert shown.exit_code == 0, shown.output
    assert "worse" not in shown.stdout
    assert "=> against earlier runs: 1 same, 2 run for the first time" in shown.stdout


def test_without_turns_a_slower_result_says_that_it_was_not_confirmed(
    root: Path, state: Path, turned: dict[str, Verdict]
) -> None:
    made(state, "mine:two")
    with Keeping(state) as engine:
        engine.finds["mine:two"] = {"speedup": 1.5, "optimized": SLOW}
        shown = measure(root, "--no-turns")
    assert (shown.exit_code, list(turned)) == (1, [])
    assert "-25.0 % worse" not in shown.stdout
    assert "-33.3 % worse\t" in shown.stdout
    assert "not measured in turns; look first: the source of optimized changed" in shown.stdout


def test_sources_that_cannot_be_put_in_turns_are_told_with_the_reason(root: Path, state: Path) -> None:
    made(state, "mine:two", sources={"optimized.py": GOOD})
    with Keeping(state) as engine:
        changed = {"lesson.md": "", "optimized.py": SLOW}  # without a reference there is no task
        engine.finds["mine:two"] = {"speedup": 1.5, "optimized": SLOW, "sources": changed}
        shown = measure(root)
    assert shown.exit_code == 1
    assert "not measured in turns, mine:two: there is no reference.py" in shown.stdout


def test_the_json_is_a_line_a_target_and_the_summary_last(root: Path, state: Path) -> None:
    with Keeping(state):
        shown = measure(root, "--json")
    documents = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [found.get("target") for found in documents] == ["mine:one", "mine:three", "mine:two", None]
    last = documents[-1]
    assert (last["kind"], last["suite"], last["geometric_mean"]["count"]) == ("aisp suite summary", "mine", 3)
    assert last["package"] == str(packages(state)[0].folder)
    assert last["regression"]["counts"]["first"] == 3


def test_quick_suites_are_held_against_quick_runs(root: Path, state: Path) -> None:
    made(state, "mine:one", speedup=4.0)  # a full run
    made(state, "mine:two", quick=True)
    with Keeping(state) as engine:
        shown = measure(root, "--quick")
    assert engine.asked(requests.StartRuns)[0].quick
    rows = {line.split("\t")[0]: line.split("\t")[3] for line in shown.stdout.splitlines() if "\t" in line}
    assert (rows["mine:one"], rows["mine:two"]) == ("first run", "+0.0 % undecided")
    assert "over 3 targets, quick" in shown.stdout


def test_runs_that_cannot_be_compared_are_grouped_by_the_reason(root: Path, state: Path) -> None:
    for name in ("mine:one", "mine:two"):
        made(state, name, environment={**HERE, "versions": {"torch": "2.10.0"}})
    with Keeping(state):
        shown = measure(root)
    assert shown.exit_code == 0
    assert "not comparable, versions.torch: 2.10.0 then, 2.11.0 now: mine:one, mine:two" in shown.stdout


def test_a_target_that_cannot_run_here_is_left_out_and_the_rest_goes_on(root: Path, state: Path) -> None:
    with Keeping(state) as engine:
        engine.not_here["mine:two"] = "needs sm_90"
        shown = measure(root)
        nothing = dict.fromkeys(("mine:one", "mine:two", "mine:three"), "needs sm_90")
        engine.not_here.update(nothing)
        none = measure(root)
    assert shown.exit_code == 0
    assert "left out, needs sm_90: mine:two" in shown.stdout
    ended = [line.split()[0] for line in shown.stderr.splitlines() if line.startswith("[")]
    assert ended == ["[2/3]", "[3/3]"], "of all that were asked for, as the plan counts them"
    assert none.exit_code == 3
    assert "no target of mine could be measured here" in none.stderr
    told = [line for line in none.stderr.splitlines() if "not run" in line]
    assert sorted(told) == sorted(f"aisp: {name}: not run: needs sm_90" for name in nothing)
    assert len(packages(state)) == 1
    assert (state / "suites" / "mine" / "over").exists()


def test_a_wrong_target_ends_with_1_and_its_reason_stands_there(root: Path, state: Path) -> None:
    with Keeping(state) as engine:
        engine.finds["mine:two"] = {"state": State.INCORRECT}
        shown = measure(root)
    assert shown.exit_code == 1
    assert "left out, wrong: as the test wants it: mine:two" in shown.stdout
    assert "over 2 targets" in shown.stdout


def test_a_run_that_breaks_the_contract_is_no_result_of_it_and_the_line_is_named(root: Path, state: Path) -> None:
    contract = 'title = "Mine"\nworkload = ["mine"]\nlayer = "micro"\nvariable = "rung"\nowners = ["me"]\n'
    contract += 'cases = ["cpu"]\n\n[kpi]\nmetric = "speedup"\n'
    (root / "suites" / "mine.contract.toml").write_text(contract)
    (root / "suites" / "mine.toml").write_text(SUITE + 'contract = "mine.contract.toml"\n')
    made(state, "mine:one", case="other", speedup=9.0)
    with Keeping(state) as engine:
        engine.finds["mine:two"] = {"case": "other"}
        shown = measure(root)
    assert shown.exit_code == 1, shown.output
    assert engine.asked(requests.StartRuns)[0].contract.name == "mine"
    line = contract.splitlines().index('cases = ["cpu"]') + 1
    broken = f'left out, no result of contract mine: mine.contract.toml:{line} cases = ["cpu"]: the run has case other'
    assert f"{broken}: mine:two" in shown.stdout
    assert "over 2 targets" in shown.stdout
    assert packages(state)[0].summary["contract"]["name"] == "mine"


def test_a_suite_that_is_not_there_or_names_what_is_gone(root: Path, state: Path) -> None:
    unknown = measure(root, name="mime")
    assert unknown.exit_code == 2
    assert "no suite 'mime'; did you mean mine" in unknown.stderr
    (root / "suites" / "mine.toml").write_text(SUITE.replace("mine:two", "mine:gone"))
    with Keeping(state):
        shown = measure(root)
    assert shown.exit_code == 1
    assert "mine:gone" in shown.stderr
    assert "\nlost\n  mine:gone: no target 'mine:gone'" in shown.stdout
    assert "=> against earlier runs: 2 run for the first time, 1 lost" in shown.stdout
    (root / "suites" / "mine.toml").write_text("title = 3\n")
    assert "the suite mine does not load" in measure(root).stderr


def test_a_target_that_a_group_lost_since_the_last_run_is_told_and_not_green(root: Path, state: Path) -> None:
    (root / "suites" / "mine.toml").write_text('title = "All"\ntargets = ["mine:*"]\n')
    with Keeping(state):
        assert measure(root).exit_code == 0
        shutil.rmtree(root / "two")
        shown = measure(root)
        assert measure(root).exit_code == 0, "it is told once: a group is what is there"
    assert shown.exit_code == 1
    assert "  mine:two: it was in the run of " in shown.stdout
    assert 'write formerly = ["mine:two"] into its lesson.md' in shown.stdout
    assert "1 lost" in shown.stdout
    assert packages(state)[1].summary["changes"]["lost"] == 1
    assert [one["target"] for one in packages(state)[1].regression["lost"]] == ["mine:two"]


def test_a_target_that_was_measured_and_cannot_be_any_more_is_lost_every_night(root: Path, state: Path) -> None:
    with Keeping(state) as engine:
        assert measure(root).exit_code == 0
        engine.not_here = {"mine:two": "needs a GPU; there is none here"}
        for _ in range(2):
            shown = measure(root)
            assert shown.exit_code == 1, shown.output
            assert "1 lost" in shown.stdout
            assert "  mine:two: needs a GPU; there is none here" in shown.stdout


def test_what_never_had_a_figure_here_and_cannot_be_measured_is_not_lost(root: Path, state: Path) -> None:
    with Keeping(state) as engine:
        engine.not_here = {"mine:two": "needs a GPU; there is none here"}
        shown = measure(root)
        assert (shown.exit_code, "lost" in shown.stdout) == (0, False), shown.output


def test_a_target_that_the_suites_choice_leaves_out_now_is_told(root: Path, state: Path) -> None:
    with Keeping(state):
        assert measure(root).exit_code == 0
        file = root / "suites" / "mine.toml"
        file.write_text(file.read_text() + '\n[per."mine:two"]\nlayer = "component"\n\n[only]\nlayer = ["micro"]\n')
        shown = measure(root)
    assert shown.exit_code == 1, shown.output
    assert "the suite's `only` leaves it out now" in shown.stdout


def test_a_target_that_a_group_means_and_that_does_not_load_is_not_green(root: Path, state: Path) -> None:
    (root / "suites" / "mine.toml").write_text('title = "All"\ntargets = ["mine:*"]\n')
    (root / "two" / "lesson.md").write_text("+++\ntitle = 3\n+++\n")
    with Keeping(state):
        for _ in range(2):
            shown = measure(root)
            assert shown.exit_code == 1
            assert "  mine:two: mine:two does not load: " in shown.stdout


def test_a_suite_of_that_name_elsewhere_has_lost_nothing(root: Path, state: Path) -> None:
    (root / "suites" / "mine.toml").write_text('title = "All"\ntargets = ["mine:*"]\n')
    other = root.parent / "elsewhere" / "mine"
    other.parent.mkdir()
    shutil.copytree(root, other)
    shutil.rmtree(other / "two")
    with Keeping(state):
        assert measure(root).exit_code == 0
        assert measure(other).exit_code == 0


@pytest.mark.parametrize("words", ['["mine:*"]', '["mine:one", "mine:three", "mine:two"]'])
def test_a_renamed_target_that_says_so_keeps_its_place_and_its_history(root: Path, state: Path, words: str) -> None:
    (root / "suites" / "mine.toml").write_text(f'title = "All"\ntargets = {words}\n')
    with Keeping(state):
        measure(root)
        (root / "two").rename(root / "second")
        lesson = root / "second" / "lesson.md"
        lesson.write_text(lesson.read_text().replace("+++\n", '+++\nformerly = ["mine:two"]\n', 1))
        shown = measure(root)
    assert (shown.exit_code, shown.stderr.count("warning")) == (0, 0), shown.output
    assert "=> against earlier runs: 3 undecided" in shown.stdout
    (found,) = [one for one in packages(state)[1].regression["undecided"] if one["target"] == "mine:second"]
    assert found["last"]["run_id"] == packages(state)[0].summary["targets"][-1]["run_id"]


def test_a_package_goes_where_it_is_wanted(root: Path, state: Path, tmp_path: Path) -> None:
    with Keeping(state):
        shown = measure(root, "--into", str(tmp_path / "ci"))
    assert shown.exit_code == 0
    (package,) = suites.read_index(tmp_path / "ci" / "mine").here
    assert (tmp_path / "ci" / "mine" / "index.json").exists()
    assert package.summary["suite"] == "mine"
    assert packages(state) == []


def test_two_processes_do_not_measure_one_suite_at_once(root: Path, state: Path) -> None:
    with Keeping(state) as engine, suite_plan.held("mine"):
        shown = measure(root)
        assert engine.asked(requests.StartRuns) == []
    assert shown.exit_code == 3
    assert "suite mine is being measured already by process" in shown.stderr


def batch_of(request: requests.StartRuns, **changes: str) -> dict[str, Any]:
    """The manifest of a run that was planned for this request; `changes` of its batch."""
    assert request.batch is not None
    return {"batch": msgspec.structs.asdict(request.batch) | changes}


def test_an_unfinished_run_of_other_work_is_given_up(root: Path, state: Path) -> None:
    assert "there is no unfinished run of mine to go on" in measure(root, "--resume").stderr
    batch = {"id": new_ulid(), "suite": "mine", "sha256": "other"}
    made(state, "mine:one", manifest={"batch": batch})
    assert "there is no unfinished run of mine of the same targets and options" in measure(root, "--resume").stderr
    with Keeping(state):
        shown = measure(root)
    assert shown.exit_code == 0
    assert "is given up; what it measured stays in the store" in shown.stderr
    assert (state / "suites" / "mine" / "over").read_text() == packages(state)[0].id > batch["id"]
    assert "there is no unfinished run of mine to go on" in measure(root, "--resume").stderr


def sources(folder: Path) -> dict[str, str]:
    files = catalog.read_sources(catalog.load([folder.parent]).find(folder.name))
    return {name: data.decode() for name, data in files.items()}


@pytest.mark.parametrize(
    ("changes", "batch", "counts"),
    [
        ({}, {}, True),
        ({"state": State.CANCELLED}, {}, False),
        ({"sources": {"optimized.py": SLOW}}, {}, False),
        ({}, {"sha256": "other"}, False),
    ],
)
def test_a_run_of_a_suite_that_was_killed_goes_on_with_the_runs_of_its_batch(
    root: Path, state: Path, changes: dict[str, Any], batch: dict[str, str], counts: bool
) -> None:
    with Keeping(state) as engine:
        measure(root)
        (asked,) = engine.asked(requests.StartRuns)
        (state / "suites" / "mine" / "over").unlink()  # as if it had been killed before its package was written
        shutil.rmtree(packages(state)[0].folder)
        kept = {"sources": sources(root / "two"), "manifest": batch_of(asked, **batch)}
        done = made(state, "mine:two", **{**kept, **changes})
        assert "of the same targets and options" in measure(root, "--resume", "--quick").stderr
        shown = measure(root)
        again = engine.asked(requests.StartRuns)[1]
        anew = measure(root, "--again")
    assert (shown.exit_code, anew.exit_code) == (0, 0), shown.output
    assert ("going on with the run of" in shown.stderr) is counts
    assert again.targets == ["mine:one", "mine:three"] + ["mine:two"] * (not counts)
    first, second = packages(state)
    assert (first.id == asked.batch.id) is (batch == {})
    assert (first.summary["targets"][2]["run_id"] == done.id) is counts
    assert second.id > first.id


def test_run_tier1_is_the_suite_of_that_name(root: Path, state: Path) -> None:
    (root / "suites" / "tier1.toml").write_text(SUITE)
    with Keeping(state):
        shown = bench("suite", "tier1", "--root", str(root))
    assert shown.exit_code == 0
    assert "=> tier1: geometric mean 2.00x" in shown.stdout


def test_what_is_left_of_a_suite_is_learned_from_earlier_runs_and_from_those_that_ended() -> None:
    now_ns = 100 * 10**9
    runs = [Followed(heard.planned(run_id=f"R{i}", rungs=["baseline"]).run) for i in range(4)]
    assert all_of(runs, 0.0, now_ns) == (0.0, None)
    runs[0].record = replace(runs[0].record, state=State.CRASHED, reason="it fell", duration_ms=20_000.0)
    runs[1].pace.expected_s = 40.0
    runs[1].record = replace(runs[1].record, state=State.RUNNING, start_ns=now_ns - 10 * 10**9)
    share, left_s = all_of(runs, 30.0, now_ns)
    assert left_s == pytest.approx(30.0 + 30.0 + 30.0)  # what is left of the one, and the mean of 40 and 20 s twice
    assert share == pytest.approx(30.0 / 120.0)


# -- list, history, compare --------------------------------------------------------------------------------------------


def test_suites_are_listed_with_their_targets_and_last_run(root: Path, state: Path) -> None:
    with Keeping(state):
        measure(root)
    rows = [line.split("\t") for line in bench("suite", "--root", str(root)).stdout.splitlines()]
    mine = next(row for row in rows if row[0] == "mine")
    assert (mine[1], mine[2], mine[4], mine[5]) == ("3", "full", "0", "Three of mine")
    assert next(row for row in rows if row[0] == "smoke")[2:4] == ["quick", "never"]
    found = {one["name"]: one for one in json.loads(bench("suite", "--json").stdout)["suites"]}
    assert len(found["tier1"]["targets"]) == 6
    assert found["tier1"]["last"] is None


def test_the_history_shows_what_can_be_read_and_tells_the_rest(root: Path, state: Path) -> None:
    with Keeping(state):
        for _ in range(3):
            measure(root)
    one, two, three = packages(state)
    (one.folder / "summary.json").write_text('{"kind": ')
    newer = two.folder / "summary.json"
    newer.write_text(json.dumps({**two.summary, "schema": 99}))
    other = three.folder.with_name("01ZZZZZZZZZZZZZZZZZZZZZZZZ")
    shutil.copytree(three.folder, other)
    for name in ("summary.json", "regression.json"):
        document = json.loads((other / name).read_text())
        machine = {**document["machine"], "host": "another"}
        (other / name).write_text(json.dumps({**document, "id": other.name, "machine": machine}))
    shown = bench("suite", "--history", "mine", "--root", str(root))
    assert shown.exit_code == 0, shown.output
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert [row[-1] for row in rows[1:]] == [three.id]
    assert "summary.json is no whole JSON document" in shown.stderr
    assert "a newer aisp wrote it" in shown.stderr
    assert "from another machine (host: another)" in shown.stderr
    document = json.loads(bench("suite", "--history", "mine", "--root", str(root), "--json").stdout)
    assert ([run["id"] for run in document["runs"]], len(document["told"])) == ([three.id], 3)
    assert bench("suite", "--history", "mime", "--root", str(root)).exit_code == 2
    assert bench("suite", "--history", "smoke").exit_code == 1


def test_two_runs_of_suites_are_compared_rung_by_rung(root: Path, state: Path) -> None:
    with Keeping(state) as engine:
        measure(root)
        engine.finds["mine:one"] = {"speedup": 4.0}
        engine.finds["mine:three"] = {"quick": True}
        engine.finds["mine:two"] = {"environment": {**HERE, "driver": "590"}}
        measure(root)
    a, b = packages(state)
    shown = bench("suite", "--compare", a.id, str(b.folder))
    assert shown.exit_code == 0, shown.output
    rows = [line.split("\t") for line in shown.stdout.splitlines() if line.startswith("mine:")]
    times = ["0.5000 [0.4950..0.5050]", "0.2500 [0.2475..0.2525]"]
    assert rows == [["mine:one", "optimized", *times, "2.00x [1.96..2.04], of the hosts too"]]
    assert "not comparable, driver: unknown and 590: mine:two" in shown.stdout
    assert "=> B is 2.00x [1.96..2.04] as fast as A: the geometric mean over 1 target" in shown.stdout
    found = json.loads(bench("suite", "--compare", a.id, b.id, "--json").stdout)
    assert (found["count"], found["geometric_mean"]) == (1, pytest.approx(2.0))
    assert {one["target"]: one["reason"] for one in found["targets"]}["mine:two"] == "driver: unknown and 590"


def test_what_is_no_package_is_told(root: Path, state: Path, tmp_path: Path) -> None:
    with Keeping(state):
        measure(root)
    (package,) = packages(state)
    assert bench("suite", "--compare", package.id, "01NOPE").exit_code == 2
    (package.folder / "regression.json").unlink()
    broken = bench("suite", "--compare", package.id, package.id)
    assert broken.exit_code == 3
    assert "half written: regression.json is missing" in broken.stderr
    assert bench("suite", "--compare", str(tmp_path), package.id).exit_code == 3


def test_the_words_behind_the_old_suite_are_its_commands_or_targets(root: Path, state: Path) -> None:
    made(state, "mine:one")
    assert "geometric mean 2.00x" in bench("score", "mine").stdout
    assert "geometric mean 2.00x" in bench("score", "--on", "Xeon").stdout
    assert "Every lesson" in bench("suite").stdout


def test_a_full_disk_leaves_what_was_noted_of_the_run_that_is_over(state: Path) -> None:
    how = requests.StartRuns(seq=0, targets=[])
    first, second = (suite_plan.Plan(new_ulid(), suite_plan.Asked("mine", (), "", how)) for _ in range(2))
    first.drop()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # no file may grow
    try:
        with pytest.raises(OSError, match="too large"):
            second.drop()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (state / "suites" / "mine").iterdir()] == ["over"]
    assert (state / "suites" / "mine" / "over").read_text() == first.id
    second.drop()
    assert (state / "suites" / "mine" / "over").read_text() == second.id
