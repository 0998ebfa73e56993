"""`aisp dev expectations` of a GPU: the least speed-up, what was agreed to, and new ranges to agree to; and the page
of two kinds of hardware side by side."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from aisp.kernels import catalog
from aisp.kernels.catalog import expected
from aisp.store.outcomes import Limiter, Timing, Validity
from aisp.store.record import RooflineBound, Run
from aisp.store.results import expected as results
from aisp.tui.cli.tree import cli
from tests.tui.fake_engine import isolate, make_target, remember

MAIN = Path(__file__).parents[2]
H200_RESULTS = MAIN / "docs/results/h200.json"
GPU = "NVIDIA H100 80GB HBM3"
H100: dict[str, object] = {
    "host": "atlas",
    "gpu": GPU,
    "driver": "580.1",
    "cuda": "13.0",
    "versions": {"torch": "2.11.0", "triton": "3.6.0"},
}
SOL = {"light": RooflineBound(measured_ms=0.4, limiter=Limiter.BYTES), "timing": Timing.COLD}


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A collection with one lesson of a GPU."""
    make_target(tmp_path / "mine", "one", on="H100")
    return tmp_path / "mine"


@pytest.fixture
def run(state: Path) -> Callable[..., Run]:
    """Puts a full run of mine:one on an H100 into the store."""

    def remembered(speedup: float = 2.0, target: str = "mine:one", **more: Any) -> Run:
        arms = {"baseline": SOL, "optimized": SOL}
        more = {"device": "cuda", "case": "default", "environment": H100, "arms": arms, **more}
        return remember(state, target, speedup=speedup, **more)

    return remembered


def ask(*words: str, roots: Path | None = None, answers: str = "") -> Result:
    rooted = ["--root", str(roots)] if roots is not None else []
    return CliRunner().invoke(cli, ["dev", "expectations", *words, *rooted], input=answers)


def told(*words: str, roots: Path | None = None) -> Any:
    return json.loads(ask(*words, "--json", roots=roots).stdout)


def agreed(root: Path, name: str = "h100") -> Any:
    return tomllib.loads((root / "expectations" / f"{name}.toml").read_text("utf-8"))


# -- the least speed-up ------------------------------------------------------------------------------------------------


def test_targets_below_a_least_speed_up_are_listed_and_end_with_1(
    tmp_path: Path, mine: Path, run: Callable[..., Run]
) -> None:
    for name in ("slow", "doubted", "never"):
        make_target(mine, name)
    lesson = make_target(mine, "lean") / "lesson.md"
    lesson.write_text(lesson.read_text().replace('"speed"', '"memory"'))
    run(2.0)
    run(1.04, "mine:slow")
    run(0.5, "mine:doubted", validity=Validity.SUSPECT)
    run(0.5, "mine:lean")
    shown = ask("--hardware", "h100", "--min-speedup", "1.05", roots=mine)
    assert shown.exit_code == 1
    assert [line.split("\t")[0] for line in shown.stdout.splitlines() if line.startswith("mine:")] == ["mine:slow"]
    assert "1 of 2 targets below 1.05x on h100; not asked: " in shown.stdout
    assert "1 not about a gain of time" in shown.stdout
    document = told("--hardware", "h100", "--min-speedup", "1.05", roots=mine)
    assert document["below"] == ["mine:slow"]
    assert {one["target"]: one["answer"] for one in document["targets"]} == {
        "mine:one": "met", "mine:slow": "met", "mine:doubted": "doubted", "mine:never": "not run", "mine:lean": "met"
    }  # fmt: skip
    assert ask("--hardware", "h100", "--min-speedup", "1.03", roots=mine).exit_code == 0
    assert ask("one", "--hardware", "h100", "--min-speedup", "1.05", roots=mine).exit_code == 0
    elsewhere = told("one", "--hardware", "h200", "--min-speedup", "5", roots=mine)
    assert [one["answer"] for one in elsewhere["targets"]] == ["on other hardware"]


