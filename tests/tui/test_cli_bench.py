"""`aisp score | peak | roofline | selftest`: many targets at once, ceilings, roofs, the statistics' own test."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aisp.engine.protocol import requests
from aisp.store import Store
from aisp.store.outcomes import Limiter, State, Validity
from aisp.store.record import Ceiling, Peak, RooflineBound, unplanned
from aisp.store.results import by_class
from aisp.store.results.roofline import Roofline, of_case
from aisp.tui.cli import selftest
from aisp.tui.cli.follow import Followed
from aisp.tui.cli.peak import lines as peak_lines
from aisp.tui.cli.roofline import Chart, labels_apart
from aisp.tui.cli.tree import cli
from aisp.tui.model import PeakView
from tests import heard
from tests.replacing import replace
from tests.tui.fake_engine import (
    CEILINGS,
    MAIN,
    FakeEngine,
    aisp,
    hear,
    isolate,
    make_target,
    remember,
    start_aisp,
)

GPU = "NVIDIA H100 80GB HBM3"
H100: dict[str, object] = {"host": "atlas", "gpu": GPU, "gpu_uuid": "GPU-1"}
LAPTOP: dict[str, object] = {"host": "ada", "gpu": "", "cpu": "a CPU"}
CERTAIN = {"p_value": 0.0001}


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def cells(text: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text.splitlines()]


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words])


def on_h100(folder: Path, target: str, **changes: Any) -> Any:
    return remember(folder, target, **{"device": "cuda", "environment": H100, "comparison": CERTAIN, **changes})


# -- suite -------------------------------------------------------------------------------------------------------------


def test_a_suite_is_the_geometric_mean_of_the_last_full_runs(state: Path) -> None:
    on_h100(state, "mine:one", speedup=16.0)  # an older run of the same target does not count
    on_h100(state, "mine:one", speedup=2.0)
    on_h100(state, "mine:two", speedup=8.0)
    shown = bench("score", "--json")
    assert shown.exit_code == 0
    found = json.loads(shown.stdout)
    assert (found["on"], found["count"], found["level"]) == (GPU, 2, 0.05)
    assert found["geometric_mean"] == pytest.approx(4.0)
    assert 3.8 < found["low"] < 4.0 < found["high"] < 4.2
    assert found["confirmed"] == ["mine:one", "mine:two"]
    assert [result["speedup"] for result in found["results"]] == [2.0, 8.0]
    lines = bench("score").stdout.splitlines()
    assert lines[0] == f"last full runs on {GPU}"
    assert lines[-2].startswith("=> geometric mean 4.00x [3.")
    assert lines[-2].endswith("over 2 targets")
    assert lines[-1] == "   2 of 2 FASTER or SLOWER confirmed (Benjamini-Hochberg, 5 %)"


def test_a_verdict_that_many_comparisons_make_doubtful_is_not_confirmed(state: Path) -> None:
    on_h100(state, "mine:one", comparison=CERTAIN)
    on_h100(state, "mine:two", comparison={"p_value": 0.06})
    found = json.loads(bench("score", "--json").stdout)
    assert (found["confirmed"], found["not_confirmed"]) == (["mine:one"], ["mine:two"])
    assert {result["target"]: result["confirmed"] for result in found["results"]} == {
        "mine:one": True, "mine:two": False
    }  # fmt: skip
    rows = {line.split()[0]: line.split() for line in bench("score").stdout.splitlines() if line.startswith("mine:")}
    assert rows["mine:one"][4:6] == ["faster", "yes"]
    assert rows["mine:two"][4:6] == ["faster", "no"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"quick": True}, f"no full run on {GPU}"),
        ({"environment": LAPTOP, "device": "cpu"}, f"no full run on {GPU}"),
        ({"state": State.INCORRECT}, "incorrect"),
        ({"state": State.CANCELLED}, f"no full run on {GPU}"),
        ({"validity": Validity.SUSPECT}, "its times are suspect"),
    ],
    ids=["quick", "elsewhere", "incorrect", "cancelled", "suspect"],
)
def test_a_target_that_cannot_count_is_named_with_its_reason(state: Path, change: dict[str, Any], reason: str) -> None:
    on_h100(state, "mine:two", **change)
    if change.get("state") is State.CANCELLED:  # the board is of runs that came to their own end
        on_h100(state, "mine:two", quick=True)
    on_h100(state, "mine:one", speedup=2.0)
    found = json.loads(bench("score", "--json").stdout)
    assert found["geometric_mean"] == pytest.approx(2.0)
    assert found["left_out"] == [{"target": "mine:two", "reason": reason}]
    assert f"left out, {reason}: mine:two" in bench("score").stdout


def test_a_suite_on_named_hardware_takes_the_runs_there(state: Path) -> None:
    remember(state, "mine:one", speedup=3.0, environment=LAPTOP, comparison=CERTAIN)
    on_h100(state, "mine:one", speedup=2.0)
    assert json.loads(bench("score", "--on", "CPU", "--json").stdout)["geometric_mean"] == pytest.approx(3.0)
    assert json.loads(bench("score", "--on", "H100", "--json").stdout)["geometric_mean"] == pytest.approx(2.0)


def test_a_lesson_of_the_host_counts_for_the_machine_and_its_gpu(tmp_path: Path, state: Path) -> None:
    lesson = make_target(tmp_path / "mine", "host") / "lesson.md"
    lesson.write_text(lesson.read_text("utf-8").replace('"float32 [N] normal"', '"float32 [N] normal cpu"'), "utf-8")
    make_target(tmp_path / "mine", "one")
    there: dict[str, object] = {**H100, "cpu": "a CPU"}
    on_h100(state, "mine:one", speedup=2.0)
    remember(state, "mine:one", speedup=50.0, environment=there, comparison=CERTAIN)  # with --device cpu
    remember(state, "mine:host", speedup=8.0, case="default", environment=there, comparison=CERTAIN)  # the newest
    for words in ((), ("--on", "H100")):
        told = json.loads(bench("score", *words, "--root", str(tmp_path / "mine"), "--json").stdout)
        assert told["geometric_mean"] == pytest.approx(4.0), words
    make_target(tmp_path / "others", "one")
    unknown = json.loads(bench("score", "--on", "H100", "--root", str(tmp_path / "others"), "--json").stdout)
    assert unknown["left_out"] == [{"target": "mine:host", "reason": "no full run on H100"}]


def test_a_run_of_another_case_does_not_speak_for_its_target(tmp_path: Path, state: Path) -> None:
    for name in ("one", "two"):
        make_target(tmp_path / "mine", name)
    on_h100(state, "mine:one", speedup=2.0)
    on_h100(state, "mine:one", speedup=50.0, case="large")
    on_h100(state, "mine:two", speedup=50.0, case="large")
    told = json.loads(bench("score", "--root", str(tmp_path / "mine"), "--json").stdout)
    assert (told["count"], told["geometric_mean"]) == (1, pytest.approx(2.0))
    assert told["left_out"] == [{"target": "mine:two", "reason": f"no full run of its usual case on {GPU}"}]


def test_targets_of_a_suite_are_chosen_by_id_or_chapter(state: Path) -> None:
    for target, speedup in (("mine:one", 2.0), ("mine:two", 2.0), ("ch07:three", 8.0)):
        on_h100(state, target, speedup=speedup)
    chosen = json.loads(bench("score", "--targets", "mine", "--json").stdout)
    assert [result["target"] for result in chosen["results"]] == ["mine:one", "mine:two"]
    both = json.loads(bench("score", "--targets", "mine:one,ch07:three", "--json").stdout)
    assert both["geometric_mean"] == pytest.approx(4.0)
    shown = bench("score", "--targets", "mine:on")
    assert shown.exit_code == 2
    assert "no target 'mine:on'; did you mean mine:one" in shown.stderr


def test_a_run_that_is_named_speaks_for_its_target_in_a_score(state: Path) -> None:
    older = on_h100(state, "mine:one", speedup=16.0)
    on_h100(state, "mine:one", speedup=2.0)
    on_h100(state, "mine:two", speedup=4.0)
    quick = on_h100(state, "mine:three", quick=True)
    told = json.loads(bench("score", older.id, "two", "--json").stdout)
    assert {result["target"]: result["speedup"] for result in told["results"]} == {"mine:one": 16.0, "mine:two": 4.0}
    shown = bench("score", quick.id)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "left out, no full run: mine:three" in shown.stderr
    assert f"`aisp run {quick.id}` makes some" in shown.stderr


def test_a_suite_without_a_full_run_ends_with_1(state: Path) -> None:
    assert bench("score").exit_code == 1
    remember(state, "mine:one", quick=True)
    shown = bench("score")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "left out, no full run: mine:one" in shown.stderr
    assert json.loads(bench("score", "--json").stdout)["geometric_mean"] is None


# -- results -----------------------------------------------------------------------------------------------------------


def test_a_page_of_results_has_every_rung_and_says_which_predictions_were_met(tmp_path: Path, state: Path) -> None:
    mine = tmp_path / "mine"
    for name in ("met", "missed", "elsewhere", "suspect"):
        make_target(mine, name, title=f"{name} | in one pass", on="H100")
    versions: dict[str, object] = {**H100, "driver": "580.1", "versions": {"torch": "2.11.0", "triton": "3.6.0"}}
    remember(state, "mine:met", speedup=9.0, device="cuda", environment=versions, quick=True)
    remember(state, "mine:met", speedup=2.0, device="cuda", case="default", environment=versions)
    remember(state, "mine:missed", speedup=1.2, device="cuda", case="default", environment=versions)
    remember(state, "mine:suspect", device="cuda", case="default", environment=versions, validity=Validity.SUSPECT)
    remember(state, "mine:elsewhere", environment=LAPTOP)

    page = bench("dev", "results", "--on", "H100", "--root", str(mine))
    assert page.exit_code == 0
    lines = page.stdout.splitlines()
    assert lines[0] == f"# Results on {GPU}"
    assert "3 targets, 3 runs; torch 2.11.0, triton 3.6.0, driver 580.1. Of 2 predictions 1 was met." in lines
    summary = {line.split("`")[1]: line.split(" | ") for line in lines if line.startswith("| `mine:")}
    assert {name: row[-1] for name, row in summary.items()} == {
        "mine:met": "yes |", "mine:missed": "no |", "mine:suspect": "- |"
    }  # fmt: skip
    assert summary["mine:met"][2:4] == ["`optimized`", "2.00x [1.96..2.04]"]
    assert "met \\| in one pass." in lines
    (row,) = [line for line in lines[: lines.index("### mine:missed")] if line.startswith("| `optimized`")]
    assert row.startswith("| `optimized` | 0.5000 [0.4950..0.5050] | 2.00x [1.96..2.04] | 82 % | - | - | faster |")
    assert lines[-1] == "No full run is stored of mine:elsewhere."


def test_a_page_ranks_the_lessons_own_rung_and_holds_it_against_the_strongest_opponent() -> None:
    """On the H200's kept page: what a compiler or cuBLAS made is no win of the lesson's."""
    page = bench(
        "dev", "results", "--from", str(Path(__file__).parents[2] / "docs/results/h200.json")
    ).stdout.splitlines()
    heads = next(line for line in page if line.startswith("| target |")).strip("| ").split(" | ")
    rows = [line.strip("| ").split(" | ") for line in page if line.startswith("| `")]
    summary = {row[0].strip("`"): dict(zip(heads, row, strict=True)) for row in rows if len(row) == len(heads)}
    blocks = summary["ch02:l2_blocks"]
    assert (blocks["own rung"], blocks["met"]) == ("`optimized_graph`", "no, 7.02x `optimized_compiled`")
    assert blocks["vs opponent"] == "0.174x [0.171..0.178] `optimized_compiled`"
    scaled = summary["labs/block_scaling:block_scaling"]
    assert (scaled["own rung"], scaled["vs baseline"].split()[0]) == ("`optimized_descriptors`", "5.65x")
    assert scaled["vs opponent"].endswith("`optimized_scaled_mm`")
    assert summary["ch16:weight_only_int4"]["own rung"] == "`optimized_by_words`"
    assert summary["ch08:histogram"]["vs opponent"].endswith("`baseline_torch`")
    assert summary["ch16:weight_only_int4"]["vs opponent"].endswith("`baseline`")  # fp16 cuBLAS is the one to beat
    assert summary["ch11:h2d_overlap"]["vs opponent"] == "-", "two baselines are nobody that need be beaten"
    assert summary["ch20:gated_candidate"]["own rung"] == "`optimized_candidate`"
    assert summary["ch13:checkpointing"]["peak memory"] != "-"


def test_a_page_sums_own_rungs_by_what_limits_them() -> None:
    """Two lessons that are won and lost by the same factor cancel; one about memory does not count."""

    def rung(name: str, ms: float, **more: object) -> dict[str, Any]:
        ends = {"low_ms": ms * 0.999, "high_ms": ms * 1.001, "speedup": 4 / ms, "low": 3.9 / ms, "high": 4.1 / ms}
        return {"rung": name, "state": "ok", "timing": "cold", "median_ms": ms, **ends, "sol": 0.5, "floor": 0.01,
                "verdict": "faster", "limiter": "bytes", "peak_bytes": 1, **more}  # fmt: skip

    def lesson(name: str, *rungs: dict[str, Any], goal: str = "speed") -> dict[str, Any]:
        run = {"state": "ok", "validity": "valid", "best": "optimized", "rungs": [rung("baseline", 4.0), *rungs]}
        return {"target": f"mine:{name}", "goal": goal, "met": None, "runs": [run]}

    told = by_class.lessons(
        [
            lesson("won", rung("optimized", 1.0), rung("peer_x", 2.0)),
            lesson("lost", rung("optimized", 2.0), rung("optimized_compiled", 1.0)),
            lesson("alone", rung("optimized", 2.0, limiter="pcie"), rung("baseline_other", 1.0), goal="latency"),
            lesson("waits", rung("optimized", 2.0), rung("baseline_torch", 2.01), goal="latency"),
            lesson("lean", rung("optimized", 2.0), goal="memory"),
        ]
    )
    assert [(one.target, one.kind, one.opponent and one.opponent.verdict) for one in told] == [
        ("mine:won", "bytes", "faster"), ("mine:lost", "bytes", "slower"), ("mine:alone", "links", None),
        ("mine:waits", "latency", "same"),
    ]  # fmt: skip
    score, counts = by_class.summed([one.opponent for one in told[:2] if one.opponent])
    assert score.geometric_mean == pytest.approx(1.0)
    assert counts == [1, 0, 1, 0]


def test_a_prediction_that_errors_met_is_not_met_blind() -> None:
    def predicted(met: bool | None, baseline: bool, best: bool | None) -> dict[str, Any]:
        rungs = [{"rung": "baseline", "expect": {"met": {"ms": baseline}}}, {"rung": "optimized"}]
        if best is not None:
            rungs[1]["expect"] = {"met": {"ms": best}}
        return {"met": met, "runs": [{"best": "optimized", "rungs": rungs}]}

    assert by_class.blind([predicted(met=True, baseline=True, best=True)]) == 1
    for one in (
        predicted(met=True, baseline=False, best=True),
        predicted(met=True, baseline=True, best=None),  # a rung that nobody had thought of
        predicted(met=False, baseline=True, best=True),
        predicted(met=None, baseline=True, best=True),
    ):
        assert by_class.blind([one]) == 0


def test_a_page_says_what_a_launch_costs_the_host_that_limits_and_what_a_faster_one_would_make_of_it(
    tmp_path: Path, state: Path
) -> None:
    make_target(tmp_path / "mine", "many", on="H100")
    slow = {"light": RooflineBound(measured_ms=0.01, limiter=Limiter.HOST, launch_eager_ms=0.02)}
    by_bytes = {"light": RooflineBound(measured_ms=0.01, limiter=Limiter.BYTES)}
    on_h100(state, "mine:many", case="default", speedup=50.0, arms={"baseline": slow, "optimized": by_bytes})
    page = bench("dev", "results", "--root", str(tmp_path / "mine")).stdout.splitlines()
    (row,) = [line for line in page if line.startswith("| `baseline` |")]
    assert " | host: 20.0 µs a launch, 0.2500 ms with 5 µs | " in row
    (summary,) = [line for line in page if line.startswith("| `mine:many` |")]
    assert "50.0x [49.0..51.0], 12.5x with a 5 µs host |" in summary


def test_a_page_says_of_each_rung_whether_its_predicted_time_and_limiter_were_met(tmp_path: Path, state: Path) -> None:
    lesson = make_target(tmp_path / "mine", "told", on="H100") / "lesson.md"
    notes = "[rungs.baseline]\nexpect = { ms = [0.5, 2] }\n"
    notes += '[rungs.optimized]\nexpect = { ms = [0.1, 0.2], limiter = "bytes" }\n'
    text = lesson.read_text()
    start = text.index("[rungs.") if "[rungs." in text else text.index("+++", 4)
    lesson.write_text(text[:start] + notes + text[text.index("+++", 4) :])
    by_bytes = {"light": RooflineBound(measured_ms=0.01, limiter=Limiter.BYTES)}
    on_h100(state, "mine:told", case="default", speedup=2.0, arms={"optimized": by_bytes})
    root = str(tmp_path / "mine")
    page = bench("dev", "results", "--root", root).stdout
    assert "Of 2 times that were predicted of a rung 1 lay in its range, and 1 of 1 limiters." in page
    assert "| 0.500..2.00 met |" in page
    assert "| 0.100..0.200 missed, bytes met |" in page
    (told,) = json.loads(bench("dev", "results", "--root", root, "--json").stdout)["targets"]
    optimized = next(rung for rung in told["runs"][0]["rungs"] if rung["rung"] == "optimized")
    assert optimized["expect"] == {"ms": [0.1, 0.2], "limiter": "bytes", "met": {"ms": False, "limiter": True}}


def test_a_lesson_of_the_host_stands_on_the_page_of_its_machines_gpu(tmp_path: Path, state: Path) -> None:
    mine = tmp_path / "mine"
    lesson = make_target(mine, "batching", on="the host of an H100") / "lesson.md"
    lesson.write_text(lesson.read_text().replace('[N] normal"', '[N] normal cpu"', 1))
    make_target(mine, "copies", on="H100")
    for target in ("mine:batching", "mine:copies"):
        remember(state, target, device="cpu", case="default", environment={**H100, "cpu": "a CPU"})

    for asked in (
        ("--on", "H100"),
        (),
    ):  # without a name: the newest run's hardware, and that was a GPU target on a CPU
        page = bench("dev", "results", *asked, "--root", str(mine)).stdout
        assert ("### mine:batching" in page, "### mine:copies" in page) == (bool(asked), not asked)
    page = bench("dev", "results", "--on", "H100", "--root", str(mine)).stdout
    assert page.startswith(f"# Results on {GPU}\n")
    assert "Of 1 prediction 1 was met." in page
    assert "### mine:copies" in bench("dev", "results", "--on", "CPU", "--root", str(mine)).stdout


def test_a_kept_document_gives_the_same_page_byte_for_byte(tmp_path: Path, state: Path) -> None:
    make_target(tmp_path / "mine", "one")
    remember(state, "mine:one", environment=LAPTOP)
    document = tmp_path / "results.json"
    root = str(tmp_path / "mine")
    document.write_text(bench("dev", "results", "--root", root, "--json").stdout)
    (state / "aisp.db").unlink()
    assert bench("dev", "results", "--root", root).exit_code == 1
    again = bench("dev", "results", "--from", str(document))
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "# Results on a CPU")
    document.write_text('{"on": "CPU"}')
    broken = bench("dev", "results", "--from", str(document))
    assert broken.exit_code == 2
    assert "is no document of `dev results --json`" in broken.stderr


def test_documents_of_several_sittings_make_one_page_of_one_hardware_and_method(tmp_path: Path) -> None:
    """A page takes longer than a machine is had for."""
    whole = json.loads((Path(__file__).parents[2] / "docs/results/h200.json").read_text("utf-8"))

    def kept(name: str, first: int, last: int, **more: Any) -> str:
        part = {**whole, "targets": whole["targets"][first:last], "without": [], **more}
        part["without"] = [target["target"] for target in whole["targets"] if target not in part["targets"]]
        (tmp_path / name).write_text(json.dumps(part))
        return str(tmp_path / name)

    late, early = kept("late.json", 30, 66), kept("early.json", 0, 31)
    page = bench("dev", "results", "--from", late, "--from", early)
    assert page.stdout == bench("dev", "results", "--from", kept("whole.json", 0, 66)).stdout
    run = {**whole["targets"][30]["runs"][0], "case": "measured anew"}
    anew = kept("anew.json", 0, 0, targets=[{**whole["targets"][30], "runs": [run]}])
    assert "measured anew" in bench("dev", "results", "--from", late, "--from", anew).stdout
    assert "measured anew" not in bench("dev", "results", "--from", anew, "--from", late).stdout
    for more, words in (
        ({"on": "NVIDIA H100"}, "not comparable: hardware: NVIDIA H100, NVIDIA H200"),
        ({"versions": {**whole["versions"], "method": ["2"]}}, "not comparable: timing method: 2, 3"),
    ):
        refused = bench("dev", "results", "--from", late, "--from", kept("other.json", 0, 31, **more))
        assert (refused.exit_code, words in " ".join(refused.stderr.split())) == (2, True)


# -- peak --------------------------------------------------------------------------------------------------------------


def test_ceilings_are_measured_by_the_engine_and_shown_beside_the_datasheet() -> None:
    with FakeEngine() as engine:
        shown = bench("peak", "-v")
    assert shown.exit_code == 0
    assert len(engine.asked(requests.MeasurePeak)) == 1
    assert shown.stdout.startswith(f"{GPU}  ")
    expected = """
        dram read (1.0 GiB) 3.02 TB/s 3.35 TB/s 90 % 1980 2619
        bf16 dense 720 TFLOP/s 989 TFLOP/s 73 % 1575 2619
        launch graph node 1.50 µs - - 1980 -
        nvlink read - - - - -

        nvlink read: there is no peer"""
    assert cells(shown.stdout)[-6:] == cells(expected)[1:]
    assert "[2/4] bf16 dense  720 TFLOP/s" in shown.stderr.splitlines()


def test_an_all_reduce_is_shown_by_size_with_its_time() -> None:
    said = "over 2 GPUs, 18.2 µs a call"
    link = Ceiling("peer copy both ways", 3.1e11, "bytes/s", 1980.0, None, 256 << 20, "best of 2")
    sizes = [Ceiling("nccl all-reduce", rate, "bytes/s", 1980.0, None, size, said)
             for size, rate in ((8 << 10, 4.5e8), (256 << 20, 3.0e11))]  # fmt: skip
    shown = cells("\n".join(peak_lines(PeakView("01PEAK", gpu=GPU, ceilings=[link, *sizes]), width=None)))
    expected = """
        peer copy both ways (256.0 MiB) 310 GB/s 450 GB/s 69 % 1980 -
        nccl all-reduce (8.0 KiB) 450 MB/s 450 GB/s 0 % 1980 -
        nccl all-reduce (256.0 MiB) 300 GB/s 450 GB/s 67 % 1980 -

        nccl all-reduce (8.0 KiB): over 2 GPUs, 18.2 µs a call
        nccl all-reduce (256.0 MiB): over 2 GPUs, 18.2 µs a call"""
    assert shown[-6:] == cells(expected)[1:]


def test_the_json_of_ceilings_carries_the_documented_keys() -> None:
    with FakeEngine():
        found = json.loads(bench("peak", "--json").stdout)
    assert (found["peak_id"], found["gpu"]) == ("01PEAK", GPU)
    read, dense, launch, link = found["ceilings"]
    assert read == {
        "name": "dram read", "value": 3.02e12, "unit": "bytes/s", "clock_mhz": 1980.0, "memory_clock_mhz": 2619.0,
        "footprint_bytes": 2**30, "datasheet": 3.35e12, "note": "",
    }  # fmt: skip
    assert dense["datasheet"] == 989.4e12
    assert (launch["unit"], launch["datasheet"]) == ("s", None)
    assert (link["value"], link["note"]) == (None, "there is no peer")


def test_a_machine_without_a_gpu_says_so_in_the_drivers_words() -> None:
    with FakeEngine() as engine:
        engine.refuse = "there is no GPU: NVML Shared Library Not Found"
        shown = bench("peak", "--json")
    error = {"kind": "not_here", "text": "there is no GPU: NVML Shared Library Not Found", "try": []}
    assert (shown.exit_code, json.loads(shown.stdout)) == (3, {"schema": 1, "error": error})
    assert "aisp: there is no GPU: NVML Shared Library Not Found" in shown.stderr


def test_ceilings_that_were_cut_short_are_shown_with_the_reason_and_end_with_3() -> None:
    with FakeEngine() as engine:
        engine.peak_reason = "the GPU fell off the bus"
        shown = bench("peak")
    assert shown.exit_code == 3
    assert "3.02 TB/s" in shown.stdout
    assert "the GPU fell off the bus" in shown.stderr


def test_an_engine_that_dies_while_it_measures_ends_the_command_with_3() -> None:
    with FakeEngine() as engine:
        engine.drop_after = 2
        shown = bench("peak")
    assert shown.exit_code == 3
    assert "the engine went away" in shown.stderr


@pytest.mark.parametrize("others", [False, True], ids=["ours", "somebody else's"])
def test_ctrl_c_cancels_the_measurement_unless_it_was_somebody_elses(others: bool) -> None:
    with FakeEngine() as engine:
        engine.hold_peak = True
        engine.joins = others
        process = start_aisp("peak", "-v")
        hear(process, "nvlink")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert [request.run_id for request in engine.asked(requests.Cancel)] == ([] if others else ["01PEAK"])
    assert ("aisp: left" if others else "aisp: cancelled") in err
    assert "Traceback" not in err


def test_ceilings_are_measured_once_more_on_request_and_not_together_with_stored_ones(state: Path) -> None:
    put_peak(state)
    with FakeEngine() as engine:
        bench("peak", "--again")
        bench("peak")
        assert [request.again for request in engine.asked(requests.MeasurePeak)] == [True, False]
    wrong = bench("peak", "--again", "--stored")
    assert (wrong.exit_code, "give one of them" in wrong.stderr) == (2, True)


def test_a_second_ctrl_c_leaves_the_measurement_to_the_engine() -> None:
    with FakeEngine() as engine:
        engine.hold_peak = engine.hold_cancel = True
        process = start_aisp("peak", "-v")
        hear(process, "nvlink")
        process.send_signal(signal.SIGINT)
        hear(process, "cancelling")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "`aisp peak --stored`" in err


def test_whoever_comes_to_a_measurement_under_way_gets_all_of_its_ceilings(state: Path) -> None:
    put_peak(state)
    with FakeEngine() as engine:
        engine.joins = True
        engine.peak_from = 3
        found = json.loads(bench("peak", "--json").stdout)
    assert [ceiling["name"] for ceiling in found["ceilings"]] == [ceiling["name"] for ceiling in CEILINGS]


def put_peak(state: Path, peak_id: str = "01PEAK", *, gpu: str = GPU, uuid: str = "GPU-1", scale: float = 1.0) -> Peak:
    fields = [{key: value for key, value in ceiling.items() if key != "name"} for ceiling in CEILINGS]
    for field in fields:
        if field["value"] is not None:
            field["value"] *= scale
    state.mkdir(mode=0o700, exist_ok=True)
    with Store.open(state / "aisp.db") as store:
        peak = Peak(
            id=peak_id,
            gpu=gpu,
            gpu_uuid=uuid,
            wall="2026-01-02T03:04:05+00:00",
            environment=store.put_environment(H100),
            ceilings=tuple(Ceiling(name=c["name"], **f) for c, f in zip(CEILINGS, fields, strict=True)),
        )
        store.put_peak(peak)
    return peak


def test_stored_ceilings_are_shown_without_an_engine(state: Path) -> None:
    shown = bench("peak", "--stored")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "`aisp peak` measures them" in shown.stderr
    put_peak(state, "01A", scale=0.5)
    put_peak(state, "01B")
    found = json.loads(bench("peak", "--stored", "--json").stdout)
    assert (found["peak_id"], found["wall"]) == ("01B", "2026-01-02T03:04:05+00:00")
    assert [c["value"] for c in found["ceilings"]] == [3.02e12, 7.2e14, 1.5e-6, None]
    assert not (state / "engine.log").exists()


def test_ceilings_whose_end_was_lost_in_a_gap_are_read_from_the_store(state: Path) -> None:
    put_peak(state)
    with FakeEngine() as engine:
        engine.lose_end = True
        shown = bench("peak", "--json")
    assert shown.exit_code == 0
    assert len(json.loads(shown.stdout)["ceilings"]) == len(CEILINGS)


# -- roofline ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A target of 1e6 flops over 8e6 bytes a call: 1/8 flop/byte, in fp32."""
    folder = make_target(tmp_path / "mine", "one")
    lesson = (folder / "lesson.md").read_text()
    (folder / "lesson.md").write_text(lesson.replace("{ N = 64 }", "{ N = 1000000 }"))
    still = make_target(tmp_path / "mine", "still")
    lesson = (still / "lesson.md").read_text()
    (still / "lesson.md").write_text(lesson.replace('flops      = "N"', 'flops      = "0"'))
    return str(tmp_path / "mine")


