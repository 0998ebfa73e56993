"""The package of a suite's run: its documents, written whole or not at all, read back whatever else lies there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aisp import store
from aisp.store import suites
from aisp.store.outcomes import State, Verdict
from aisp.store.results import suite_documents
from aisp.store.results.regression import Row, row, with_turns
from aisp.store.results.suite_documents import INDEX, MARKDOWN, REGRESSION, SUMMARY, TREND, Pass, package
from tests.replacing import replace
from tests.store.test_imports import loaded_after
from tests.store.test_regression import HERE, night, turns

MACHINE = {"host": "gpu-box", "gpu": "NVIDIA H100 80GB HBM3", "gpu_uuid": "GPU-1", "cpu": "Xeon"}


def a_pass(machine: dict[str, str] = MACHINE, **changes: Any) -> Pass:
    """A night's run of tier1."""
    wall = "2026-11-25T03:00:00.000+00:00"
    return replace(Pass("tier1", store.new_ulid(), wall, machine, {"name": "nightly", "sha256": "ab" * 32}), **changes)


def rows() -> list[Row]:
    """One target for each thing that a row can come to."""
    slower = row("ch07:transpose", [night(25, rung=0.516, code="d" * 64), night(21)])
    return [
        with_turns(slower, "last", turns(Verdict.SLOWER)),
        row("ch08:faster", [night(25, rung=0.25, code="d" * 64), night(21)]),
        row("ch09:same", [night(25), night(21)]),
        row("ch10:unclear", [night(25, rung=0.505, within=0.02), night(21)]),
        row("ch11:driver", [night(25), night(21, there={**HERE, "driver": "570"})]),
        row("ch12:new", [night(25, rung=1 / 3)]),
        row("ch13:broken", [night(25, state=State.TIMEOUT_TOTAL, reason="too long"), night(21)]),
    ]


# -- documents ---------------------------------------------------------------------------------------------------------


def test_the_summary_says_of_every_target_what_it_is_worth_and_what_it_came_to() -> None:
    found = suite_documents.summary(a_pass(), rows(), launch_count=["ch12:new", "ch99:gone"])
    assert (found["kind"], found["schema"], found["suite"]) == ("aisp suite summary", 1, "tier1")
    by_target = {one["target"]: one for one in found["targets"]}
    transpose = by_target["ch07:transpose"]
    assert {key: transpose[key] for key in ("baseline", "rung", "rung_ms", "verdict", "share_of_light", "change")} == {
        "baseline": "baseline",
        "rung": "optimized",
        "rung_ms": 0.516,
        "verdict": "faster",
        "share_of_light": 0.82,
        "change": "worse",
    }
    assert (transpose["low"], transpose["speedup"], transpose["high"]) == pytest.approx(
        (1 / 0.516 / 1.002, 1 / 0.516, 1 / 0.516 * 1.002)
    )
    assert transpose["run_id"].endswith("25")
    broken = by_target["ch13:broken"]
    assert (broken["speedup"], broken["rung_ms"], broken["left_out"]) == (None, None, "timeout_total")
    assert found["changes"] == {
        "worse": 1, "better": 1, "same": 1, "undecided": 1, "not comparable": 1, "first": 1, "left out": 1,
        "lost": 0,
    }  # fmt: skip
    speedups = [1 / 0.516, 4.0, 2.0, 1 / 0.505, 2.0, 3.0]
    with_all, without = found["geometric_mean"], found["geometric_mean_without_launch_count"]
    assert (with_all["count"], with_all["value"]) == (6, pytest.approx(_mean(speedups)))
    assert with_all["low"] < with_all["value"] < with_all["high"]
    assert (without["count"], without["value"]) == (5, pytest.approx(_mean(speedups[:-1])))
    assert found["launch_count"] == ["ch12:new"]


def _mean(values: list[float]) -> float:
    product = 1.0
    for value in values:
        product *= value
    return float(product ** (1 / len(values)))


