"""The page holds what the stored results say, and the tables say what was measured, misses included."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.agreement import report
from tests.proofs.pages.__main__ import PAGES
from tests.proofs.pages.markers import markers

PAGE = PAGES["measurement"].path

Document = dict[str, Any]


def row(name: str, **times_us: list[float | None]) -> Document:
    """A row of timers.json: a list of times by timer, in us."""
    timers: Document = {
        timer: {"ms": [None if t is None else t / 1e3 for t in times], "wall_s": [0.15] * len(times)}
        for timer, times in times_us.items()
    }
    if "profiler" in timers:
        timers["profiler"]["kernels"] = 1
    if "aisp" in timers:
        timers["aisp"] |= {"how": "cold graph x16", "sm_clock_mhz": [1980.0, 1970.0]}
    return {"name": name, "bound": "bytes", "language": "CUDA", "timers": timers}


def timers_document(*rows: Document) -> Document:
    return {"repeats": 2, "wall_s": 0.15, "problems": {}, "rows": list(rows)}


def cells(table: report.Table, name: str) -> dict[str, str]:
    """One row by its head; where a head stands twice, the first."""
    found = next(r for r in table if r[0].startswith(name))
    return dict(reversed(list(zip(table[0], found, strict=True))))


@pytest.mark.parametrize("name", report.SECTIONS)
def test_every_section_of_the_page_is_written_from_its_results_and_from_nothing_else(name: str, tmp_path: Path) -> None:
    begin, end = markers(f"agreement {name}")
    text = PAGE.read_text(encoding="utf-8")
    stale = re.sub(f"({begin}).*?({end})", r"\1 typed by hand \2", text, flags=re.DOTALL)
    assert "typed by hand" in stale
    assert report.written(stale, report.DATA) == report.written(text, report.DATA)
    assert f"{begin}\n\n{report.NOT_YET}\n\n{end}" in report.written(text, tmp_path)
    with pytest.raises(ValueError, match=f"agreement {name}: begin"):
        report.written(text.replace(begin, ""), tmp_path)


def test_a_timer_s_time_is_held_against_the_profiler_s() -> None:
    document = timers_document(
        row("long", profiler=[100.0, 102.0], aisp=[102.0, 102.0], do_bench=[110.0, 112.0], nvbench=[104.0, None]),
    )
    table = report.timers_table(document)
    found = next(r for r in table if r[0] == "long")
    assert found[3] == "101"
    assert found[table[0].index("aisp us") :][:2] == ["102", "+1.0 %"]
    assert found[table[0].index("NVBench us") :][:2] == ["104", "+3.0 %"]
    assert found[table[0].index("do_bench us") :][:2] == ["111", "+9.9 %"]
    assert found[-3:] == ["cold graph x16", "1975", "–"]


def test_missed_aims_are_named() -> None:
    document = timers_document(
        row("good", profiler=[100.0, 100.0], aisp=[101.0, 101.2], do_bench=[105.0, 105.0]),
        row("far", profiler=[100.0, 100.0], aisp=[103.0, 103.0], do_bench=[105.0, 106.0]),
        row("short", profiler=[5.0, 5.0], aisp=[6.0, 6.0], do_bench=[5.5, 5.5]),
    )
    found = report.timers_findings(document)
    assert found[0] == "Over 20 us, aisp within 2 % of the profiler: 1 of 2. Missed: far +3.0 %."
    assert found[1] == (
        "Up to 20 us, nearer to the profiler than do_bench: 0 of 1. Missed: short (+20.0 % against +10.0 %)."
    )
    (against_do_bench,) = [line for line in found if "do_bench's" in line]
    assert against_do_bench.startswith("Run-to-run variation no greater than do_bench's: 2 of 3")
    assert "Greater: good (0.140 % against 0.000 %)." in against_do_bench


def test_a_timer_that_failed_is_a_dash_and_its_reason_is_told() -> None:
    broken = row("one", profiler=[100.0, 100.0], aisp=[101.0, 101.0])
    broken["timers"]["nvbench"] = {"error": ["RuntimeError: no stream", None], "ms": [None, None]}
    document = timers_document(broken) | {"problems": {"do_bench": "its process ended"}}
    assert cells(report.timers_table(document), "one")["NVBench us"] == "–"
    found = report.timers_findings(document)
    assert "NVBench on one: RuntimeError: no stream." in found and "do_bench failed: its process ended." in found


def comparison(rung: str, verdict: str, speedup: float | None = 1.0, half: float = 0.002) -> Document:
    low, high = (None, None) if speedup is None else (speedup - half, speedup + half)
    return {
        "rung": rung, "verdict": verdict, "speedup": speedup, "floor": 0.005,
        "low": low, "high": high,
    }  # fmt: skip


def run(name: str, *comparisons: Document, **more: Any) -> Document:
    return {
        "name": name, "language": "CUDA", "bound": "time", "took_s": 42.0, "problem": "", "timing": "cold graph",
        "calls": 16, "median_ms": 0.008, "comparisons": list(comparisons), **more,
    }  # fmt: skip


def aa_document(*runs: Document) -> Document:
    return {"rungs": 2, "replicas": 5, "rule": "", "runs": list(runs), "left_out": []}


def test_false_verdicts_are_counted_over_all_parts_and_named() -> None:
    first = aa_document(run("a", *[comparison(f"optimized_{n}", "same") for n in range(149)]))
    second = aa_document(run("b", comparison("optimized", "faster", 1.01), *[comparison("x", "undecided")] * 50))
    found = report.aa_findings([first, second])
    assert found[0].startswith("200 comparisons of identical kernels, 1 called faster or slower: 0.50 %")
    assert found[0].endswith("Aim: at most 1 %, over at least 200; met.")
    assert found[1] == "Undecided: 50 (25.0 %)."
    assert found[2].startswith("Intervals, half of each: median ")
    assert found[3] == "Wrong: b optimized faster, 1.0100 [1.0080, 1.0120], floor 0.50 %."
    shown = cells(report.aa_table([first, second]), "b")
    assert (shown["compared"], shown["undecided"], shown["faster"], shown["timing"]) == (
        "51",
        "50",
        "1",
        "cold graph x16",
    )


def test_what_one_sitting_had_no_time_for_and_another_has_done_is_not_left_out() -> None:
    first = aa_document(run("a")) | {"left_out": ["b", "c"]}
    assert report.aa_findings([first])[-1] == "Not run, for want of time: b, c."
    assert report.aa_findings([first, aa_document(run("b"))])[-1] == "Not run, for want of time: c."
    assert "Not run" not in " ".join(report.slowed_findings([first, aa_document(run("b"), run("c"))]))


def test_the_judge_s_clock_stands_beside_the_profiler_s_and_the_arms_own() -> None:
    def arm(rung: str, own_ms: float, judge_ms: float | None) -> Document:
        return {"rung": rung, "median_ms": own_ms, "outside_ms": judge_ms, "outside_error": 0.01, "inside": None}

    arms = [arm("baseline", 0.0101, 0.0099), arm("optimized", 0.0100, 0.0120), arm("optimized_02", 0.01, None)]
    judged = run("a", arms=arms, truth_ms={"baseline": 0.01})
    documents = [aa_document(judged, run("b"), run("c", arms=[arm("baseline", 0.01, None)]))]
    table = report.clocks_table(documents)
    assert [row[0] for row in table[1:]] == ["a"]
    shown = cells(table, "a")
    assert (shown["profiler us"], shown["own clock"], shown["judge"]) == ("10", "1.0100", "0.9900")
    assert shown["judge / own, arms"] == "0.9802..1.2000, 2"
    assert "beyond 5 %: 1." in report.clocks_page(
        [{**json.loads((report.DATA / "cost.json").read_text()), **documents[0]}]
    )
    assert report.clocks_page([aa_document(run("b"))]) == report.NOT_YET


@pytest.mark.parametrize(("wrong", "count"), [(3, 200), (0, 199)])
def test_too_many_false_verdicts_or_too_few_comparisons_miss_the_aim(wrong: int, count: int) -> None:
    verdicts = [comparison("r", "slower" if n < wrong else "same", 0.99) for n in range(count)]
    assert report.aa_findings([aa_document(run("a", *verdicts))])[0].endswith("MISSED.")


def test_the_interval_of_a_rate_is_wilson_s() -> None:
    assert report.wilson(0, 200) == pytest.approx((0.0, 0.018846), abs=1e-5)
    assert report.wilson(5, 100) == pytest.approx((0.021543, 0.111752), abs=1e-5)
    assert report.wilson(0, 0) == (0.0, 1.0)


def test_a_slowed_kernel_is_held_against_the_profiler_s_ratio_not_against_the_nominal_one() -> None:
    truth = {"baseline": 1.0, "optimized": 1.008, "optimized_2_percent": 1.019}
    document = aa_document(
        run(
            "k", comparison("optimized", "slower", 1 / 1.008), comparison("optimized_2_percent", "undecided", 0.97),
            comparison("optimized_5_percent", "slower", 0.95), truth_ms=truth,
        )
    )  # fmt: skip
    table = report.slowed_table([document])
    assert [r[3] for r in table[1:]] == ["1 %", "2 %", "5 %", "10 %"]
    assert [r[4] for r in table[1:]] == ["0.9921", "0.9814", "–", "–"]
    assert [r[6] for r in table[1:]] == ["yes", "no", "–", "–"]
    assert [r[7] for r in table[1:]] == ["slower", "undecided", "slower", "–"]
    summary = report.slowed_summary([document])
    assert summary[1] == ["1 %", "1", "1", "0", "0", "0", "1 of 1", "+0.00 %"]
    assert summary[2] == ["2 %", "1", "0", "1", "0", "0", "0 of 1", "-1.16 %"]
    assert summary[3][6:] == ["–", "–"] and summary[4] == ["10 %", "0", "0", "0", "0", "0", "–", "–"]


def test_costs_are_medians_over_repeats_and_failures_are_told() -> None:
    rows = [
        {"pair": "p", "way": "do_bench", "wall_s": wall, "inside_s": wall / 10, "speedup": speedup, "error": ""}
        for wall, speedup in ((4.0, 1.5), (5.0, 1.52), (9.0, 1.48))
    ]
    rows += [{"pair": "p", "way": "kernelbench_style", "wall_s": None, "error": "not done within 240 s"}]
    table = report.cost_table({"rows": rows})
    assert table[1] == ["p", "do_bench", "5 s", "0.5 s", "3", "1.5000 (1.4800..1.5200)", "–"]
    assert table[2][1:] == ["KernelBench-style", "–", "–", "1", "–", "not done within 240 s"]


def test_results_are_taken_from_a_folder_into_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, results = tmp_path / "data", tmp_path / "results"
    monkeypatch.setattr(report, "DATA", data)
    results.mkdir()
    with pytest.raises(SystemExit):
        report.main([str(results)])
    for part, name in ((1, "first|one"), (2, "second")):
        document = aa_document(run(name, comparison("optimized", "same")))
        (results / f"aa_{part}_of_2.json").write_text(json.dumps(document), encoding="utf-8")
    assert report.main([str(results)]) == 0
    written = report.written(PAGE.read_text(encoding="utf-8"), data)
    assert "first\\|one" in written and "second" in written and "2 comparisons of identical kernels" in written
    assert sorted(file.name for file in data.iterdir()) == ["aa_1_of_2.json", "aa_2_of_2.json"]
