"""`aisp history | compare | expectations` and `aisp store` over a real store."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aisp.store import upkeep
from aisp.store.migrations import LATEST
from aisp.store.outcomes import Limiter, State, Timing, Validity, Verdict
from aisp.store.record import Quality, RooflineBound
from aisp.store.results.comparison import EQUIVALENCE, judge
from aisp.tui.cli.tree import cli
from tests.store.forged import rewrite
from tests.tui.fake_engine import isolate, make_target, remember

SCHEMAS = Path(__file__).parents[1] / "store"

H100: dict[str, object] = {"host": "atlas", "gpu": "NVIDIA H100 80GB HBM3", "gpu_uuid": "GPU-1", "driver": "580.1"}
LAPTOP: dict[str, object] = {"host": "ada", "gpu": "", "cpu": "a CPU"}


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words])


def test_history_lists_a_targets_runs_newest_first(state: Path) -> None:
    old = remember(state, "mine:one", speedup=2.0)
    new = remember(state, "mine:one", state=State.INCORRECT)
    remember(state, "mine:two")
    shown = bench("history", "mine:one")
    assert shown.exit_code == 0
    _, first, second = shown.stdout.splitlines()
    assert new.id in first
    assert "wrong" in first
    assert first.split()[-3:] == ["-", "-", "-"]
    assert old.id in second
    assert second.split()[-6:] == ["faster", "optimized", "0.5000", "[0.4950..0.5050]", "2.00x", "[1.96..2.04]"]
    told = json.loads(bench("history", "mine:one", "--json").stdout)["runs"]
    assert [run["run_id"] for run in told] == [new.id, old.id]
    assert told[1]["comparisons"][0]["speedup"] == 2.0
    assert told[0]["reason"] == "as the test wants it"


def test_history_of_everything_names_the_targets_and_keeps_to_the_limit(state: Path) -> None:
    for name in ("mine:one", "mine:two", "mine:three"):
        remember(state, name)
    lines = bench("history", "--limit", "2").stdout.splitlines()
    assert len(lines) == 3
    assert "mine:three" in lines[1]
    assert "mine:two" in lines[2]


def test_history_of_a_target_that_never_ran_ends_with_1() -> None:
    shown = bench("history", "ch01:batching")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "no run of ch01:batching is stored yet" in shown.stderr
    assert json.loads(bench("history", "ch01:batching", "--json").stdout)["runs"] == []


def test_history_takes_a_name_a_chapter_and_a_glob(state: Path, tmp_path: Path) -> None:
    one = remember(state, "mine:one").id
    two = remember(state, "mine:two").id
    make_target(tmp_path / "yours", "three")

    def ids(*words: str) -> set[str]:
        return {run["run_id"] for run in json.loads(bench("history", *words, "--json").stdout)["runs"]}

    assert ids("one") == {one}
    assert ids("mine") == ids("mine:*") == {one, two}
    assert ids("mine", "--limit", "1") < {one, two}
    never = bench("history", "three", "--root", str(tmp_path / "yours"))
    assert (never.exit_code, never.stdout) == (1, "")
    typed = f"aisp run yours:three --root {tmp_path / 'yours'}"
    assert f"no run of yours:three is stored yet; `{typed}` makes one" in never.stderr
    chapter = bench("history", "ch01")
    assert (chapter.exit_code, "no run of ch01 is stored yet" in chapter.stderr) == (1, True)
    unknown = bench("history", "batchin")
    assert unknown.exit_code == 2
    assert "no target 'batchin'; did you mean ch01:batching" in unknown.stderr


def test_history_knows_a_target_under_the_names_of_before_its_folder_was_renamed(state: Path, tmp_path: Path) -> None:
    folder = make_target(tmp_path / "mine", "two")
    old = remember(state, "mine:two", folder=os.fsencode(folder)).id
    folder = folder.rename(folder.with_name("second"))
    lesson = folder / "lesson.md"
    lesson.write_text(lesson.read_text().replace("+++\n", '+++\nformerly = ["mine:two"]\n', 1))
    root = ["--root", str(tmp_path / "mine")]

    def ids(*words: str) -> list[str]:
        return [run["run_id"] for run in json.loads(bench("history", *words, "--json").stdout)["runs"]]

    assert ids("second", *root) == ids("mine:two", *root) == ids(str(folder)) == [old]
    (listed,) = json.loads(bench("list", *root, "--json").stdout)["targets"]
    assert (listed["id"], listed["last"]["run_id"]) == ("mine:second", old), "its results go on standing in the list"
    new = remember(state, "mine:second", folder=os.fsencode(folder)).id
    for words in (["second"], ["mine:two", *root], ["mine"], [f"{folder}/"]):
        assert ids(*words) == [new, old], words
    assert [line.split()[3] for line in bench("history", "second").stdout.splitlines()[1:]] == [
        "mine:second",
        "mine:two",
    ]


def test_history_of_a_run_shows_it_whole(state: Path) -> None:
    arms = {
        "baseline": {"timing": Timing.COLD, "sm_clock_mhz": 1980.0},
        "optimized": {
            "timing": Timing.COLD_GRAPH,
            "calls": 16,
            "sm_clock_mhz": 1755.0,
            "light": RooflineBound(spec_ms=0.2, clock_ms=0.21, measured_ms=0.248, limiter=Limiter.BYTES, score=0.784),
            "quality": Quality(drift=0.004, autocorrelation=0.2, resolution_ms=3.2e-5, overhead_ms=1.28e-3),
        },
    }
    comparison = {"cycles": 2.25, "cycles_low": 2.2, "cycles_high": 2.3, "p_value": 0.0004}
    run = remember(state, "mine:one", device="cuda", environment=H100, arms=arms, comparison=comparison)
    shown = bench("history", run.id[:20])
    assert shown.exit_code == 0
    cells = [re.split(r"\s{2,}", line.strip()) for line in shown.stdout.splitlines()]
    assert ["optimized", "cold graph x16", "1755", "bytes", "0.2000", "0.2100", "0.2480", "0.78"] in cells
    assert ["optimized", "20", "0.4 %", "0.20", "-", "-", "0.0320 µs", "1.28 µs"] in cells
    assert [
        "optimized", "baseline", "2.00x [1.96..2.04]", "2.25x [2.20..2.30]", "-", "0.50 %", "0.0004", "faster"
    ] in cells  # fmt: skip
    assert ["gpu", "NVIDIA H100 80GB HBM3"] in cells
    told = json.loads(bench("history", run.id, "--json").stdout)
    assert (told["run_id"], told["environment"]["gpu_uuid"], told["manifest"]) == (run.id, "GPU-1", {})
    assert told.pop("commitment_kept") is None
    optimized = next(arm for arm in told["arms"] if arm["rung"] == "optimized")
    assert (optimized["calls"], optimized["light"]["limiter"], optimized["quality"]["drift"]) == (16, "bytes", 0.004)
    assert told["comparisons"][0]["cycles_high"] == 2.3
    (listed,) = json.loads(bench("history", "mine:one", "--json").stdout)["runs"]
    assert listed == {**told, "environment": run.environment}


def test_history_of_a_run_that_is_not_there_is_wrong_usage(state: Path) -> None:
    remember(state, "mine:one", run_id="01AAAAAAAAAAAAAAAAAAAAAAAA")
    shown = bench("history", "01C")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "no run '01C'" in shown.stderr


def test_compare_goes_by_the_clocks_during_the_samples_before_the_drivers(state: Path) -> None:
    alike: dict[str, Any] = {"device": "cuda", "environment": H100, "sm_clock_mhz": 1980.0}
    slow = {rung: {"sm_clock_mhz": 1575.0} for rung in ("baseline", "optimized")}
    a = remember(state, "mine:one", **alike)
    b = remember(state, "mine:one", **alike, arms=slow)
    found = json.loads(bench("compare", a.id, b.id, "--json").stdout)
    assert (found["a"]["sm_clock_mhz"], found["b"]["sm_clock_mhz"], found["comparable"]) == (1980.0, 1575.0, False)


def test_compare_puts_two_like_runs_side_by_side_with_a_verdict(state: Path) -> None:
    a = remember(state, "mine:one", speedup=2.0, environment=LAPTOP)
    b = remember(state, "mine:one", speedup=4.0, environment={**LAPTOP, "git": "abc"})
    shown = bench("compare", a.id, b.id)
    assert shown.exit_code == 0
    heads, *rows = [re.split(r"\s{2,}", line) for line in shown.stdout.splitlines() if "[" in line]
    assert heads == ["rung", "A ms [low..high]", "B ms [low..high]", "B is", "verdict", "why"]
    optimized = next(row for row in rows if row[0] == "optimized")
    assert optimized[1:] == [
        "0.5000 [0.4950..0.5050]", "0.2500 [0.2475..0.2525]", "2.00x as fast as A [1.96..2.04]", "faster"
    ]  # fmt: skip
    assert "git" in shown.stdout
    assert "quick" not in shown.stdout
    told = json.loads(bench("compare", b.id, a.id, "--json").stdout)
    assert told["comparable"] is True
    optimized = next(row for row in told["rungs"] if row["rung"] == "optimized")
    assert (optimized["verdict"], optimized["speedup"]) == ("slower", 0.5)
    baseline = next(row for row in told["rungs"] if row["rung"] == "baseline")
    assert baseline["verdict"] == "undecided"
    assert told["differences"] == [{"what": "git", "a": "abc", "b": "-", "refuses": False}]


def test_compare_takes_a_target_for_its_last_result_and_one_alone_for_its_last_two(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    place = {"folder": os.fsencode(tmp_path / "mine" / "one"), "environment": LAPTOP}
    only = bench("compare", str(tmp_path / "mine" / "one"))
    assert (only.exit_code, "no result of mine:one is stored; `aisp run " in only.stderr) == (2, True)
    old, before, last = (remember(state, "mine:one", speedup=speedup, **place) for speedup in (2.0, 3.0, 4.0))
    remember(state, "mine:one", state=State.CANCELLED, **place)
    for words, (a, b) in {
        ("one",): (before, last),
        (str(tmp_path / "mine" / "one"),): (before, last),
        (old.id, "mine:one"): (old, last),
        (str(tmp_path / "mine" / "one"), old.id): (last, old),
    }.items():
        told = json.loads(bench("compare", *words, "--json").stdout)
        assert (told["a"]["run_id"], told["b"]["run_id"]) == (a.id, b.id), words
    alone = bench("compare", old.id)
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert f"{old.id} is one run; name another one beside it, or a TARGET" in alone.stderr


def test_compare_takes_two_quick_runs_and_says_what_they_cannot_show(state: Path) -> None:
    a, b = (remember(state, "mine:one", speedup=speedup, environment=LAPTOP, quick=True) for speedup in (2.0, 4.0))
    shown = bench("compare", a.id, b.id)
    assert shown.exit_code == 0
    assert "mode" not in shown.stdout
    assert re.search(r"2\.00x as fast as A \[1\.96\.\.2\.04\] +faster", shown.stdout)
    assert "=> both runs were quick: few processes each show little of how processes differ; compare two full runs" in (
        shown.stdout
    )
    told = json.loads(bench("compare", a.id, b.id, "--json").stdout)
    assert (told["comparable"], told["differences"], told["a"]["quick"], told["b"]["quick"]) == (True, [], True, True)


@pytest.mark.parametrize("turned", [False, True])
def test_compare_tells_of_both_runs_in_what_they_differ(state: Path, turned: bool) -> None:
    quick = remember(state, "mine:one", environment=LAPTOP, quick=True)
    wrong = remember(state, "mine:one", environment=LAPTOP, state=State.INCORRECT)
    pair = (wrong.id, quick.id) if turned else (quick.id, wrong.id)
    shown = bench("compare", *pair)
    assert shown.exit_code == 1
    cells = [re.split(r"\s{2,}", line.strip()) for line in shown.stdout.splitlines()]
    for what, *told in (("mode", "quick", "full run"), ("outcome", "ok", "incorrect")):
        assert [what, *(told[::-1] if turned else told), "no verdict because of it"] in cells


def test_compare_fits_a_terminal_of_80_columns(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (remember(state, "mine:one", speedup=speedup, environment=LAPTOP) for speedup in (2.0, 4.0))
    monkeypatch.setattr("aisp.tui.cli.common.terminal_width", lambda: 80)
    shown = bench("compare", a.id, b.id)
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert re.search(r" 0\.5000 +0\.2500 +2\.00x as fast as A \[1\.96\.\.2\.04\] +faster", shown.stdout)


def test_compare_takes_the_beginning_of_an_id_and_names_near_ones(state: Path) -> None:
    a = remember(state, "mine:one", run_id="01AAAAAAAAAAAAAAAAAAAAAAAA", environment=LAPTOP)
    remember(state, "mine:one", run_id="01BBBBBBBBBBBBBBBBBBBBBBBB", environment=LAPTOP)
    assert bench("compare", "01A", "01b").exit_code == 0
    shown = bench("compare", a.id, "01C")
    assert shown.exit_code == 2
    assert "no run '01C'" in shown.stderr


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"environment": {**H100, "host": "other"}}, "host"),
        ({"environment": {**H100, "gpu_uuid": "GPU-2"}}, "gpu_uuid"),
        ({"environment": {**H100, "driver": "999"}}, "driver"),
        ({"environment": None}, "machine"),
        ({"sm_clock_mhz": 1500.0}, "SM clock"),
        ({"sm_clock_mhz": None}, "SM clock"),
        ({"flags": ("clocks=locked",)}, "clocks"),
        ({"device": "cpu"}, "device"),
        ({"case": "large"}, "case"),
        ({"quick": True}, "mode"),
        ({"quick": True, "validity": Validity.SUSPECT}, "validity"),
        ({"state": State.INCORRECT}, "outcome"),
        ({"validity": Validity.SUSPECT}, "validity"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_compare_refuses_a_verdict_where_the_runs_are_not_alike(
    state: Path, change: dict[str, object], what: str
) -> None:
    alike: dict[str, object] = {
        "device": "cuda", "environment": H100, "sm_clock_mhz": 1980.0, "flags": ("clocks=unlocked",)
    }  # fmt: skip
    a = remember(state, "mine:one", speedup=2.0, **alike)  # type: ignore[arg-type]
    same = remember(state, "mine:one", speedup=4.0, **alike)  # type: ignore[arg-type]
    b = remember(state, "mine:one", speedup=4.0, **{**alike, **change})  # type: ignore[arg-type]
    assert bench("compare", a.id, same.id).exit_code == 0
    shown = bench("compare", a.id, b.id)
    assert shown.exit_code == 1
    assert f"\n=> not comparable: {'GPU' if what == 'gpu' else what}: " in shown.stdout
    told = json.loads(bench("compare", a.id, b.id, "--json").stdout)
    assert told["comparable"] is False
    assert what in [difference["what"] for difference in told["differences"] if difference["refuses"]]
    assert {(row["verdict"], row["speedup"], row["high"], row["cycles"]) for row in told["rungs"]} == {
        ("none", None, None, None)
    }


@pytest.mark.parametrize(
    ("there", "first"),
    [
        (
            {"gpu": "NVIDIA H200", "driver": "590.2", "gpu_uuid": "GPU-2", "host": "far"},
            "GPU: NVIDIA H100 80GB HBM3 and NVIDIA H200, and 3 more differences",
        ),
        ({"driver": "590.2"}, f"driver: {H100['driver']} and 590.2"),
    ],
)
def test_compare_of_two_machines_says_what_to_look_at_first_and_shows_no_ratio_as_a_verdict(
    state: Path, monkeypatch: pytest.MonkeyPatch, there: dict[str, object], first: str
) -> None:
    alike: dict[str, Any] = {"device": "cuda", "sm_clock_mhz": 1980.0}
    a = remember(state, "mine:one", speedup=2.0, environment=H100, **alike)
    b = remember(state, "mine:one", speedup=4.0, environment={**H100, **there}, **alike)
    shown = bench("compare", a.id, b.id)
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (1, f"=> not comparable: {first}")
    assert re.search(r"\boptimized .* \? 2\.00x as fast as A \[1\.96\.\.2\.04\] +-", shown.stdout)
    assert re.findall(r"(\S+) \S+x as fast as A", shown.stdout) == ["?", "?"]
    told = json.loads(bench("compare", a.id, b.id, "--json").stdout)
    assert (told["comparable"], told["conclusion"]) == (False, f"not comparable: {first}")
    assert [row["a"]["median_ms"] for row in told["rungs"]] == [1.0, 0.5], "the times are what they are"
    assert {row["speedup"] for row in told["rungs"]} == {None}
    monkeypatch.setattr("aisp.tui.cli.common.terminal_width", lambda: 60)
    assert max(map(len, bench("compare", a.id, b.id).stdout.splitlines()[-2:])) <= 60


@pytest.mark.parametrize(
    ("low", "high", "floor", "verdict"),
    [
        (1.02, 1.10, 0.01, Verdict.FASTER),
        (1.005, 1.10, 0.01, Verdict.UNDECIDED),
        (0.90, 0.98, 0.01, Verdict.SLOWER),
        (0.995, 1.005, 0.01, Verdict.SAME),
        (0.98, 1.005, 0.01, Verdict.UNDECIDED),
        (0.372, 1.67, 9.0, Verdict.UNDECIDED),
        (0.99, 1.01, EQUIVALENCE, Verdict.SAME),
        (0.99, 1.01, EQUIVALENCE + 0.001, Verdict.UNDECIDED),
        (1.5, 1.6, None, Verdict.UNDECIDED),
        (None, 1.6, 0.01, Verdict.UNDECIDED),
    ],
)
def test_a_verdict_needs_an_interval_that_clears_the_floor(
    low: float | None, high: float | None, floor: float | None, verdict: Verdict
) -> None:
    assert judge(low, high, floor)[0] is verdict


def test_expectations_put_the_prediction_beside_the_newest_run_on_that_hardware(tmp_path: Path, state: Path) -> None:
    for name in ("met", "missed", "elsewhere", "beside", "unmeasured"):
        make_target(tmp_path / "mine", name, on="H100")
    remember(state, "mine:beside", speedup=2.0, device="cpu", environment={**H100, "cpu": "a CPU"})
    remember(state, "mine:met", speedup=2.0, device="cuda", environment=H100)
    remember(state, "mine:met", speedup=1.1, environment=LAPTOP)  # newer, and says nothing about an H100
    remember(state, "mine:met", speedup=1.1, device="cuda", case="large", environment=H100)  # nor of this case
    remember(state, "mine:missed", speedup=2.0, device="cuda", environment=H100)
    remember(state, "mine:missed", speedup=1.2, device="cuda", environment=H100)
    remember(state, "mine:elsewhere", speedup=2.0, environment=LAPTOP)
    shown = bench("dev", "expectations", "--root", str(tmp_path / "mine"))
    assert shown.exit_code == 1
    rows = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert rows["mine:met"].endswith("\tmet")
    assert "1.50x..3.00x on H100" in rows["mine:met"]
    assert rows["mine:missed"].endswith("\tmissed")
    assert "1.20x" in rows["mine:missed"]
    assert rows["mine:elsewhere"].endswith("a CPU\t-")
    assert rows["mine:beside"].endswith("a CPU\t-"), "on the CPU of a machine that has such a GPU"
    assert rows["mine:unmeasured"].split()[-3:] == ["-", "-", "-"]
    told = {
        item["target"]: item
        for item in json.loads(bench("dev", "expectations", "--root", str(tmp_path / "mine"), "--json").stdout)[
            "targets"
        ]
    }
    assert {name: item["met"] for name, item in told.items()} == {
        "mine:met": True, "mine:missed": False, "mine:elsewhere": None, "mine:beside": None, "mine:unmeasured": None
    }  # fmt: skip
    assert told["mine:unmeasured"]["measured"] is None
    assert told["mine:met"]["predicted"] == {
        "low": 1.5, "high": 3.0, "memory": None, "on": "H100", "why": "one pass instead of two"
    }  # fmt: skip


@pytest.mark.parametrize(("peak_bytes", "met"), [(100, True), (400, False), (None, None)])
def test_a_prediction_of_memory_is_met_by_the_memory_that_a_rung_saves(
    tmp_path: Path, state: Path, peak_bytes: int | None, met: bool | None
) -> None:
    lesson = make_target(tmp_path / "mine", "lean", on="H100") / "lesson.md"
    text = lesson.read_text().replace("[1.5, 3.0]", "[0.5, 1.5], memory = [3, 10]")
    lesson.write_text(text.replace('"speed"', '"memory"'))
    arms = {"baseline": {"peak_bytes": 800}, "optimized": {"peak_bytes": peak_bytes}}
    remember(state, "mine:lean", speedup=0.9, device="cuda", environment=H100, arms=arms)
    shown = bench("dev", "expectations", "--root", str(tmp_path / "mine"), "--json")
    (told,) = json.loads(shown.stdout)["targets"]
    assert told["predicted"]["memory"] == [3.0, 10.0]
    assert told["measured"]["memory"] == (800 / peak_bytes if peak_bytes else None)
    assert (told["met"], shown.exit_code) == (met, int(met is False))
    row = bench("dev", "expectations", "--root", str(tmp_path / "mine")).stdout
    assert "0.500x..1.50x, 3.00x..10.0x less memory on H100" in row
    assert ("8.00x less memory" in row) is (peak_bytes == 100)


def test_expectations_that_nothing_contradicts_end_with_0(tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    assert bench("dev", "expectations", "--root", str(tmp_path / "mine")).exit_code == 0


def test_store_info_counts_what_is_there(state: Path) -> None:
    remember(state, "mine:one", sources="a")
    remember(state, "mine:one", sources="b")
    remember(state, "mine:two", sources="b")
    shown = CliRunner().invoke(cli, ["store", "--json"])
    told = json.loads(shown.stdout)
    assert (told["runs"], told["finished_runs"], told["targets"], told["sources"]) == (3, 3, 2, 2)
    assert told["schema_version"] == LATEST
    assert told["size_bytes"] >= (state / "aisp.db").stat().st_size
    assert told["newest"] == "2026-01-02T03:04:05+00:00"


def keep(*words: str, **options: Any) -> tuple[Result, Any]:
    """`aisp store`; with --json also what it printed."""
    shown = CliRunner().invoke(cli, ["store", *words], **options)
    return shown, json.loads(shown.stdout) if "--json" in words and shown.exit_code < 2 else None


def test_store_info_names_backups_what_was_set_aside_and_the_reserve(state: Path) -> None:
    remember(state, "mine:one")
    database = state / "aisp.db"
    made = upkeep.copy_beside(database)
    upkeep.restore(database)
    upkeep.make_ballast(database)
    _, told = keep("--json")
    assert [kept["path"] for kept in told["backups"]] == [str(made)]
    assert told["backups"][0]["size_bytes"] == made.stat().st_size
    assert [Path(kept["path"]).name.partition("-")[0] for kept in told["set_aside"]] == ["aisp.db.replaced"]
    assert (told["ballast_bytes"], told["read_only"]) == (16 << 20, False)
    shown, _ = keep()
    assert "reserve    16.0 MiB" in shown.stdout
    assert f"backup     {made}" in shown.stdout


def test_store_info_of_a_newer_store_says_that_it_can_only_be_read(state: Path) -> None:
    remember(state, "mine:one")
    with closing(sqlite3.connect(state / "aisp.db")) as database:
        database.execute("PRAGMA user_version = 999")
    assert keep("--json")[1]["read_only"] is True
    assert f"999, this aisp writes {LATEST}: it can only be read" in keep()[0].stdout
    assert [run["target"] for run in json.loads(bench("history", "--json").stdout)["runs"]] == ["mine:one"]
    shown, _ = keep("--verify")
    assert (shown.exit_code, "schema version 999" in shown.stderr) == (3, True)


def test_verify_ends_with_0_for_a_whole_store_and_with_1_where_a_time_was_changed(state: Path) -> None:
    good = remember(state, "mine:one", sources="a")
    bad = remember(state, "mine:two", sources="b")
    shown, told = keep("--verify", "--json")
    assert (shown.exit_code, told["whole"], told["damage"]) == (0, True, [])
    assert (told["checked"]["run"], told["checked"]["source"]) == (2, 2)
    assert "=> all of it is what was written, and nothing is missing" in keep("--verify")[0].stdout
    backup = upkeep.copy_beside(state / "aisp.db")
    with closing(sqlite3.connect(state / "aisp.db")) as database, database:
        database.execute("UPDATE arms SET median_ms = median_ms * 0.99 WHERE run = 2 AND rung = 'optimized'")
    shown, told = keep("--verify", "--json")
    assert (shown.exit_code, [(each["kind"], each["id"]) for each in told["damage"]]) == (1, [("run", bad.id)])
    shown, _ = keep("--verify")
    assert shown.exit_code == 1
    assert f"run {bad.id}: its record has another hash" in shown.stdout
    assert good.id not in shown.stdout
    assert keep("--verify", str(backup))[0].exit_code == 0
    assert keep("--verify", str(state / "nothing.db"))[0].exit_code == 2


def head_of(state: Path) -> dict[str, Any]:
    return dict(keep("--json")[1]["chain"])


def test_verify_says_what_it_knows_and_what_a_head_would_add(state: Path) -> None:
    remember(state, "mine:one")
    noted = head_of(state)
    removed = remember(state, "mine:two")
    shown = keep("--verify")[0].stdout
    assert "=> all of it is what was written, and nothing is missing, added or moved since the chain began" in shown
    assert "Who can write the file can write the whole chain anew" in shown
    assert f"head {head_of(state)['head'][:12]}, 3 entries since" in shown
    assert f"head {head_of(state)['head'][:12]}, 3 entries since" in keep()[0].stdout
    shown, told = keep("--verify", "--head", noted["head"], "--json")
    assert (shown.exit_code, told["head"], told["head_entry"], told["chain"]) == (0, noted["head"], 2, head_of(state))
    assert f"{noted['head'][:12]} is entry 2: 1 came since" in keep("--verify", "--head", noted["head"][:12])[0].stdout
    shown = keep("--verify", "--head", "0" * 12)[0]
    assert (shown.exit_code, "is not in this chain" in shown.stdout) == (1, True)
    for wrong in ("0" * 11, "x" * 12, "0" * 65):
        shown = keep("--verify", "--head", wrong)[0]
        assert (shown.exit_code, "give 12 to 64 hex digits" in shown.stderr) == (2, True)
    rewrite(state / "aisp.db", "DELETE FROM runs WHERE number = 2")
    shown, told = keep("--verify", "--json")
    assert (shown.exit_code, told["damage"]) == (
        1,
        [{"kind": "run", "id": removed.id, "reason": "removed: it was number 2, entry 3 of the chain"}],
    )
    assert "=> 1 not what was written" in keep("--verify")[0].stdout


def test_of_a_file_from_before_the_chain_no_more_is_said_than_is_known(state: Path, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    with closing(sqlite3.connect(older)) as database:
        database.executescript((SCHEMAS / "schema_v6.sql").read_text())
    shown = keep("--verify", str(older))[0]
    assert (shown.exit_code, "whether one is missing or was added is not known" in shown.stdout) == (0, True)
    assert keep("--verify", str(older), "--json")[1]["chain"] is None
    assert keep("--verify", str(older), "--head", "0" * 12)[0].exit_code == 1


def test_what_an_interrupted_verify_had_looked_at_is_told(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        remember(state, "mine:one")
    monkeypatch.setattr(upkeep, "_PAGE", 1)

    def interrupt(kind: str, checked: int, count: int) -> None:
        if (kind, checked) == ("run", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upkeep.verify(state / "aisp.db", interrupt)
    assert "an interrupted verify had looked at part of it" in keep("--verify")[0].stdout
    shown, told = keep("--verify", "--anew", "--json")
    assert (shown.exit_code, told["resumed_from"], told["checked"]["run"]) == (0, None, 3)


def test_a_page_of_results_names_the_head_of_its_store(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    remember(state, "mine:one")
    told = json.loads(bench("dev", "results", "--root", str(tmp_path / "mine"), "--json").stdout)
    assert told["chain"] == head_of(state)
    page = bench("dev", "results", "--root", str(tmp_path / "mine")).stdout
    head = head_of(state)["head"][:12]
    assert f"The store's head was `{head}`, with 2 entries: `aisp store --verify --head {head}`" in page


def test_backup_goes_beside_the_store_or_where_it_is_told_and_never_over_a_file(state: Path, tmp_path: Path) -> None:
    remember(state, "mine:one")
    shown, told = keep("--backup", "--json")
    assert shown.exit_code == 0
    assert upkeep.backups(state / "aisp.db") == [Path(told["backup"])]
    assert told["deleted"] == []
    elsewhere = tmp_path / "kept.db"
    assert keep("--backup", str(elsewhere))[0].stdout.startswith(f"copied to {elsewhere}")
    assert upkeep.verify(elsewhere).checked["run"] == 1
    shown, _ = keep("--backup", str(elsewhere))
    assert (shown.exit_code, "name another file" in shown.stderr) == (2, True)


def test_of_backups_made_by_hand_the_newest_five_stay(state: Path) -> None:
    remember(state, "mine:one")
    made = [Path(keep("--backup", "--json")[1]["backup"]) for _ in range(5)]
    for age, file in enumerate(reversed(made), start=1):
        os.utime(file, (1_000_000 - age,) * 2)
    _, told = keep("--backup", "--json")
    assert told["deleted"] == [str(made[0])]
    assert len(upkeep.backups(state / "aisp.db")) == 5


def test_restore_names_the_runs_that_the_backup_lacks(state: Path) -> None:
    first = remember(state, "mine:one")
    keep("--backup")
    later = [remember(state, "mine:two").id for _ in range(12)]
    shown, told = keep("--recover", "--yes", "--json")
    assert (shown.exit_code, told["missing"], told["missing_is_certain"]) == (0, sorted(later), True)
    assert [run["run_id"] for run in json.loads(bench("history", "--json").stdout)["runs"]] == [first.id]
    shown, _ = keep("--recover", told["kept"], "--yes")
    assert shown.exit_code == 0
    assert "missing" not in shown.stdout
    assert len(json.loads(bench("history", "--json").stdout)["runs"]) == 13
    shown, _ = keep("--recover", "--yes")
    assert "12 run(s) are missing now" in shown.stdout
    assert "and 2 more (--json names all)" in shown.stdout


def test_restore_asks_and_without_a_terminal_wants_yes(state: Path) -> None:
    remember(state, "mine:one")
    upkeep.copy_beside(state / "aisp.db")
    before = sorted(state.iterdir())
    shown, _ = keep("--recover", input="y\n")
    assert (shown.exit_code, "--yes" in shown.stderr) == (2, True)
    assert sorted(state.iterdir()) == before


def test_restore_without_a_whole_backup_and_with_a_file_that_is_none_says_so(state: Path, tmp_path: Path) -> None:
    run = remember(state, "mine:one")
    shown, _ = keep("--recover", "--yes")
    assert (shown.exit_code, "no whole backup" in shown.stderr) == (3, True)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as database, database:
        database.execute("CREATE TABLE t (x)")
    shown, _ = keep("--recover", str(other), "--yes")
    assert (shown.exit_code, "database of another program" in shown.stderr) == (3, True)
    assert [kept["run_id"] for kept in json.loads(bench("history", "--json").stdout)["runs"]] == [run.id]


def test_vacuum_tells_the_size_before_and_after(state: Path) -> None:
    remember(state, "mine:one")
    with closing(sqlite3.connect(state / "aisp.db")) as database, database:
        database.execute("INSERT INTO environments VALUES ('x', ?)", ["x" * (1 << 20)])
        database.execute("DELETE FROM environments WHERE hash = 'x'")
    shown, told = keep("--vacuum", "--json")
    assert shown.exit_code == 0
    assert told["before_bytes"] - told["after_bytes"] >= 1 << 20
    assert told["after_bytes"] == (state / "aisp.db").stat().st_size
    assert keep("--verify")[0].exit_code == 0


@pytest.mark.parametrize("way", ["--recover", "--vacuum"])
def test_while_an_engine_runs_the_file_is_its_own(state: Path, way: str) -> None:
    remember(state, "mine:one")
    upkeep.copy_beside(state / "aisp.db")
    words = ["--yes"] if way == "--recover" else []
    with (state / "engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = (state / "aisp.db").read_bytes()
        shown, _ = keep(way, *words)
        assert (shown.exit_code, "`aisp engine --stop`" in shown.stderr) == (3, True)
        assert (state / "aisp.db").read_bytes() == before
    assert keep(way, *words)[0].exit_code == 0


def test_where_nothing_is_stored_yet_there_is_nothing_to_keep(state: Path) -> None:
    for way in ("--verify", "--backup", "--vacuum"):
        shown, _ = keep(way)
        assert (shown.exit_code, "there is no store at" in shown.stderr) == (3, True)
    assert not (state / "aisp.db").exists()


def test_a_store_of_a_newer_aisp_is_refused_with_a_sentence(state: Path) -> None:
    remember(state, "mine:one")
    with sqlite3.connect(state / "aisp.db") as store:
        store.execute("PRAGMA user_version = 999")
        store.execute("ALTER TABLE runs RENAME TO older_runs")
    shown = bench("history")
    assert shown.exit_code == 3
    assert "schema version 999" in shown.stderr