def test_the_regression_document_sorts_targets_by_what_they_came_to_with_the_evidence() -> None:
    found = suite_documents.regressions(a_pass(), rows())
    sorted_out = {
        key: [one["target"] for one in found[key]] for key in ("worse", "better", "same", "undecided", "first")
    }
    assert sorted_out == {
        "worse": ["ch07:transpose"],
        "better": ["ch08:faster"],
        "same": ["ch09:same"],
        "undecided": ["ch10:unclear"],
        "first": ["ch12:new"],
    }
    (worse,) = found["worse"]
    assert worse["sentence"].startswith("3.1 % slower than on 21 Nov [2.9..3.3], confirmed in turns")
    assert (worse["last"]["turns"]["verdict"], worse["last"]["turns"]["speedup"]) == ("slower", 0.97)
    assert [(one["cause"], one["what"]) for one in worse["last"]["causes"]] == [("lesson code", "code of optimized")]
    (driver,), (broken,) = found["not_comparable"], found["left_out"]
    assert driver["last"]["reason"] == "driver: 570 then, 580 now"
    assert (broken["left_out"], broken["last"]) == ("timeout_total", None)


def test_the_page_for_people_has_what_is_worse_first_and_nothing_of_it_acts_as_markdown() -> None:
    evil = replace(rows()[2], target="ch09:`<b>|same\n# no")
    text = suite_documents.regression_markdown(a_pass(), [*rows(), evil])
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        "# tier1: 2026-11-25 03:00 UTC",
        "## Worse",
        "## Better",
        "## Same",
        "## Undecided",
        "## Not comparable",
        "## First runs",
        "## Left out",
    ]
    assert "NVIDIA H100 80GB HBM3 on gpu-box: 1 worse, 1 better, 2 same" in text
    assert "- `ch07:transpose` (optimized): 3.1 % slower than on 21 Nov [2.9..3.3], confirmed in turns" in text
    assert "- `ch13:broken`: left out: timeout_total" in text
    assert "\\`\\<b\\>\\|same # no" in text
    assert "no targets." in suite_documents.regression_markdown(a_pass(), [])


def test_the_trend_has_every_run_of_every_target_the_oldest_first() -> None:
    found = suite_documents.trend(a_pass(), rows())
    transpose = found["targets"][0]
    assert [(point["run_id"][-2:], point["median_ms"], point["comparable"]) for point in transpose["points"]] == [
        ("21", 0.5, True),
        ("25", 0.516, True),
    ]
    driver = next(one for one in found["targets"] if one["target"] == "ch11:driver")
    assert [point["comparable"] for point in driver["points"]] == [False, True]


# -- on disk -----------------------------------------------------------------------------------------------------------


def written(folder: Path, run: Pass) -> Path:
    """A package of that run."""
    return suites.write(folder / run.id, package(run, rows()))


def test_a_package_holds_four_files_and_reads_back(tmp_path: Path) -> None:
    first, second = a_pass(), a_pass()
    for run in (second, first):
        written(tmp_path, run)
    assert sorted(path.name for path in (tmp_path / first.id).iterdir()) == sorted(
        [SUMMARY, REGRESSION, MARKDOWN, TREND]
    )
    assert json.loads((tmp_path / first.id / TREND).read_text("utf-8"))["schema"] == 1
    found = suites.read_index(tmp_path, MACHINE)
    assert [one.id for one in found.here] == sorted([first.id, second.id])
    assert (found.problems, found.elsewhere) == ([], [])
    document = suite_documents.index("tier1", [(one.summary, one.regression) for one in found.here], found.problems)
    path = suites.write_index(tmp_path, document)
    assert (path, suites.write_index(tmp_path, document)) == (tmp_path / INDEX, path), "the index is written anew"
    entry = json.loads(path.read_text("utf-8"))["packages"][0]
    assert (entry["id"], entry["worse"], entry["changes"]["worse"]) == (min(first.id, second.id), ["ch07:transpose"], 1)
    assert entry["geometric_mean"]["count"] == 6
    assert suites.read_index(tmp_path, MACHINE).problems == [], "the index is no package"


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_pass()
    documents = package(run, rows())
    with pytest.raises(ValueError, match="Out of range float"):
        suites.write(tmp_path / run.id, documents | {"zz.json": {"value": float("nan")}})
    with pytest.raises(ValueError, match="no file name"):
        suites.write(tmp_path / run.id, documents | {"../escape.json": {}})
    assert list(tmp_path.iterdir()) == []

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            suites.write(tmp_path / run.id, documents)
        with pytest.raises(OSError, match="No space"):
            suites.write_index(tmp_path, {})
    assert list(tmp_path.iterdir()) == []
    suites.write(tmp_path / run.id, documents)
    with pytest.raises(suites.PackageExistsError, match="never written over"):
        suites.write(tmp_path / run.id, documents)


