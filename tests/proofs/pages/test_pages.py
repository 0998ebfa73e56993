"""Every page that is made is the one that its writer makes; and what the writers promise."""

from __future__ import annotations

import re

import pytest

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


def test_nothing_is_written_where_nothing_changed(capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: PAGES[name].path.stat().st_mtime_ns for name in ("keys", "validity")}
    assert main(["keys", "validity"]) == 0
    assert capsys.readouterr().out == ""
    assert before == {name: PAGES[name].path.stat().st_mtime_ns for name in before}


def test_an_unknown_page_is_answered_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["kays"])
    assert "no page 'kays'; there are validity, keys" in capsys.readouterr().err
