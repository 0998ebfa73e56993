"""What is told of an arm's samples in words, the same in the app and on the command line."""

from __future__ import annotations

import pytest

from aisp.store.record import Quality
from aisp.store.results.comparison import clocks_differ
from aisp.tui.results import quality_notes, timing_words


@pytest.mark.parametrize(
    ("timing", "calls", "text"),
    [("cold", 1, "cold"), ("cold", None, "cold"), ("cold graph", 16, "cold graph x16"), ("none", None, "-")],
)
def test_a_timing_names_how_many_calls_a_sample_holds(timing: str, calls: int | None, text: str) -> None:
    assert timing_words(timing, calls) == text


def test_of_ordinary_samples_nothing_is_told() -> None:
    ordinary = {
        "drift": -0.009,
        "autocorrelation": 0.5,
        "throttled_share": 0.0,
        "resolution_ms": 3.2e-5,
        "profiler_ms": 0.393,
    }
    assert quality_notes(Quality(**ordinary), 0.4) == []
    assert quality_notes(Quality(), None) == []
    assert quality_notes(None) == []


@pytest.mark.parametrize(
    ("quality", "words"),
    [
        (Quality(drift=0.031), "times rise by 3.1 % within a replica"),
        (Quality(drift=-0.031), "times fall by 3.1 % within a replica"),
        (Quality(autocorrelation=-0.7), "successive samples hang together (autocorrelation -0.70)"),
        (Quality(low_mode_ms=0.4, high_mode_ms=0.5, high_share=0.25), "two modes, 0.4000 and 0.5000 ms"),
        (Quality(throttled_share=0.25), "25 % of the samples set aside"),
        (
            Quality(profiler_ms=0.0017),
            "by the profiler the GPU works 1.70 µs a call, alone; the time shown is 17.6 % more",
        ),
        (
            Quality(profiler_ms=0.0025),
            "by the profiler the GPU works 2.50 µs a call, alone; the time shown is 20.0 % less",
        ),
        (Quality(resolution_ms=3.2e-5), "the clock's step of 0.0320 µs is 1.6 % of a sample"),
    ],
)
def test_what_is_out_of_the_ordinary_is_told_with_its_number(quality: Quality, words: str) -> None:
    (note,) = quality_notes(quality, 0.002)
    assert note.startswith(words)


def test_the_clocks_step_is_shared_by_the_calls_of_a_sample() -> None:
    assert quality_notes(Quality(resolution_ms=3.2e-5), 0.002, calls=16) == []


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [(1980.0, 1945.0, False), (1980.0, 1935.0, True), (1935.0, 1980.0, True), (None, 1980.0, False), (0.0, 1.0, False)],
)
def test_clocks_differ_from_two_percent_on(first: float | None, second: float | None, differ: bool) -> None:
    assert clocks_differ(first, second) is differ