def test_a_roofline_holds_each_rung_against_the_measured_roof_and_the_datasheets(state: Path, root: str) -> None:
    run = on_h100(state, "mine:one", case="default", baseline_ms=0.01, speedup=2.0)
    put_peak(state)
    shown = bench("roofline", "mine:one", "--root", root, "--json")
    assert shown.exit_code == 0
    found = json.loads(shown.stdout)
    assert (found["run_id"], found["gpu"], found["precision"], found["case"]) == (run.id, GPU, "fp32", "default")
    assert (found["flops"], found["bytes"], found["intensity"]) == (1e6, 8e6, 0.125)
    measured, datasheet = found["roofs"]
    # fp32 was not measured, so how high that roof is here is not known.
    assert (measured["name"], measured["bandwidth_bytes_per_s"], measured["flops_per_s"]) == ("measured", 3.02e12, None)
    assert (datasheet["bandwidth_bytes_per_s"], datasheet["attainable"]) == (3.35e12, pytest.approx(3.35e12 / 8))
    optimized = next(point for point in found["points"] if point["rung"] == "optimized")
    assert optimized["flops_per_s"] == pytest.approx(1e6 / 5e-6)
    assert optimized["bytes_per_s"] == pytest.approx(8e6 / 5e-6)
    assert optimized["share_of_datasheet"] == pytest.approx(8e6 / 5e-6 / 3.35e12)
    table = bench("roofline", "mine:one", "--root", root).stdout
    assert "1.00 MFLOP and 8.00 MB per call: 0.125 flop/byte" in table
    assert "datasheet  3.35 TB/s  66.9 TFLOP/s             20.0  419 GFLOP/s" in table
    assert f"run {run.id} of " in table