def test_a_bad_package_is_told_in_a_sentence_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = a_pass()
    written(tmp_path, good)

    def spoiled(name: str, **changes: Any) -> str:
        run = a_pass()
        path = written(tmp_path, run) / name
        document = json.loads(path.read_text("utf-8")) | changes
        path.write_text(json.dumps(document), "utf-8")
        return run.id

    newer = spoiled(SUMMARY, schema=2)
    foreign_kind = spoiled(SUMMARY, kind="aisp run")
    without_number = spoiled(REGRESSION, schema="one")
    misshapen = spoiled(REGRESSION, worse={"a": 1})
    renamed = spoiled(SUMMARY, id="01J0000000000000000000OTHR")
    cut, missing, odd = a_pass(), a_pass(), a_pass()
    path = written(tmp_path, cut) / SUMMARY
    path.write_text(path.read_text("utf-8")[:100], "utf-8")
    (written(tmp_path, missing) / REGRESSION).unlink()
    (written(tmp_path, odd) / SUMMARY).write_bytes(b"\xff\xfe[[")
    (tmp_path / ".partial-01J00000000000000000000000-abc").mkdir()
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    found = suites.read_index(tmp_path, MACHINE)
    assert [one.id for one in found.here] == [good.id]
    told = dict(line.split(": ", 1) for line in found.problems)
    assert told == {
        newer: "summary.json has schema 2, a newer aisp wrote it; this one reads up to 1",
        foreign_kind: "summary.json is no summary of a suite",
        without_number: "regression.json has no schema number",
        misshapen: "regression.json lacks worse, or has something else there",
        renamed: f"its documents are of {', '.join(sorted([renamed, '01J0000000000000000000OTHR']))}, "
        "not of the run that its folder is named by",
        cut.id: "half written: summary.json is no whole JSON document",
        missing.id: "half written: regression.json is missing",
        odd.id: "half written: summary.json is no whole JSON document",
        "01J00000000000000000000000": "half written, the process that wrote it ended; "
        "remove .partial-01J00000000000000000000000-abc",
    }


def test_what_a_package_from_before_left_out_is_not_counted_as_not_comparable(tmp_path: Path) -> None:
    folder = written(tmp_path, a_pass())
    summary, against = (json.loads((folder / name).read_text()) for name in ("summary.json", "regression.json"))
    old = {key: count for key, count in summary["changes"].items() if key != "left out"} | {"not comparable": 2}
    (folder / "summary.json").write_text(json.dumps(summary | {"changes": old}))
    against["not_comparable"] += against.pop("left_out")
    (folder / "regression.json").write_text(json.dumps(against))
    (found,) = suites.read_index(tmp_path).here
    assert found.summary["changes"] == summary["changes"]


def test_a_package_of_another_machine_is_told_and_kept_out_of_the_history(tmp_path: Path) -> None:
    ours, theirs = a_pass(), a_pass({**MACHINE, "gpu_uuid": "GPU-2", "cpu": "EPYC"})
    unknown = a_pass({"host": "gpu-box"})
    for run in (ours, theirs, unknown):
        written(tmp_path, run)
    found = suites.read_index(tmp_path, MACHINE)
    assert [one.id for one in found.here] == sorted([ours.id, unknown.id]), "the same name, and what is not known"
    assert [(one.id, one.elsewhere) for one in found.elsewhere] == [(theirs.id, True)]
    assert found.problems == [
        f"{theirs.id}: from another machine (gpu_uuid: GPU-2, cpu: EPYC): not part of this one's history"
    ]
    assert len(suites.read_index(tmp_path).here) == 3


def test_a_folder_that_is_not_there_has_no_packages(tmp_path: Path) -> None:
    assert suites.read_index(tmp_path / "none") == suites.Packages()
    (tmp_path / "file").write_text("", "utf-8")
    assert suites.read_index(tmp_path / "file").problems == [f"{tmp_path / 'file'}: cannot be read: Not a directory"]


def test_rules_and_documents_import_nothing_heavy() -> None:
    loaded = loaded_after("import aisp.store.results.regression, aisp.store.results.suite_documents")
    assert not {"numpy", "sqlite3", "torch", "click", "textual"} & loaded