def test_the_newest_runs_hardware_is_meant_where_none_is_named(mine: Path, run: Callable[..., Run]) -> None:
    nothing = ask("--min-speedup", "1.05", roots=mine)
    assert (nothing.exit_code, "give --hardware NAME" in nothing.stderr) == (3, True)
    run(2.0)
    assert told("--min-speedup", "3", roots=mine)["hardware"] == GPU


# -- agreeing ----------------------------------------------------------------------------------------------------------


def test_a_refresh_shows_what_would_change_and_writes_nothing_unasked(mine: Path, run: Callable[..., Run]) -> None:
    first = run(2.0)
    shown = ask("--refresh", "--hardware", "h100", roots=mine)
    assert shown.exit_code == 1
    assert "nothing was written; --yes agrees to all" in shown.stderr
    assert f'+hardware = "{GPU}"' in shown.stdout.splitlines()
    assert f'+runs = ["{first.id}"]' in shown.stdout.splitlines()
    assert not (mine / "expectations").exists()

    assert ask("--refresh", "--yes", roots=mine).exit_code == 0
    target = agreed(mine)["targets"]["mine:one"]
    assert (target["driver"], target["versions"]) == ("580.1", {"cuda": "13.0", "torch": "2.11.0", "triton": "3.6.0"})
    # 0.495..0.505 ms, and 5 % to either side: the floor of 0.5 % is less than what one sitting stands for
    assert target["rungs"]["optimized"]["ms"] == [0.4714, 0.5303]
    assert target["rungs"]["optimized"]["limiter"] == "bytes"
    assert "speedup" not in target["rungs"]["baseline"]
    again = ask("--refresh", roots=mine)
    assert (again.exit_code, again.stdout, "nothing changes" in again.stderr) == (0, "", True)


def test_a_refresh_is_agreed_to_target_by_target(
    mine: Path, run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True)
    for name in ("two", "three", "four"):
        make_target(mine, name)
    for name in ("one", "two", "three", "four"):
        run(2.0, f"mine:{name}")
    shown = ask("--refresh", roots=mine, answers="n\ny\nq\n")
    assert shown.exit_code == 0
    assert "Agree to mine:four?" in shown.stderr
    assert '+[targets."mine:four"]' in shown.stdout
    assert list(agreed(mine)["targets"]) == ["mine:one"]  # in the order of ids: four no, one yes, three quit
    assert ask("--refresh", roots=mine, answers="a\n").exit_code == 0
    assert len(agreed(mine)["targets"]) == 4
    run(3.0)
    before = (mine / "expectations/h100.toml").read_bytes()
    refused = ask("--refresh", roots=mine, answers="n\n")
    assert (refused.exit_code, "nothing was agreed to" in refused.stderr) == (1, True)
    assert (mine / "expectations/h100.toml").read_bytes() == before


def test_only_named_targets_are_refreshed_and_gone_ones_go_with_a_whole_refresh(
    mine: Path, run: Callable[..., Run]
) -> None:
    make_target(mine, "two")
    run(2.0)
    run(2.0, "mine:two")
    ask("--refresh", "--yes", roots=mine)
    before = agreed(mine)["targets"]
    run(4.0)
    run(4.0, "mine:two")
    ask("--refresh", "two", "--yes", roots=mine)
    after = agreed(mine)["targets"]
    assert after["mine:one"] == before["mine:one"]
    assert after["mine:two"]["rungs"]["optimized"]["speedup"][0] > 3
    for file in (mine / "two").iterdir():
        file.unlink()
    (mine / "two").rmdir()
    gone = ask("--strict", "--hardware", "h100", roots=mine)
    assert "h100.toml: there is no such target (any more): mine:two; " in gone.stderr
    assert told("--refresh", "--yes", roots=mine)["removed"] == ["mine:two"]
    assert list(agreed(mine)["targets"]) == ["mine:one"]