def test_a_case_without_arithmetic_is_held_against_the_bandwidth(state: Path, root: str) -> None:
    on_h100(state, "mine:still", case="default", baseline_ms=1e-6)
    put_peak(state)
    found = json.loads(bench("roofline", "mine:still", "--root", root, "--json").stdout)
    assert (found["intensity"], found["precision"]) == (0.0, None)
    assert [roof["attainable"] for roof in found["roofs"]] == [3.02e12, 3.35e12]
    baseline = found["points"][0]
    assert (baseline["flops_per_s"], baseline["bytes_per_s"]) == (None, pytest.approx(512 / 1e-9))
    assert baseline["share_of_measured"] == pytest.approx(512 / 1e-9 / 3.02e12)
    assert "arithmetic" not in bench("roofline", "mine:still", "--root", root).stdout


def test_a_case_that_crosses_a_link_is_held_against_the_link(state: Path, root: str, tmp_path: Path) -> None:
    over = make_target(tmp_path / "mine", "over")
    lesson = (over / "lesson.md").read_text()
    (over / "lesson.md").write_text(lesson.replace("goal ", 'link = "pcie"\nlink_in = "4*N"\ngoal ', 1))
    on_h100(state, "mine:over", case="default", baseline_ms=1e-4)
    found = json.loads(bench("roofline", "mine:over", "--root", root, "--json").stdout)
    assert (found["path"], found["bytes"]) == ("pcie", 256.0)
    assert [roof["bandwidth_bytes_per_s"] for roof in found["roofs"]] == [64e9]
    table = bench("roofline", "mine:over", "--root", root).stdout
    assert "256 B per call over pcie" in table and ["roof", "pcie", "arithmetic"] in [
        r.split()[:3] for r in table.splitlines()
    ]


