"""How far a run or fuzz is and how long it still takes, in words and as a bar.

What may be said stands in `store.results.progress`; here it gets its words, for the app and the command line alike.
"""

from __future__ import annotations

from aisp.store.results.progress import Progress, step_words
from aisp.store.results.reading import Reading
from aisp.tui import plain


def bar(share: float | None, width: int, ascii: bool) -> str:
    """ "████░░░░": how much of it has passed; "" where nobody knows, or there is no room."""
    if share is None or width <= 0:
        return ""
    full = min(width, int(share * width))
    return ("#" if ascii else "\u2588") * full + ("." if ascii else "\u2591") * (width - full)


def process_words(told: Progress) -> str:
    """ "process 3 of 5", "process 2 of at most 5"; "" before the first."""
    if not told.at:
        return ""
    return f"process {told.at}" + (f" of {'at most ' if told.fewer else ''}{told.planned}" if told.planned else "")


def time_words(told: Progress) -> str:
    """ "about 9 s left", or how it stands against the last time; "" where nothing is known of that."""
    if told.expected_s is not None and told.elapsed_s is None:
        return f"takes about {plain.about(told.expected_s)}"
    left = "" if told.left_s is None else f"about {plain.about(told.left_s)} left"
    if told.expected_s is None or (left and not told.longer):
        return left
    last = plain.about(told.expected_s)
    if not told.longer:
        return f"about as long as last time ({last})"
    return f"longer than last time ({last})" + (f": {left}" if left else "")


def short_words(told: Progress) -> str:
    """The same where there is little room: "3/5, 9 s left", "3/5, longer than usual"; "" where nothing is known."""
    place = f"{told.at}/{told.planned}" if told.at and told.planned else ""
    left = "" if told.left_s is None else f"{plain.about(told.left_s)} left"
    return ", ".join(part for part in (place, left or ("longer than usual" if told.longer else "")) if part)


def words(told: Progress, dot: str = " \u00b7 ") -> str:
    return dot.join(part for part in (process_words(told), time_words(told)) if part)


def doing(run: Reading) -> str:
    step = run.running_step
    return "" if step is None else step_words(step.name, step.arm)
