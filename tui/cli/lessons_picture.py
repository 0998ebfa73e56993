"""All lessons as a picture: a row each, the speed-up as a bar from 1x on a log axis with its 95 % interval, and behind
it what was predicted: filled where that is for the hardware of the run, hatched where it is for other hardware.

matplotlib is imported when a picture is drawn, as in roofline_picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aisp.store.results import hardware, overview
from aisp.store.results.outcome import Outcome
from aisp.store.results.overview import Lesson
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli.roofline_picture import COLOURS, GRID, INK, MUTED, save, sheet
from aisp.tui.widgets.ratiobar import factor_text

ROW_IN = 0.21
BAND = "#E8DCC0"
COLOUR_OF: Mapping[Outcome, str] = {
    Outcome.FASTER: COLOURS[0],
    Outcome.SLOWER: COLOURS[1],
    Outcome.SAME: MUTED,
    Outcome.UNDECIDED: COLOURS[4],
}


def draw(lessons: Sequence[Lesson], told: str, file: str) -> None:
    """Write the picture in the form that the file's name ends with, "png" or "svg".

    Args:
        told: the order and the choice of the lessons, below the title.

    Raises:
        ModuleNotFoundError: without matplotlib.
        OSError: `file` cannot be written.
    """
    figure, axes = sheet(11.0, 1.2 + ROW_IN * max(4, len(lessons)))
    low, high = overview.span(lessons)
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    axes.set_ylim(max(4, len(lessons)) - 0.4, -0.6)
    axes.set_xticks(ticks := overview.ticks(low, high, 14), [factor_text(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="y", length=0)
    axes.set_yticks(range(len(lessons)), [clean_line(one.target.id) for one in lessons], fontsize=8.5, parse_math=False)
    axes.grid(True, axis="x", color=GRID, linewidth=0.6)
    axes.axvline(1.0, color=INK, linewidth=0.9, zorder=3)
    axes.set_xlabel(
        "speed-up over the first baseline, with its 95 % interval; shaded: what was predicted, hatched where that was"
        " for other hardware",
        color=INK,
        fontsize=9,
    )
    axes.set_title(clean_line(told), loc="left", fontsize=10, color=INK, pad=10, parse_math=False)
    for number, lesson in enumerate(lessons):
        expect, ratio = lesson.target.expect, lesson.ratio
        if expect is not None:
            first, last = (min(max(edge, low), high) for edge in expect.speedup)
            meant = lesson.meant or ratio is None
            axes.barh(
                number, last - first, left=first, height=0.8, color=BAND if meant else "none", edgecolor=BAND,
                hatch="" if meant else "////", linewidth=0.6, zorder=1,
            )  # fmt: skip
        if ratio is not None and ratio.speedup is not None:
            colour = COLOUR_OF[lesson.outcome]
            shown = min(max(ratio.speedup, low), high)
            axes.barh(number, shown - 1.0, left=1.0, height=0.34, color=colour, alpha=0.75, zorder=2)
            if ratio.low is not None and ratio.high is not None:
                axes.plot([ratio.low, ratio.high], [number] * 2, color=INK, linewidth=1.1, zorder=4)
            axes.plot([shown], [number], "o", color=colour, markersize=4, markeredgecolor="white", zorder=5)
        axes.annotate(
            row_words(lesson), (1.0, number), xycoords=("axes fraction", "data"), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=8, parse_math=False,
            color=INK if lesson.outcome.compared else MUTED,
        )  # fmt: skip
    save(figure, file)


def row_words(lesson: Lesson) -> str:
    """What stands right of a row: speed-up, verdict, share of light, hardware."""
    ratio = lesson.ratio
    parts = [f"{plain.speedup(ratio.speedup)} {lesson.word}" if ratio is not None else lesson.word]
    parts += [f"{plain.percent(lesson.sol)} of light"] if lesson.sol is not None else []
    parts += [hardware.short(clean_line(lesson.on))] if lesson.on else []
    return ", ".join(parts)
