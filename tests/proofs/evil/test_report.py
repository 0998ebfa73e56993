"""docs/reliability.md is written from its figures, and the proof of the protections from copies that lack them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.evil import matrix, protections, report
from tests.proofs.evil.protections import PROTECTIONS, Protection

VERSIONS = {"python": "3.0.0", "sqlite": "3.9.9", "system": "Linux"}
HELD = {
    "row": 7,
    "name": "deaf",
    "what": "a hang",
    "expected": "ended",
    "passed": True,
    "seen": "killed | after 2 s",
    "took_s": 8.0,
    "next_run_s": 0.25,
    "growth_bytes": 3 << 20,
}
BROKE = {
    "row": 8,
    "name": "stuck",
    "what": "no end",
    "expected": "told",
    "passed": False,
    "seen": "AssertionError: not told",
    "took_s": 1.0,
    "stubbed": "the process only pretends to be stuck",
}
DATA: dict[str, Any] = {
    "matrix_cpu": {"versions": VERSIONS, "device": "CPU", "took_s": 81.5, "rows": [HELD, BROKE]},
    "chaos": {
        "versions": VERSIONS,
        "rounds": {"light": 950, "real": 50},
        "restart_s": {"median": 0.41, "most": 2.5},
        "broken": [],
    },
    "longlife": {"versions": VERSIONS, "looks": {"old": [{"runs": 100, "resident_bytes": 52 << 20, "query_ms": 0.25}]}},
    "protections": {
        "versions": VERSIONS,
        "protections": [
            {"name": "a tie", "what": "untied", "noticed": [{"id": "14_kill", "seen": "outlived"}], "held": []},
            {"name": "a lock", "what": "open", "noticed": [], "held": ["38_user"]},
        ],
    },
}


def test_every_figure_is_on_the_page_in_its_unit() -> None:
    told = report.page(DATA)
    assert "**1 of 2 scenes of 2 faults ended as they must**, in 81.5 s." in told
    assert "| 7 | a hang | ended | killed \\| after 2 s | held | 0.25 s | 3.0 MiB |" in told
    assert "| 8 | no end | told | AssertionError: not told; in part a stub | **BROKEN** | – | – |" in told
    assert "- Row 8, no end: the process only pretends to be stuck" in told
    assert "| rounds: light | 950 |" in told
    assert "| restart: median | 0.41 s |" in told
    assert "| broken | none |" in told
    assert "| runs | resident (MiB) | query (ms) |" in told
    assert "| 100 | 52.0 | 0.25 |" in told
    assert "| a tie | untied | `14_kill` | outlived | – |" in told
    assert "| a lock | open | **none** |  | `38_user` |" in told
    assert "**nobody missed: a lock**" in told


def test_what_was_not_measured_is_said_to_be_so() -> None:
    told = report.page({})
    sections = [part for part in told.split("\n## ")[1:] if not part.startswith("How to repeat")]
    assert len(sections) == 7
    for section in sections:
        assert "Not measured: " in section, section
    assert "Python 3.0.0" not in told


def test_figures_are_kept_with_the_versions_they_hold_for(tmp_path: Path) -> None:
    report.write(tmp_path / "new", "chaos", {"rounds": 3})
    (name, found), *others = report.load(tmp_path / "new").items()
    assert (name, found["rounds"], others) == ("chaos", 3, [])
    assert set(found["versions"]) == {"python", "sqlite", "system"}


def test_each_protection_is_in_the_sources_once_and_its_rows_have_scenes(tmp_path: Path) -> None:
    rows = {fault.row for fault in matrix.load()}
    for protection in PROTECTIONS:
        assert set(protection.rows) <= rows
        for name, text, instead in protection.edits:
            source = (protections.MAIN / name).read_text("utf-8")
            assert source.count(text) == 1, f"{name}: {text}"
            compile(source.replace(text, instead), name, "exec")


MADE_UP = Protection("a limit", "no limit", (("pyproject.toml", 'name = "aisp"', 'name = "open"'),), (3,))


def test_a_scene_that_breaks_without_a_protection_has_noticed_it(tmp_path: Path) -> None:
    def played(folder: Path, rows: Sequence[int]) -> list[dict[str, Any]]:
        assert list(rows) == [3]
        held = 'name = "aisp"' in (folder / "pyproject.toml").read_text("utf-8")
        grows = {"row": 3, "name": "grows", "passed": held, "seen": "ended" if held else "went on"}
        return [grows, {"row": 3, "name": "other", "passed": True, "seen": "ended"}]

    assert protections.take_out(tmp_path, [MADE_UP], played=played) == [
        {
            "name": "a limit",
            "what": "no limit",
            "noticed": [{"id": "03_grows", "seen": "went on"}],
            "held": ["03_other"],
        }
    ]


def test_scenes_that_do_not_hold_in_the_whole_sources_prove_nothing(tmp_path: Path) -> None:
    def played(folder: Path, rows: Sequence[int]) -> list[dict[str, Any]]:
        return [{"row": 3, "name": "grows", "passed": False, "seen": "went on"}]

    with pytest.raises(RuntimeError, match="with every protection in place: 03_grows: went on"):
        protections.take_out(tmp_path, [MADE_UP], played=played)


def test_a_protection_that_has_moved_is_not_forgotten(tmp_path: Path) -> None:
    gone = Protection("gone", "gone", (("pyproject.toml", "no such line", ""),), (3,))
    with pytest.raises(ValueError, match=r"pyproject\.toml has 'no such line' 0 times, not once"):
        protections.copy(tmp_path / "copy", gone)