def test_the_roofs_are_of_the_gpu_that_ran(state: Path, root: str) -> None:
    on_h100(state, "mine:one", case="default", environment={**H100, "gpu_uuid": "GPU-2"})
    put_peak(state)
    shown = bench("roofline", "mine:one", "--root", root)
    found = json.loads(bench("roofline", "mine:one", "--root", root, "--json").stdout)
    assert [roof["name"] for roof in found["roofs"]] == ["datasheet"]
    assert "the ceilings of this GPU were not measured; `aisp peak` does" in shown.stdout


def test_a_roofline_of_a_run_is_of_that_run_and_not_of_its_targets_newest(state: Path, root: str) -> None:
    place: dict[str, Any] = {"target": "mine:one", "folder": os.fsencode(Path(root) / "one")}
    on_gpu = {"device": "cuda", "case": "default", "environment": H100}
    older, newer = (remember(state, baseline_ms=time_ms, **on_gpu, **place) for time_ms in (0.01, 0.02))
    on_a_cpu = remember(state, environment=LAPTOP, **place)
    for word, run in ((older.id, older), (str(Path(root) / "one"), newer)):
        shown = bench("roofline", word, "--json")
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout)["run_id"] == run.id
    shown = bench("roofline", on_a_cpu.id)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert f"run {on_a_cpu.id} of mine:one was not timed on a GPU; `aisp run " in shown.stderr


