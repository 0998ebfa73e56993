"""Every page that is made is the one that its writer makes; and what the writers promise."""

from __future__ import annotations

import re

import pytest

from aisp.kernels import catalog
from tests.proofs.pages import lessons
from tests.proofs.pages.__main__ import DOCS, PAGES, main


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_writer_makes(name: str) -> None:
    page = PAGES[name]
    text = page.path.read_text("utf-8")
    assert text == page.made(text), f"write it anew: python -m tests.proofs pages {name}"


def test_a_page_that_says_it_is_written_has_its_writer_here() -> None:
    for path in DOCS.glob("*.md"):
        if re.search(r"is written by `python -m", path.read_text("utf-8")):
            assert path.stem in PAGES, path.name


def test_a_lesson_of_two_gpus_says_what_came_of_each_prediction_and_keeps_it() -> None:
    """28 November: of 43 rows that nobody had timed on two H200 before, 14 were met."""
    rows = lessons.rows()
    told = [row for lesson, rungs in rows.items() if lesson != "bucketed_all_reduce" for row in rungs.values()]
    assert [len([row for row in told if row.came]), [row.came for row in told].count("met")] == [43, 14]
    assert rows["kv_layer_push"]["optimized"] == lessons.Row("7.05", "5.8..7.0", "above"), "the later sitting counts"
    for lesson, rungs in rows.items():
        (target,) = (target for target in catalog.load().targets if target.name == lesson)
        for rung in target.rungs:
            if rung.expect is not None and rung.expect.ms is not None:
                assert [float(end) for end in rungs[rung.name].predicted.split("..")] == [*rung.expect.ms], rung.name


def test_nothing_is_written_where_nothing_changed(capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: PAGES[name].path.stat().st_mtime_ns for name in ("keys", "validity")}
    assert main(["keys", "validity"]) == 0
    assert capsys.readouterr().out == ""
    assert before == {name: PAGES[name].path.stat().st_mtime_ns for name in before}


def test_an_unknown_page_is_answered_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["kays"])
    assert "no page 'kays'; there are validity, keys" in capsys.readouterr().err