def test_runs_with_the_policy_portable_make_no_ranges_unless_that_is_accepted(
    mine: Path, run: Callable[..., Run], tmp_path: Path
) -> None:
    document = json.loads(H200_RESULTS.read_text("utf-8"))
    for entry in document["targets"]:
        for one in entry["runs"]:
            one["policy"] = "portable"
    file = tmp_path / "portable.json"
    file.write_text(json.dumps(document))
    into = tmp_path / "h200.toml"
    words = ("--refresh", "ch01", "--from", str(file), "--into", str(into), "--yes")
    refused = ask(*words)
    assert (refused.exit_code, into.exists()) == (1, False)
    assert "ch01:batching: its run has the policy portable; --accept-portable takes it" in refused.stderr
    assert ask(*words, "--accept-portable").exit_code == 0
    assert "ch01:batching" in tomllib.loads(into.read_text())["targets"]


def test_quick_doubted_and_other_cases_runs_make_no_ranges(mine: Path, run: Callable[..., Run]) -> None:
    run(2.0, quick=True)
    run(2.0, validity=Validity.SUSPECT)
    run(2.0, case="large")
    shown = ask("--refresh", "--yes", "--hardware", "h100", roots=mine)
    assert (shown.exit_code, (mine / "expectations").exists()) == (1, False)
    assert "no run that counts" in shown.stderr


def test_two_models_are_not_put_into_one_file(mine: Path, run: Callable[..., Run]) -> None:
    run(2.0)
    run(2.0, environment={**H100, "gpu": "NVIDIA H100 PCIe"})
    shown = ask("--refresh", "--yes", "--hardware", "h100", roots=mine)
    assert shown.exit_code == 2
    assert f"h100 means {GPU} and NVIDIA H100 PCIe" in shown.stderr


def test_a_file_of_another_kind_is_never_overwritten(mine: Path, run: Callable[..., Run], tmp_path: Path) -> None:
    run(2.0)
    words = ("--refresh", "--yes", "--into", str(tmp_path / "x.toml"))
    for text in ("no toml", 'schema = 1\nscope = "strict"\nhardware = "NVIDIA B200"\n', "schema = 99\n"):
        (tmp_path / "x.toml").write_text(text)
        shown = ask(*words, roots=mine)
        assert (shown.exit_code, (tmp_path / "x.toml").read_text()) == (2, text)
        assert "--out FILE" in shown.stderr


def test_what_cannot_be_written_or_changed_while_it_was_asked_for_is_left_as_it_is(
    mine: Path, run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(2.0)
    nowhere = ask("--refresh", "--yes", "--into", "/proc/aisp/h100.toml", roots=mine)
    assert (nowhere.exit_code, "cannot be written" in nowhere.stderr) == (3, True)
    ask("--refresh", "--yes", roots=mine)
    file = mine / "expectations/h100.toml"
    theirs = file.read_text() + "# a word of somebody else's\n"

    def edited_meanwhile(*_: object, **__: object) -> str:
        file.write_text(theirs)
        return "y"

    run(4.0)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True)
    monkeypatch.setattr("aisp.tui.cli.agreed.click.prompt", edited_meanwhile)
    refused = ask("--refresh", roots=mine)
    assert (refused.exit_code, "has changed meanwhile; nothing was written" in refused.stderr) == (3, True)
    assert file.read_text() == theirs
    assert [path.name for path in file.parent.iterdir()] == ["h100.toml"]


# -- is it still so ----------------------------------------------------------------------------------------------------


