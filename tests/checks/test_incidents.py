"""docs/incidents.md: every story has its source, and every id that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aisp.checks import registry

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "incidents.md").read_text()
STORIES = 21


def named(kind: str) -> list[str]:
    """Ids on the lines "- issues: ...", "- checks: ..." or "- fixtures: ..."."""
    lines = re.findall(rf"^- {kind}: (.*)$", PAGE, re.MULTILINE)
    return [name for line in lines for name in re.findall(r"`([^`]+)`", line)]


def test_every_story_has_a_year_and_a_source() -> None:
    stories = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
    assert len(stories) == STORIES
    for story in stories:
        assert re.match(r"20[12]\d: \w", story), story[:60]
        assert len(re.findall(r"\[Source\]\(https://[^)\s]+\)", story)) == 1, story[:60]


def test_every_section_ends_with_what_answers_it() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        assert "- issues: `" in section, section[:60]
        assert "- checks: `" in section, section[:60]


@pytest.mark.parametrize("issue", sorted(set(named("issues"))))
def test_issue_exists(issue: str) -> None:
    assert issue in {known.id for known in registry.issues()}


@pytest.mark.parametrize("check", sorted(set(named("checks"))))
def test_check_exists(check: str) -> None:
    assert check in {known.id for known in registry.checks()}


@pytest.mark.parametrize("fixture", sorted(set(named("fixtures"))))
def test_fixture_exists_with_a_cheat(fixture: str) -> None:
    folder = ROOT / "checks" / "gallery" / fixture
    assert (folder / "lesson.md").is_file()
    assert list(folder.glob("cheat*.py"))
