"""A run shown to somebody: the one line, Markdown, page and picture; and `aisp export`, `aisp import`."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aisp.store import History, packages
from aisp.store.outcomes import State, Validity, Verdict
from aisp.store.record import Comparison, Quality
from aisp.tui import sharing
from aisp.tui.cli.tree import cli
from tests.replacing import replace
from tests.store.examples import finding, finished, planned
from tests.tui.app_support import keep
from tests.tui.fake_engine import isolate

BOX: dict[str, object] = {
    "host": "gpu-box",
    "gpu": "NVIDIA H100 80GB HBM3",
    "driver": "580.1",
    "cpu": "AMD EPYC 7763 64-Core Processor",
    "versions": {"torch": "2.13.0"},
    "git": "ab" * 20,
}
CHECKS = (
    finding("timing.wall_clock", "optimized"),
    finding("environment.clocks", "", "unavailable", "no <counters> here"),
)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TZ", "UTC")
    return isolate(monkeypatch, tmp_path)


def shared(home: Path, /, **changes: Any) -> sharing.Shared:
    run = keep(home, device="cuda", environment=BOX, **{"case": "default", "findings": CHECKS, **changes})
    with History(home / "aisp.db") as history:
        return sharing.read(history, run.id)


def ratio(verdict: Verdict, speedup: float) -> dict[str, Any]:
    item = Comparison("optimized", "baseline", verdict, speedup, speedup * 0.98, speedup * 1.02, floor=0.004)
    return {"comparisons": (item,), "verdict": verdict}


# -- the line ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "ch07:transpose optimized: 2.00x (1.96 to 2.04) faster than baseline, H100, 2 processes, floor 0.4 %"),
        (ratio(Verdict.SLOWER, 0.8), "optimized: 0.800x (0.784 to 0.816) the speed of baseline: slower, H100"),
        (ratio(Verdict.SAME, 1.0), "optimized: 1.00x (0.980 to 1.02) the speed of baseline: the same, H100"),
        (ratio(Verdict.UNDECIDED, 1.01), "the speed of baseline: undecided, H100"),
        (
            {"validity": Validity.SUSPECT},
            "ch07:transpose optimized: suspect, not a verdict: 2.00x (1.96 to 2.04) faster than baseline",
        ),
        (
            {
                "state": State.USER_ERROR,
                "reason": "'(' was never closed",
                "arms": (),
                "comparisons": (),
                "verdict": Verdict.NONE,
            },
            "ch07:transpose: error: '(' was never closed, H100, run 01",
        ),
    ],
    ids=["faster", "slower", "same", "undecided", "suspect", "failed"],
)
def test_the_one_line(state: Path, changes: dict[str, Any], said: str) -> None:
    found = sharing.line(shared(state, **changes))
    assert said in found
    assert re.search(r", run 01[0-9A-Z]{24}$", found)
    assert "\n" not in found


CAUGHT = finding("timing.wall_clock", "optimized", "caught", "0.4 ms by events, 9 ms by the clock")


def test_what_a_check_saw_of_a_cancelled_run_is_not_what_became_of_it(state: Path) -> None:
    ended = {"state": State.CANCELLED, "reason": "cancelled on request", **NO_RESULT}
    said = sharing.line(shared(state, findings=(finding("timing.wall_clock", "optimized", "caught", "no"),), **ended))
    assert "cancelled on request" in said
    assert "caught by" not in said


NO_RESULT = {"validity": Validity.CAUGHT, "verdict": Verdict.NONE, "comparisons": ()}


def test_nothing_that_was_caught_is_told_as_a_figure(state: Path) -> None:
    run = keep(state, device="cuda", environment=BOX, findings=(CAUGHT,), **NO_RESULT)
    with History(state / "aisp.db") as history:
        told = sharing.read(history, run.id)
        assert sharing.line(told).startswith("ch07:transpose optimized: caught by timing.wall_clock: 0.4 ms by events")
        text, page = sharing.markdown(told), sharing.page(told)
        picture = sharing.FORMS["svg"][1](history, run.id)
    assert "optimized" not in told.samples
    assert "0.5000" not in text and "0.5000" not in page and "0.5000" not in picture


# -- the forms ---------------------------------------------------------------------------------------------------------


def test_markdown_is_short_and_begins_with_the_line(state: Path) -> None:
    told = shared(state, manifest={"axes": {"M": 8192, "N": 4096}})
    lines = sharing.markdown(told).splitlines()
    assert lines[0] == f"**{sharing.line(told)}**"
    assert len(lines) <= 30
    text = "\n".join(lines)
    assert "case default (M=8192, N=4096), on cuda" in text
    assert "machine H100 · gpu-box" in text
    assert "driver 580.1" in text and "torch 2.13.0" in text
    assert "- checks: 1 without an answer, 1 passed" in text
    assert f"run `{told.seal[:12]}`" in text
    assert "`aisp run ch07:transpose --case default` at commit `abababababab`" in text
    assert "| optimized | 0.5000 [0.4950..0.5050] | 2.00x [1.96..2.04] | 82 % | 100 | cold | faster |" in text


def test_every_form_says_where_it_was_judged_and_what_its_processes_were_held_from(state: Path) -> None:
    inside = tuple(replace(arm, quality=Quality(inside="no room")) for arm in finished(planned()).arms)
    run = keep(state, device="cuda", environment={**BOX, "confined": ["files"]}, arms=inside)
    with History(state / "aisp.db") as history:
        told = sharing.read(history, run.id)
        forms = [sharing.markdown(told), sharing.page(told)]
        sample = json.loads(sharing.FORMS["kernelbench"][1](history, run.id))
    for text in forms:
        assert "judged inside" in text and "no room" in text
        assert "confined: files; not reading, network, signals, scheduling" in text
    assert '"judged": "judged inside (no room)"' in json.dumps(sample)


def test_a_page_says_once_what_it_shows(state: Path) -> None:
    told = shared(state)
    seen = re.sub(r"<title>.*?</title>", "", sharing.page(told))
    assert seen.count(sharing.line(told).split(",")[0]) == 1
    assert seen.count(sharing.timed_what(told)) == 1


EVIL = '<script>alert(1)</script> & "x" | `y` [z](http://evil) **b** _i_ \x1b[31m'


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]


def test_a_page_is_whole_loads_nothing_and_escapes_all_that_came_from_outside(state: Path) -> None:
    evil = {**BOX, "host": EVIL, "gpu": EVIL, "driver": EVIL, "versions": {EVIL: EVIL}}
    said = (finding("output.form", "", "suspect", EVIL),)
    run = keep(state, environment=evil, findings=said, flags=(EVIL,), title=EVIL, case=EVIL, validity=Validity.SUSPECT)
    with History(state / "aisp.db") as history:
        page = sharing.FORMS["html"][1](history, run.id)
        picture = sharing.FORMS["svg"][1](history, run.id)
        text = sharing.FORMS["md"][1](history, run.id)
    tags = Tags()
    tags.feed(page)
    assert {"html", "svg", "table", "h1"} <= tags.seen
    assert not tags.seen & {"script", "img", "link", "iframe", "b"}
    assert tags.links == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    assert "\x1b" not in page + picture + text
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("- again: `"))
    assert "\\<script" in prose and "\\`y\\`" in prose and "\\*\\*b\\*\\*" in prose
    assert "[z](http" not in prose and "<script" not in prose.replace("\\<script", "")


def test_a_picture_has_every_rung_with_its_figures(state: Path) -> None:
    run = keep(state, environment=BOX)
    with History(state / "aisp.db") as history:
        drawn = ElementTree.fromstring(sharing.FORMS["svg"][1](history, run.id))
    texts = [node.text or "" for node in drawn.iter() if node.tag.endswith("}text")]
    assert "optimized: 0.5000 [0.4950..0.5050] ms, 2.00x [1.96..2.04] faster" in texts
    assert "baseline: 1.000 [0.9900..1.010] ms" in texts
    assert sum(node.tag.endswith("}path") for node in drawn.iter()) == 4  # samples and distribution of two rungs


def test_a_run_without_samples_has_a_picture_that_says_so(state: Path) -> None:
    run = keep(state, state=State.USER_ERROR, reason="no", arms=(), comparisons=(), verdict=Verdict.NONE)
    with History(state / "aisp.db") as history:
        assert "no samples of a rung whose figures may be shown" in sharing.FORMS["svg"][1](history, run.id)


# -- the commands ------------------------------------------------------------------------------------------------------


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words])


@pytest.mark.parametrize("form", list(sharing.FORMS))
def test_a_run_or_a_target_s_last_result_is_written_to_stdout_or_into_a_file(
    state: Path, tmp_path: Path, form: str
) -> None:
    run = keep(state, environment=BOX, findings=CHECKS)
    shown = bench("export", "ch07:transpose", f"--{form}")
    assert shown.exit_code == 0
    assert run.id in shown.stdout
    file = tmp_path / "out"
    assert bench("export", run.id[:12], str(file), f"--{form}").exit_code == 0
    assert file.read_text("utf-8").rstrip("\n") == shown.stdout.rstrip("\n")
    assert [path.name for path in tmp_path.glob(".out*")] == []
    assert bench("export", "transpose", f"--{form}").stdout == shown.stdout


def test_what_cannot_be_exported_says_why(state: Path, tmp_path: Path) -> None:
    run = keep(state)
    assert "no target 'ch07:nope'; did you mean ch07:transpose" in bench("export", "ch07:nope").stderr
    assert (
        "no result of 'ch05:collate' is stored; `aisp run TARGET` makes one" in bench("export", "ch05:collate").stderr
    )
    assert bench("export", "01NOPE").exit_code == 2
    assert "no target 'transpoze'" in bench("export", "transpoze").stderr
    several = bench("export", "ch09")
    assert several.exit_code == 2
    assert "'ch09' means 4 targets; name one" in several.stderr
    refused = bench("export", run.id, str(tmp_path / "none" / "x.md"))
    assert refused.exit_code == 2
    assert "cannot be written" in refused.stderr


def packed(state: Path, tmp_path: Path) -> tuple[str, Path]:
    """A package of a run of another machine, whose store is gone."""
    there = tmp_path / "there"
    run = keep(there, environment=BOX, device="cuda", findings=CHECKS)
    file = tmp_path / "run.json"
    with History(there / "aisp.db") as history:
        file.write_text(packages.write(history, run.id, "0.1.0"))
    return run.id, file


def test_an_imported_run_is_in_the_history_under_its_machine_and_no_result_here(state: Path, tmp_path: Path) -> None:
    run_id, file = packed(state, tmp_path)
    own = keep(state, environment={"host": "here", "cpu": "a CPU"}, device="cpu")
    shown = bench("import", str(file))
    assert (shown.exit_code, shown.stdout) == (0, f"ch07:transpose of H100 · gpu-box, run {run_id}\n")
    assert "was here already" in bench("import", str(file)).stdout
    history = bench("history", "ch07:transpose").stdout
    assert "H100 · gpu-box" in history and "imported" in history and own.id in history
    listed = json.loads(bench("history", "ch07:transpose", "--json").stdout)["runs"]
    assert [one["run_id"] for one in listed] == [own.id]
    assert bench("history", run_id).exit_code == 0
    assert "imported from another machine" in bench("export", run_id).stdout
    assert run_id not in bench("export", "ch07:transpose").stdout
    verified = CliRunner().invoke(cli, ["store", "--verify"])
    assert verified.exit_code == 0
    assert "1 imported run: as imported" in verified.stdout


def test_a_machine_without_a_run_of_its_own_shows_what_it_imported(state: Path, tmp_path: Path) -> None:
    run_id, file = packed(state, tmp_path)
    assert bench("import", str(file)).exit_code == 0
    shown = bench("history")
    assert shown.exit_code == 0
    assert run_id in shown.stdout
    assert bench("score").exit_code != 0
    verified = CliRunner().invoke(cli, ["store", "--verify"])
    assert (verified.exit_code, "all of it is what was written" in verified.stdout) == (0, True)


def test_what_is_no_package_is_named_and_the_others_are_taken_in(state: Path, tmp_path: Path) -> None:
    run_id, file = packed(state, tmp_path)
    half, changed = tmp_path / "half.json", tmp_path / "changed.json"
    half.write_text(file.read_text()[:5000])
    changed.write_text(file.read_text().replace("gpu-box", "my-box"))
    shown = bench("import", str(half), str(changed), str(file), "--json")
    assert shown.exit_code == 1
    told = json.loads(shown.stdout)["files"]
    assert "it ends too early, as half a file does" in told[0]["problem"]
    assert "its hash does not fit" in told[1]["problem"]
    assert (told[2]["run_id"], told[2]["new"], told[2]["problem"]) == (run_id, True, None)
    none = bench("import", str(file), str(tmp_path / "none.json"))
    assert none.exit_code == 2 and "none.json' does not exist" in none.stderr