def test_a_machine_of_the_model_is_asked_whether_it_still_is_as_agreed(mine: Path, run: Callable[..., Run]) -> None:
    run(2.0)
    ask("--refresh", "--yes", roots=mine)
    ask("--refresh", "--portable", "--yes", roots=mine)
    words = ("--strict", "--portable", "--hardware", "h100")
    run(2.02, environment={**H100, "host": "bruno"})
    still = ask(*words, roots=mine)
    assert still.exit_code == 0
    assert f"strict on {GPU} (h100.toml), rungs: 2 met" in still.stdout
    assert still.stderr == "", "a folder of expectations is no broken target"

    run(1.2, environment={**H100, "driver": "590.2"})
    slower = ask(*words, roots=mine)
    assert slower.exit_code == 1
    row, portable = (line for line in slower.stdout.splitlines() if line.startswith("mine:one\toptimized"))
    assert "missed below\tspeedup 1.20 [1.18..1.22], 1.37..4.59" in portable
    assert "missed below\tspeedup 1.20 [1.18..1.22], 1.87..2.14; ms 0.833 [0.825..0.842], 0.471..0.530" in row
    assert "mine:one: look at first: driver 580.1 then, 590.2 now" in slower.stdout
    document = told(*words, roots=mine)
    by_scope = {one["scope"]: one["targets"][0] for one in document["files"]}
    assert (by_scope["strict"]["answer"], by_scope["portable"]["answer"]) == ("missed below", "missed below")
    assert by_scope["strict"]["differs"] == [{"what": "driver", "then": "580.1", "now": "590.2"}]

    run(0.5)
    turned = {one["scope"]: one["targets"][0] for one in told(*words, roots=mine)["files"]}
    assert turned["portable"]["order"]["broken"] == [["optimized", "baseline"]]

    run(3.0)
    above = {one["rung"]: one["answer"] for one in told(*words, roots=mine)["files"][0]["targets"][0]["rungs"]}
    assert above == {"baseline": "met", "optimized": "missed above"}


def test_what_was_agreed_to_by_another_timing_method_is_not_comparable(mine: Path, run: Callable[..., Run]) -> None:
    run(2.0)
    ask("--refresh", "--yes", roots=mine)
    run(1.2, manifest={"stop_rule": {"method": 2}})
    shown = ask("--strict", "--hardware", "h100", roots=mine)
    assert shown.exit_code == 1
    assert "not comparable, agreed to by timing method 1, and measured by 2: mine:one" in shown.stdout
    assert "missed" not in shown.stdout
    assert ask("--refresh", "--yes", roots=mine).exit_code == 0
    assert agreed(mine)["targets"]["mine:one"]["versions"]["method"] == "2"
    assert "2 met" in ask("--strict", "--hardware", "h100", roots=mine).stdout


def test_a_run_that_is_doubted_answers_nothing(mine: Path, run: Callable[..., Run]) -> None:
    run(2.0)
    ask("--refresh", "--yes", roots=mine)
    run(1.0, validity=Validity.SUSPECT)
    shown = ask("--strict", "--hardware", "h100", roots=mine)
    assert (shown.exit_code, "rungs: 2 doubted" in shown.stdout) == (0, True)


def test_a_share_of_light_without_measured_ceilings_is_unmeasured_and_no_miss(
    mine: Path, run: Callable[..., Run]
) -> None:
    run(2.0)
    ask("--refresh", "--yes", roots=mine)
    by_sheet = {"light": RooflineBound(spec_ms=0.2, limiter=Limiter.FLOPS), "timing": Timing.COLD, "peak_bytes": 1}
    run(2.0, arms={"baseline": by_sheet, "optimized": by_sheet})
    (rung, _) = told("--strict", "--hardware", "h100", roots=mine)["files"][0]["targets"][0]["rungs"]
    assert {part["what"]: part["answer"] for part in rung["parts"]} == {
        "ms": "met", "sol": "unmeasured", "limiter": "unmeasured"
    }  # fmt: skip
    other = {"light": RooflineBound(measured_ms=0.4, limiter=Limiter.FLOPS), "timing": Timing.COLD}
    run(2.0, arms={"baseline": other, "optimized": other})
    shown = ask("--strict", "--hardware", "h100", roots=mine)
    assert (shown.exit_code, "limiter flops, bytes" in shown.stdout) == (1, True)


def test_a_model_that_no_file_speaks_of_is_told_and_ends_with_1(mine: Path, run: Callable[..., Run]) -> None:
    run(2.0)
    ask("--refresh", "--yes", roots=mine)
    pcie = {**H100, "gpu": "NVIDIA H100 PCIe"}
    run(2.0, environment=pcie)
    other = ask("--strict", "--hardware", "h200", roots=mine)
    assert (other.exit_code, other.stdout) == (1, "")
    assert "no strict file speaks of h200" in other.stderr
    make_target(mine, "fresh")
    assert ask("fresh", "--strict", "--hardware", "h100", roots=mine).exit_code == 1, "nothing was asked"
    # the newest run is another model's: the file's own still answers with its own run
    assert ask("--strict", "--hardware", "h100", roots=mine).exit_code == 0


