"""The benchmark's own promises: what it reports, never how fast something is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.proofs.bench import __main__ as bench
from tests.proofs.bench import pairs, sampling, saves, sittings, table
from tests.proofs.bench.flood_engine import BATCH, MEDIAN_MS, SAMPLES_PER_S, times_ms
from tests.proofs.bench.table import Aim, Machine, Row, percentile
from tests.proofs.bench.terminal import ROOT, Terminal, environment

PAGE = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")


def machine(**changes: Any) -> Machine:
    fields: dict[str, Any] = {
        "cpu": "A CPU", "cores": 4, "gpu": "", "no_gpu": "NVML 12: not found", "python": "3.11.7",
        "torch": "2.13.0+cpu", "textual": "8.2.8", "kernel": "6.1", "load": 0.25, "wall": "2026-05-04T10:11+00:00",
    }  # fmt: skip
    return Machine(**{**fields, **changes})


def test_percentiles_are_those_of_numpy() -> None:
    import numpy as np

    for samples in ([3.0], [2.0, 1.0], [5.0, 1.0, 4.0, 2.0, 9.0, 7.5, 0.0]):
        for percent in (0, 5, 50, 95, 100):
            assert percentile(samples, percent) == pytest.approx(np.percentile(samples, percent))
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 50)


@pytest.mark.parametrize(
    ("samples", "aim", "met", "word"),
    [
        ((10.0, 40.0), Aim(50.0), True, "met"),
        ((10.0, 60.0), Aim(50.0), False, "MISSED"),
        ((0.1, 0.2, 9.0), Aim(0.5, "p50"), True, "met"),
        ((60.0,), Aim(50.0), False, "MISSED"),  # one reading is held against either column
        ((), Aim(50.0), None, "–"),
        ((60.0,), None, None, ""),
    ],
)
def test_an_aim_is_met_missed_or_open(samples: tuple[float, ...], aim: Aim | None, met: bool | None, word: str) -> None:
    row = Row("g", "w", "ms", samples, aim)
    assert (row.met, row.cells()[6]) == (met, word)


def test_what_could_not_be_measured_is_a_dash_with_the_reason() -> None:
    row = Row("sampling", "one NVML reading", "us", note="no GPU: NVML 12: not found")
    assert row.cells() == ["one NVML reading", "–", "–", "–", "", "", "", "no GPU: NVML 12: not found"]
    assert (row.document()["p50"], row.document()["count"]) == (None, 0)


def test_the_table_names_the_machine_and_why_it_has_no_gpu() -> None:
    shown = table.text(machine(), [Row("flood", "key echo", "ms", (1.0, 2.0), Aim(50.0))])
    assert "A CPU, 4 cores, load 0.2" in shown and "no GPU: NVML 12: not found" in shown and "120x40" in shown
    (line,) = [line for line in shown.splitlines() if "key echo" in line]
    assert line.split("  ")[1:2] == ["key echo"]
    assert line.split() == ["key", "echo", "1.5", "ms", "1.95", "ms", "2", "p95", "≤", "50", "met"]


def test_the_page_is_written_between_the_markers_of_the_machine_s_kind(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text(PAGE, encoding="utf-8")
    bench.write_page(page, machine(gpu="1 x H100, driver 580"), [Row("flood", "a|b", "ms", (1.0,))])
    bench.write_page(page, machine(gpu="1 x H100, driver 580"), [Row("flood", "c|d", "ms", (2.0,))])
    written = page.read_text(encoding="utf-8")
    inside = written.split("<!-- bench gpu: begin -->")[1].split("<!-- bench gpu: end -->")[0]
    assert "| c\\|d | 2 ms | – | 1 |  |" in inside and "a\\|b" not in written and "1 x H100" in inside
    assert written.split("<!-- bench gpu: begin -->")[0] == PAGE.split("<!-- bench gpu: begin -->")[0]
    page.write_text("no markers", encoding="utf-8")
    with pytest.raises(ValueError, match="no-gpu: begin"):
        bench.write_page(page, machine(), [])


def test_a_sitting_is_told_beside_the_last_one_of_its_kind_of_machine(tmp_path: Path) -> None:
    here, other = machine(gpu="1 x NVIDIA H100 80GB HBM3, driver 580"), machine()
    file = sittings.file_of(here, tmp_path)
    assert (
        file.name == "nvidia_h100_80gb_hbm3.jsonl" and sittings.file_of(other, tmp_path).name == "a_cpu_4_cores.jsonl"
    )
    echo, missing = Row("flood", "key echo", "ms", (4.0, 4.0)), Row("saves", "save, GPU", "s", note="no GPU")
    for commit, wall, value in (("abc", "2026-05-04", 2.0), ("def", "2026-05-05", 8.0)):
        taken = [replace(echo, samples=(value, value)), missing, Row("idle", f"only {commit}", "MB", (1.0,))]
        sittings.append(file, replace(here, wall=wall), commit, taken)
    known = sittings.read(file)
    assert [figure.figure for figure in known] == ["key echo", "only abc", "key echo", "only def"]
    told, dash, fresh = sittings.beside_last([echo, missing, Row("idle", "key echo", "kB/s", (1.0,))], known)
    assert (told.before, told.cells()[4]) == (8.0, "0.50x")
    assert dash.cells()[4] == "" and fresh.cells()[4] == ""  # never measured before, or in another unit
    drawn = sittings.history(known)
    assert "| key echo | `▃█` | 2 ms | 8 ms | 4.00x |" in drawn
    assert "| only def | ` █` | 1 MB | 1 MB | – |" in drawn
    assert drawn.endswith("Sittings, oldest first: abc (2026-05-04), def (2026-05-05).")
    assert sittings.read(sittings.file_of(other, tmp_path)) == []


def test_every_figure_that_was_recorded_is_one() -> None:
    files = sorted(sittings.FOLDER.glob("*.jsonl"))
    assert files
    for file in files:
        figures = sittings.read(file)
        assert [figure.wall for figure in figures] == sorted(figure.wall for figure in figures), file
        assert all(figure.p50 >= 0 and figure.n > 0 and figure.unit for figure in figures)


def test_two_trees_are_measured_in_turns_and_apart_only_where_no_readings_mix(tmp_path: Path) -> None:
    base = tmp_path / "base"
    for name in ("bench", "proofs/bench"):  # an older tree and one of today: the newer place is asked first
        (base / "tests" / name).mkdir(parents=True)
        (base / "tests" / name / "__main__.py").touch()
        assert pairs.module_of(base) == "tests." + name.replace("/", ".")
    with pytest.raises(ValueError, match=r"has no tests\.proofs\.bench nor tests\.bench"):
        pairs.module_of(tmp_path)
    with pytest.raises(ValueError, match="neither a folder nor a commit"), pairs.tree("no-such-commit"):
        pass
    clear, mixed, gone = (
        pairs.Pair("save", "s", (1.0, 1.2), (2.0, 2.4)),
        pairs.Pair("echo", "ms", (1.0, 3.0), (2.0, 2.0)),
        pairs.Pair("new", "ms", (1.0, 1.0), ()),
    )
    assert clear.cells() == ["save, s", "1, 1.2", "2, 2.4", "0.50x", "apart"]
    assert mixed.cells()[3:] == ["1.00x", "overlap"]
    assert gone.cells()[2:] == ["–", "–", "overlap"]


def test_a_tree_is_compared_with_a_copy_of_its_commit(capfd: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--compare", ".", "--only", "sampling", "--quick"]) == 0
    out, err = capfd.readouterr()
    assert [line for line in err.splitlines() if line in ("bench: here ...", "bench: there ...")] == [
        f"bench: {place} ..." for place in ("here", "there", "there", "here")
    ]
    heads = [line for line in out.splitlines() if line.startswith("what ")]
    assert [head.split() for head in heads] == [["what", "here", "there", "here", "/", "there"]] * 4
    assert out.startswith("after 1 of 4 sittings\n\nwhat ")


@pytest.mark.parametrize("name", bench.GROUPS)
def test_every_group_is_documented(name: str) -> None:
    assert f"\n### {name}\n" in PAGE


def test_the_bench_reports_one_group_as_json_and_succeeds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.proofs.bench", "--only", "sampling", "--quick", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {row["group"] for row in told["rows"]} == {"sampling"}
    assert told["machine"]["cores"] == len(os.sched_getaffinity(0))
    assert all((row["p50"] is None) == bool(row["note"].startswith("no GPU")) for row in told["rows"])


def test_a_group_that_fails_is_told_in_its_place_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*, quick: bool) -> Any:
        raise RuntimeError("the engine did not start")

    monkeypatch.setattr(saves, "measure", broken)
    assert bench.main(["--only", "saves", "--only", "sampling", "--quick"]) == 1
    shown = capsys.readouterr().out
    assert "RuntimeError: the engine did not start" in shown and "one NVML reading" in shown


def test_a_sitting_that_is_cut_off_has_recorded_the_groups_that_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*, quick: bool) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, "measure", lambda *, quick: iter([Row("sampling", "one reading", "us", (2.0, 3.0))]))
    monkeypatch.setattr(saves, "measure", cut_off)
    with pytest.raises(KeyboardInterrupt):
        bench.main(["--only", "sampling", "--only", "saves", "--record", str(tmp_path)])
    (file,) = tmp_path.iterdir()
    assert [(figure.figure, figure.p50, figure.n) for figure in sittings.read(file)] == [("one reading", 2.5, 2)]


def test_a_slow_terminal_reads_no_more_than_it_may(tmp_path: Path) -> None:
    talker = [sys.executable, "-c", "import sys\nwhile True: sys.stdout.write('x' * 1000)"]
    with Terminal(talker, environment(tmp_path), bytes_per_s=15_000.0) as terminal:
        terminal.until(lambda: terminal.raw_bytes > 0)
        start, before = time.monotonic(), terminal.raw_bytes
        terminal.run(1.0)
        took = time.monotonic() - start
        assert 0 < terminal.raw_bytes - before <= 15_000 * took + 300
        terminal.signal(signal.SIGTERM)
        terminal.end()


def test_the_terminal_shows_what_was_drawn_and_skips_questions_it_cannot_answer(tmp_path: Path) -> None:
    drawn = "\\x1b[?2026$p\\x1b[>1uhello \\x1b[7mw\\x1b[0morld\\x1b[2;3Hlow"
    with Terminal([sys.executable, "-c", f"print('{drawn}', end='', flush=True)"], environment(tmp_path)) as terminal:
        assert terminal.end() == 0
        assert terminal.shown().splitlines()[:2] == ["hello world", "  low"]
        assert (terminal.look(0, 6)[1], terminal.look(0, 7)[1]) == (True, False)


def test_a_time_is_seen_on_the_watch_screen_as_it_is_drawn() -> None:
    drawn = (ROOT / "tests" / "tui" / "snapshots" / "watch_120x40.txt").read_text("utf-8")
    terminal: Any = SimpleNamespace(screen=SimpleNamespace(display=drawn.splitlines()))
    screen = saves.Screen(terminal)
    assert [number for number in range(8) if screen._shows(number)] == [0, 1, 4, 5], "2 was not run, 3 was wrong"


def test_the_flood_is_what_the_page_says() -> None:
    assert (BATCH, SAMPLES_PER_S) == (25, 5000)
    taken = times_ms("optimized", 0, 2000)
    assert min(taken) > 0.9 * MEDIAN_MS["optimized"] and max(taken) > 1.6 * MEDIAN_MS["optimized"]
    assert times_ms("optimized", 500, 3) == taken[500:503]


def test_an_edit_s_time_is_that_from_the_save_less_its_own_compile_steps() -> None:
    from aisp.store.record import Step

    edit = saves.Edit(saved_ns=1_000_000_000, noticed_ns=1_020_000_000, planned_ns=1_050_000_000)
    edit.started_ns, edit.first_ns, edit.screen_ns = 1_060_000_000, 1_900_000_000, 2_000_000_000

    def step(name: str, arm: str, at_ms: float, ms: float) -> Step:
        return Step(name, arm, 10**9 + int(at_ms * 1e6), ms)

    edit.steps = [
        step("warm worker", "", 60, 10),
        step("compile", "baseline", 70, 300),
        step("compile", "optimized", 80, 400),
        step("verify", "optimized", 480, 20),
        step("warm-up", "optimized", 500, 40),
    ]
    assert edit.to_client_s() == pytest.approx(0.5)
    assert edit.to_screen_s() == pytest.approx(0.6)
    parts = edit.parts_ms()
    assert parts["save noticed"] == 20 and parts["settled, stored, planned"] == 30 and parts["compile"] == 410
    assert parts["first batch"] == pytest.approx(360)


def test_the_watched_pair_is_a_target_that_the_catalogue_accepts(tmp_path: Path) -> None:
    from aisp.kernels import catalog

    saves.write_target(tmp_path / "pair")
    found = catalog.load([tmp_path / "pair"])
    assert found.problems == () and [target.id for target in found.targets] == [saves.TARGET]
    assert [rung.name for rung in found.targets[0].honest_rungs] == ["baseline", "optimized"]