def test_a_roofline_of_what_was_not_timed_on_a_known_gpu_ends_with_1(state: Path, root: str) -> None:
    remember(state, "mine:one", environment=LAPTOP)
    shown = bench("roofline", "mine:one", "--root", root)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "no timed run of mine:one on a GPU is stored" in shown.stderr
    on_h100(state, "mine:one", environment={"gpu": "NVIDIA of next year", "gpu_uuid": "GPU-9"})
    shown = bench("roofline", "mine:one", "--root", root)
    assert shown.exit_code == 1
    assert "nothing is known of NVIDIA of next year" in shown.stderr
    assert bench("roofline", "mine:tow", "--root", root).exit_code == 2


@pytest.mark.slow
def test_the_picture_is_a_png_of_a_useful_size(state: Path, root: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for target in ("mine:one", "mine:still"):
        on_h100(state, target, case="default", baseline_ms=0.01)
        file = tmp_path / f"{target[5:]}.png"
        shown = bench("roofline", target, "--root", root, "--png", str(file), "--json")
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout)["png"] == str(file)
        data = file.read_bytes()
        assert data.startswith(b"\x89PNG\r\n")
        width, height = struct.unpack(">II", data[16:24])
        assert width >= 1200
        assert height >= 700
    drawn = tmp_path / "roof.svg"
    assert bench("roofline", "mine:one", "--root", root, "-o", str(drawn)).exit_code == 0
    assert drawn.read_bytes().startswith(b"<?xml"), "its name says so"
    shown = bench("roofline", "mine:one", "--root", root, "--png", str(tmp_path / "none" / "x.png"))
    assert shown.exit_code == 2
    assert "cannot be written: No such file" in shown.stderr