def test_another_model_of_the_same_name_answers_for_itself_alone(mine: Path, run: Callable[..., Run]) -> None:
    own = run(2.0, environment={**H100, "gpu": "NVIDIA H100 PCIe"})
    ask("--refresh", "--yes", roots=mine)
    assert agreed(mine, "h100_pcie")["hardware"] == "NVIDIA H100 PCIe"
    run(9.0)  # an SXM's, newer
    (target,) = told("--strict", "--hardware", "h100", roots=mine)["files"][0]["targets"]
    assert (target["run_id"], target["answer"]) == (own.id, "met")


def test_stored_runs_with_the_policy_portable_count_where_that_is_accepted(mine: Path, run: Callable[..., Run]) -> None:
    strict, target = run(2.0), catalog.load([mine]).targets[0]
    portable = replace(strict, manifest={"validity": "portable"})
    assert [results.counts(one, target, accept_portable=False) for one in (strict, portable)] == [True, False]
    assert results.counts(portable, target, accept_portable=True)


def test_a_broken_file_is_told_and_the_others_go_on(mine: Path, run: Callable[..., Run]) -> None:
    run(2.0)
    ask("--refresh", "--yes", roots=mine)
    folder = mine / "expectations"
    good = (folder / "h100.toml").read_text()
    (folder / "a.toml").write_text("= no toml")
    (folder / "b.toml").write_text("schema = 2\n")
    (folder / "h100.toml").write_text(
        good.replace("sol = [", "sol = [-", 1) + '\n[targets."mine:bad"]\nrungs = {}\n[targets."mine:one".more]\n'
    )
    shown = ask("--strict", "--hardware", "h100", "one", roots=mine)
    assert (shown.exit_code, "rungs: 2 met" in shown.stdout) == (0, True)
    for words in (
        "a.toml: no TOML",
        "b.toml: schema: 2 is none that this aisp knows; a newer aisp reads it",
        "targets.mine:one.rungs.baseline.sol: [-",
        "targets.mine:bad.case: missing",
        "targets.mine:one.more: an unknown key",
    ):
        assert words in shown.stderr


def test_what_does_not_go_together_is_wrong_usage(mine: Path) -> None:
    for words in (
        ("--yes",),
        ("--into", "x.toml"),
        ("--from", str(H200_RESULTS)),
        ("--refresh", "--strict"),
        ("--strict", "--min-speedup", "2"),
        ("--min-speedup", "0"),
    ):
        assert ask(*words, roots=mine).exit_code == 2, words


# -- what is shipped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["--strict", "--portable"])
def test_the_shipped_ranges_are_what_their_document_makes_of_lessons_that_exist(scope: str) -> None:
    words = ("--refresh", *(["--portable"] if scope == "--portable" else []), "--from", str(H200_RESULTS))
    again = told(*words)
    assert (again["changed"], again["removed"], again["diff"]) == ([], [], ""), "write them anew with --refresh"
    held = told(scope, "--hardware", "h200", "--from", str(H200_RESULTS))
    (file,) = held["files"]
    assert len(file["targets"]) == len(json.loads(H200_RESULTS.read_text("utf-8"))["targets"])
    rungs = [rung for target in file["targets"] for rung in target["rungs"]]
    assert {rung["answer"] for rung in rungs} == {"met"}
    assert len(rungs) > 250


def test_every_shipped_file_reads_without_a_problem() -> None:
    found, problems = expected.load()
    assert problems == []
    assert {one.path.stem for one in found} >= {"h200", "portable"}
    for one in found:
        assert expected.parse(one.path, expected.text(one)) == (one, [])


# -- side by side ------------------------------------------------------------------------------------------------------


