"""How far and how long, in words: what stands on the run screen, in lists and on the command line."""

from __future__ import annotations

import re

import pytest

from aisp.store.results.progress import STEP_WORDS, Progress, step_words
from aisp.tui import progress
from aisp.tui.cli.follow import Followed, Follower, progress_line
from tests import heard
from tests.tui.fake_engine import MAIN
from tests.tui.fakes import START_NS, run_under_way

S = 10**9


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Progress(31.0, 40.0, 3, 5, share=0.77, left_s=9.2), "process 3 of 5 · about 9 s left"),
        (Progress(31.0, 128.0, 2, 5, True, 0.3, 96.6), "process 2 of at most 5 · about 95 s left"),
        (Progress(31.0, 2000.0, 1, 1, share=0.3, left_s=1400.0), "process 1 of 1 · about 23 min left"),
        (Progress(31.0, None, 2, 5, True), "process 2 of at most 5"),
        (Progress(31.0), ""),
        (Progress(None, 40.0, 0, 5), "takes about 40 s"),
        (Progress(40.0, 40.0, 5, 5, share=0.97), "process 5 of 5 · about as long as last time (40 s)"),
        (Progress(70.0, 40.0, 5, 5, share=0.97, longer=True), "process 5 of 5 · longer than last time (40 s)"),
        (
            Progress(50.0, 80.0, 2, 5, share=0.3, left_s=90.0, longer=True),
            "process 2 of 5 · longer than last time (80 s): about 90 s left",
        ),
    ],
)
def test_what_a_person_reads(told: Progress, words: str) -> None:
    assert progress.words(told) == words


def test_where_there_is_little_room() -> None:
    assert progress.short_words(Progress(31.0, 40.0, 3, 5, share=0.77, left_s=9.2)) == "3/5, 9 s left"
    assert progress.short_words(Progress(70.0, 40.0, 5, 5, share=0.97, longer=True)) == "5/5, longer than usual"
    assert progress.short_words(Progress(70.0)) == ""


def test_a_bar_is_there_where_the_time_is_known_and_never_full_before_the_end() -> None:
    assert progress.bar(0.5, 8, False) == "████░░░░" and progress.bar(0.5, 8, True) == "####...."
    assert progress.bar(None, 8, False) == "" == progress.bar(0.5, 0, False)
    assert progress.bar(0.97, 40, True).endswith(".")


def test_every_step_that_the_engine_reports_has_words_and_the_documentation_them() -> None:
    sources = "".join(file.read_text() for file in (MAIN / "engine").glob("*.py"))
    named = set(re.findall(r'(?:\.step|Step)\("([^"]+)"', sources))
    assert named == set(STEP_WORDS)
    told = (MAIN / "docs" / "screens.md").read_text().replace("\n  ", " ")
    assert [words for words in STEP_WORDS.values() if words not in told] == []
    assert step_words("verify", "optimized") == "check values optimized"
    assert step_words("a step of another version") == "a step of another version"


def test_the_line_of_the_command_line_says_how_far_and_how_long_first() -> None:
    follower = Follower(["R1"])
    for event in run_under_way(expected_s=40.0, begun_s=(0.0, 12.0)):
        follower.apply(event)
    run = follower.runs["R1"]
    line = progress_line(run, follower, 1, 2, 23.0, now_ns=START_NS + 22 * S)
    assert line.startswith("[1/2] ch05:collate  [#####.....]  process 2 of at most 5, about 18 s left  measure  ")
    assert line.isascii() and line.endswith("  23.0 s")


def test_without_a_run_like_it_the_line_has_no_bar_and_no_time_left() -> None:
    run = Followed(heard.planned(run_id="R1", target="mine:one", rungs=["baseline"]).run)
    run.take(heard.state(run_id="R1", state="starting", at_ns=START_NS))
    line = progress_line(run, Follower(["R1"]), 1, 1, 3.0, now_ns=START_NS + 3 * S)
    assert line == "[1/1] mine:one  starting  3.0 s"