def test_the_picture_says_what_it_shows_and_no_two_labels_overlap(root: str) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    from aisp.kernels import catalog
    from aisp.tui.cli import roofline_picture

    target = catalog.load([Path(root)]).find("mine:one")
    run = Followed(
        replace(unplanned("01RUN", "mine:one"), device="cuda", case="default", wall="2026-01-02T13:04:05+00:00")
    )
    # Six rungs within a percent of each other, and under the roof.
    for number in range(6):
        run.take(heard.arm(
            run_id="01RUN", arm=f"optimized_{number}", state="ok", correctness="correct", timing="cold",
            median_ms=0.003 * (1 + number / 1000), low_ms=0.0029, high_ms=0.0031, samples=10,
        ))  # fmt: skip
    roofs = of_case(target, "default", GPU, None, measures="c")
    assert isinstance(roofs, Roofline)
    figure = roofline_picture.picture(Chart(target, run, roofs))
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "flop/byte" in axes.get_xlabel()
    assert "FLOP/s" in axes.get_ylabel()
    texts = {text.get_text(): text for text in axes.texts}
    assert "mine:one" in texts
    title = axes.get_title(loc="left")
    assert GPU in title
    assert "2026-01-02" in title
    assert "datasheet 3.35 TB/s" in texts
    assert "datasheet 66.9 TFLOP/s" in texts
    figure.draw_without_rendering()
    # Without the thin lines to the points.
    boxes = [Text.get_window_extent(text) for label, text in texts.items() if label.startswith("optimized_")]
    assert len(boxes) == 6
    boxes.sort(key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))
    assert all(box.x1 <= figure.bbox.x1 and box.y0 >= 0 for box in boxes)