def changed(**edits: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The H200's document as if an H100 had been a quarter slower, with an edit to the first run of some targets."""
    document = json.loads(H200_RESULTS.read_text("utf-8"))
    document["on"] = GPU
    for entry in document["targets"]:
        for one in entry["runs"]:
            for rung in one["rungs"]:
                for key in ("median_ms", "low_ms", "high_ms"):
                    rung[key] = rung[key] and rung[key] * 1.25
        if (edit := edits.get(entry["target"].replace(":", "_"))) is not None:
            edit(entry["runs"][0])
    return dict(document)


def beside(file: Path, *words: str) -> Result:
    shown = ["dev", "results", "--from", str(H200_RESULTS), "--beside", str(file), *words]
    return CliRunner().invoke(cli, shown)


def test_two_documents_stand_side_by_side_with_ratio_and_interval(tmp_path: Path) -> None:
    def batch(one: dict[str, Any]) -> None:
        one["rungs"][1]["timing"] = "cold batch"

    document = changed(
        ch01_packed_batch=lambda one: one.update(validity="suspect"),
        ch01_tensor_precision=batch,
        ch02_l2_blocks=lambda one: one.update(case="another"),
    )
    file = tmp_path / "h100.json"
    file.write_text(json.dumps(document))
    shown = beside(file)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "# H200 beside H100"
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    by_rung = {(row[0].strip("`"), row[1], row[2].strip("`")): row for row in rows}
    plain_row = by_rung["ch01:batching", "default", "optimized"]
    # 0.1263 ms [0.1241..0.1285] over 1.25 times that: the widest that both intervals allow
    assert plain_row[5] == "0.800x [0.773..0.828]"
    suspect = by_rung["ch01:packed_batch", "default", "optimized"]
    assert suspect[5:7] == ["not comparable", "validity: valid and suspect"]
    assert by_rung["ch01:tensor_precision", "default", "optimized"][5:7] == [
        "not comparable", "timed as cold and cold batch"
    ]  # fmt: skip
    assert by_rung["ch01:tensor_precision", "default", "baseline"][5].startswith("0.800x")
    assert by_rung["ch02:pinned_gather", "default", "baseline"][5].endswith(", of the hosts too")
    assert "Only H200 has ch02:l2_blocks default." in lines
    assert "Only H100 has ch02:l2_blocks another." in lines
    printed = json.loads(beside(file, "--json").stdout)
    assert printed["geometric_mean"] == pytest.approx(0.8)
    assert (printed["only_a"], printed["only_b"]) == (["ch02:l2_blocks default"], ["ch02:l2_blocks another"])


def test_another_driver_is_not_comparable_and_floors_make_verdicts(tmp_path: Path) -> None:
    document = changed()
    document["versions"]["driver"] = ["590.2"]
    file = tmp_path / "h100.json"
    file.write_text(json.dumps(document))
    refused = beside(file)
    assert refused.exit_code == 1
    assert "not comparable | driver: 580.159.04 and 590.2 |" in refused.stdout

    document["versions"]["driver"] = ["580.159.04"]

    def with_floors(floor: float | None) -> None:
        for rung in (rung for entry in document["targets"] for one in entry["runs"] for rung in one["rungs"]):
            rung["floor"] = floor
        file.write_text(json.dumps(document))

    with_floors(None)
    one_floor = {row["verdict"] for row in json.loads(beside(file, "--json").stdout)["rows"]}
    assert one_floor == {"none"}
    with_floors(0.005)
    same = CliRunner().invoke(cli, ["dev", "results", "--from", str(file), "--beside", str(file), "--json"])
    rows = json.loads(same.stdout)["rows"]
    assert {row["verdict"] for row in rows if row["ratio"]} >= {"same"}
    assert not {row["verdict"] for row in rows} & {"faster", "slower"}


def test_what_is_no_document_cannot_stand_beside_one(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text in ("no json", "[]", '{"targets": [{}]}'):
        file.write_text(text)
        shown = beside(file)
        assert (shown.exit_code, "is no document of `dev results --json`" in shown.stderr) == (2, True)
