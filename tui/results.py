"""Words for outcomes, and for what an arm's samples say of themselves, as both faces use them. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aisp.store.outcomes import FindingStatus, Timing

# The words for how a run ended stand with the line that tells it; both faces have them from here.
from aisp.store.results.outcome import STATE_WORDS as STATE_WORDS
from aisp.store.results.outcome import state_words as state_words
from aisp.store.results.telling import end_words as end_words
from aisp.store.results.telling import own_note as own_note
from aisp.store.results.telling import run_word as run_word
from aisp.store.results.telling import with_reason as with_reason
from aisp.tui import plain

if TYPE_CHECKING:  # a list of targets has its words from here, and answers before msgspec is imported
    from aisp.store.record import Quality

CHEAT = "cheat"

# What one check came to.
STATUS_WORDS: Mapping[FindingStatus, str] = {
    FindingStatus.CAUGHT: "caught",
    FindingStatus.SUSPECT: "suspect",
    FindingStatus.UNAVAILABLE: "unavailable",
    FindingStatus.PASSED: "passed",
    FindingStatus.NOT_APPLICABLE: "n/a",
}


# When something about an arm's samples is worth a sentence.
TOLD_DRIFT = 0.01
TOLD_AUTOCORRELATION = 0.5
TOLD_RESOLUTION = 0.01
TOLD_PROFILER = 0.02  # of the profiler's time, that ours is off


def timing_words(timing: str, calls: int | None = None) -> str:
    """How a sample was taken: "cold", "cold graph x16" where it holds 16 calls; a dash where nothing was timed."""
    if timing == Timing.NONE:
        return plain.DASH
    return f"{timing} x{calls}" if calls is not None and calls > 1 else str(timing)


def quality_notes(quality: Quality | None, median_ms: float | None = None, calls: int | None = None) -> list[str]:
    """What a person should know of an arm's samples, in words; empty where there is nothing to tell.

    Args:
        quality: of the arm.
        median_ms: its time per call, against which the clock's step is held.
        calls: how many calls one sample holds: the step is divided among them.
    """
    if quality is None:
        return []
    notes = []
    if quality.drift is not None and abs(quality.drift) > TOLD_DRIFT:
        way = "rise" if quality.drift > 0 else "fall"
        notes.append(f"times {way} by {plain.percent(abs(quality.drift), 1)} within a replica")
    if quality.low_mode_ms is not None and quality.high_mode_ms is not None:
        modes = f"two modes, {plain.number(quality.low_mode_ms)} and {plain.number(quality.high_mode_ms)} ms"
        if quality.high_share is not None:
            modes += f" ({plain.percent(quality.high_share)} in the slower)"
        notes.append(modes)
    if quality.autocorrelation is not None and abs(quality.autocorrelation) > TOLD_AUTOCORRELATION:
        notes.append(f"successive samples hang together (autocorrelation {quality.autocorrelation:.2f})")
    if quality.throttled_share:
        share = plain.percent(quality.throttled_share, 1 if quality.throttled_share < 0.1 else 0)
        notes.append(f"{share} of the samples set aside: clock below 75 % of its usual")
    if quality.profiler_ms is not None and median_ms and abs(quality.profiler_ms / median_ms - 1) > TOLD_PROFILER:
        span, off = plain.quantity(quality.profiler_ms / 1e3, "s"), median_ms / quality.profiler_ms - 1
        notes.append(
            f"by the profiler the GPU works {span} a call, alone; the time shown is {plain.percent(abs(off), 1)} "
            f"{'more' if off > 0 else 'less'}"
        )
    if quality.resolution_ms is not None and median_ms:
        step = quality.resolution_ms / (median_ms * max(1, calls or 1))
        if step > TOLD_RESOLUTION:
            notes.append(
                f"the clock's step of {plain.quantity(quality.resolution_ms / 1e3, 's')} is "
                f"{plain.percent(step, 1)} of a sample"
            )
    return notes