def test_labels_keep_their_order_and_their_distance_and_stay_under_the_roof() -> None:
    assert labels_apart([0.0, 100.0], 10) == [0.0, 100.0]
    assert labels_apart([50.0, 50.0, 52.0], 10) == pytest.approx([50.667 - 10, 50.667, 50.667 + 10], abs=0.01)
    placed = labels_apart([3.0, 1.0, 2.0, 30.0], 10, ceiling=20.0)
    assert placed[3] == 20.0
    ordered = [placed[1], placed[2], placed[0], placed[3]]
    assert all(high - low >= 10 - 1e-9 for low, high in pairwise(ordered))
    assert labels_apart([], 10) == []


_LOADED = """
import atexit, os, sys
def report():
    open(os.environ["MODULES_FILE"], "w").write("yes" if "matplotlib" in sys.modules else "no")
atexit.register(report)
from aisp.tui.cli.tree import main
main()
"""


def loads_matplotlib(tmp_path: Path, *words: str) -> bool:
    file = tmp_path / "modules"
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *words],
        cwd=MAIN, env={**os.environ, "MODULES_FILE": str(file)}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return file.read_text() == "yes"


@pytest.mark.slow
def test_only_a_picture_loads_matplotlib(state: Path, root: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    on_h100(state, "mine:one", case="default")
    words = ["roofline", "mine:one", "--root", root]
    assert not loads_matplotlib(tmp_path, *words)
    assert not loads_matplotlib(tmp_path, "list")
    assert not loads_matplotlib(tmp_path, "history", "mine:one")
    assert loads_matplotlib(tmp_path, *words, "--png", str(tmp_path / "x.png"))


def test_a_picture_without_matplotlib_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, state: Path, root: str, tmp_path: Path
) -> None:
    on_h100(state, "mine:one", case="default")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    shown = bench("roofline", "mine:one", "--root", root, "--png", str(tmp_path / "x.png"))
    assert shown.exit_code == 3
    assert "a picture needs matplotlib" in shown.stderr
    assert not (tmp_path / "x.png").exists()


# -- selftest ----------------------------------------------------------------------------------------------------------

STREAMS = [
    {"name": "iid", "false_positive_rate": 0.012, "band": [0.0, 0.05], "power": {"0.01": 0.4, "0.1": 1.0}, "ok": True},
    {"name": "modes", "false_positive_rate": 0.01, "band": [0.0, 0.05], "power": {"0.01": 0, "0.1": 0.2}, "ok": False},
    {"name": "ar1", "false_positive_rate": 0.09, "band": [0.0, 0.05], "power": {"0.01": 0.7, "0.1": 1.0}, "ok": False},
]


def plays(monkeypatch: pytest.MonkeyPatch, streams: list[dict[str, Any]], status: int) -> None:
    """Put a script in the self-test's place, which answers so and repeats what it was asked on stderr."""
    found = {"streams": streams, "trials": 1200, "seed": 7, "replicas": 5, "level": 0.05, "ok": status == 0}
    script = f"import sys; sys.stderr.write(' '.join(sys.argv[1:])); print({json.dumps(found)!r}); sys.exit({status})"
    monkeypatch.setattr(selftest, "PROGRAM", (sys.executable, "-c", script))


def test_the_self_tests_rates_stand_in_a_table_with_their_bands(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plays(monkeypatch, STREAMS[:1], 0)
    shown = bench("dev", "selftest", "--trials", "1200", "--seed", "7")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "1,200 trials, 5 replicas, seed 7; found FASTER by size of effect:"
    assert lines[2].split() == ["stream", "false", "pos.", "band", "1", "%", "10", "%"]
    assert " ".join(lines[3].split()) == "iid 1.2 % 0.0..5.0 % 40 % 100 % ok"
    assert lines[-1] == "=> 1 streams, every rate as it must be"
    assert capfd.readouterr().err == "--json --trials 1200 --seed 7"  # its progress passes through


def test_a_rate_out_of_its_band_and_a_lack_of_power_end_with_1_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plays(monkeypatch, STREAMS, 1)
    shown = bench("dev", "selftest")
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[-1] == "=> out of band: ar1; too little power: modes"
    assert [line.split()[-1] for line in shown.stdout.splitlines()[3:6]] == ["ok", "WEAK", "OUT"]
    shown = bench("dev", "selftest", "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["streams"] == STREAMS


@pytest.mark.parametrize("script", ["raise SystemExit(9)", "print('[]')", "print('no')"])
def test_a_self_test_without_an_answer_ends_with_3(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(selftest, "PROGRAM", (sys.executable, "-c", script))
    shown = bench("dev", "selftest")
    assert (shown.exit_code, shown.stdout) == (3, "")
    assert "the self-test gave no answer" in shown.stderr


def test_the_self_test_itself_answers_without_a_gpu_and_from_any_folder(tmp_path: Path) -> None:
    done = aisp("dev", "selftest", "--trials", "1", "--seed", "3", "--json")
    assert done.returncode in (0, 1), done.stderr  # a single trial says nothing of a rate
    found = json.loads(done.stdout)
    assert (found["trials"], found["seed"]) == (1, 3)
    assert {"iid", "ramp", "ar1"} <= {stream["name"] for stream in found["streams"]}
    assert done.stderr


def test_the_command_line_simulates_nothing_itself() -> None:
    code = """
import sys
from aisp.tui.cli import selftest
from aisp.tui.cli.tree import main
selftest.PROGRAM = (sys.executable, "-c", "print('{\\"streams\\": []}')")
sys.argv = ["aisp", "dev", "selftest"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
assert not {"numpy", "aisp.engine.selftest"} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=MAIN, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "0 streams" in done.stdout
