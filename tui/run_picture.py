"""A run as an SVG: every sample in the order in which it was taken, and beside them each rung's distribution, on one
axis of times. Rungs whose figures are no result are not drawn.

Written by hand, since it must work where matplotlib is not installed and go into a page as it is.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aisp.store.outcomes import TWIN_SUFFIX
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.model import thin
from aisp.tui.sharing import line, timed_what
from aisp.tui.widgets.axes import Span, log_tick_labels, tick_labels

if TYPE_CHECKING:
    from aisp.store.samples import Floats
    from aisp.tui.sharing import Shared

INK, MUTED, GRID = "#1a1a1a", "#6b6b6b", "#d9d9d9"
# Told apart with every kind of colour vision: Okabe and Ito's, as in the picture of a roofline.
COLOURS = ("#6b6b6b", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#5B4A9E")
WIDTH, PLOT_TOP, PLOT_HEIGHT = 960, 76, 300
LEFT, MIDDLE, RIGHT = 66, 690, 948  # the samples' panel, and the distributions' right of it
LEGEND_ROW = 18
DOTS = 300  # of a rung, twice as many at most are drawn: the least and the greatest of each slice
BINS = 48
TICKS = 5
OUTLIERS = 0.01  # share of all samples beyond the axis, at most; they are drawn at its end
WIDE_RANGE = 6.0  # from this ratio of the ends on the axis is logarithmic
LINE_SIGNS = 108


def picture(shared: Shared, *, titled: bool = True) -> str:
    """The SVG element, which is a whole file too. A page that says above it what it shows has it without a title."""
    kept = {
        rung: taken.kept_ms for rung, taken in shared.samples.items() if not rung.endswith(TWIN_SUFFIX) and len(taken)
    }
    kept = {rung: times for rung, times in kept.items() if len(times)}
    wrapped = textwrap.wrap(line(shared), LINE_SIGNS)[:2] or [""]
    parts = []
    if titled:
        parts = [_words(LEFT - 54, 22 + 18 * row, text, size=15, weight="600") for row, text in enumerate(wrapped)]
        parts.append(_words(LEFT - 54, 62, timed_what(shared), colour=MUTED))
    top = 0 if titled else PLOT_TOP - 14
    height = PLOT_TOP + PLOT_HEIGHT + 46 + LEGEND_ROW * max(1, len(kept)) - top
    if kept:
        parts += _panels(kept)
        parts += _legend(shared, list(kept))
    else:
        parts.append(_words(LEFT, PLOT_TOP + 40, "no samples of a rung whose figures may be shown", colour=MUTED))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top} {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" font-family="system-ui, DejaVu Sans, sans-serif" role="img">',
            f"<title>{html.escape(line(shared))}</title>",
            f'<rect y="{top}" width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *parts,
            "</svg>",
        ]
    )


class _Scale:
    """From ms to heights in the picture."""

    def __init__(self, times: Floats) -> None:
        low, high = float(times.min()), float(np.quantile(times, 1 - OUTLIERS))
        high = max(high, low * 1.001)
        self.log = high / low > WIDE_RANGE
        margin = (high - low) * 0.06
        self.low, self.high = (low / 1.1, high * 1.1) if self.log else (max(0.0, low - margin), high + margin)

    def y(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        share = (
            math.log(value / self.low) / math.log(self.high / self.low)
            if self.log
            else (value - self.low) / (self.high - self.low)
        )
        return PLOT_TOP + PLOT_HEIGHT * (1 - share)

    def edges(self) -> Floats:
        if self.log:
            return np.asarray(np.geomspace(self.low, self.high, BINS + 1), np.float64)
        return np.asarray(np.linspace(self.low, self.high, BINS + 1), np.float64)

    def ticks(self) -> list[float]:
        if self.log:
            span = Span(math.log10(self.low), math.log10(self.high))
            return [10.0**place for place, _ in log_tick_labels(span, TICKS)]
        return [place for place, _ in tick_labels(Span(self.low, self.high), TICKS)]


def _panels(kept: dict[str, Floats]) -> list[str]:
    scale = _Scale(np.concatenate(list(kept.values())))
    parts = []
    for tick in scale.ticks():
        y = scale.y(tick)
        parts.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_words(LEFT - 8, y + 4, plain.number(tick, 3), anchor="end", colour=MUTED))
    bottom = PLOT_TOP + PLOT_HEIGHT
    scaled = ", logarithmic" if scale.log else ""
    parts.append(_words(LEFT, bottom + 20, f"samples in their order, ms per call{scaled}", colour=MUTED))
    parts.append(_words(MIDDLE + 14, bottom + 20, "how often each time came", colour=MUTED))
    edges = scale.edges()
    for number, (_, times) in enumerate(kept.items()):
        colour = COLOURS[number % len(COLOURS)]
        across, taken = thin(np.linspace(LEFT + 4, MIDDLE - 8, len(times)).tolist(), times.tolist(), DOTS)
        dots = "".join(f"M{x:.1f} {scale.y(time):.1f}h0" for x, time in zip(across, taken, strict=True))
        parts.append(
            f'<path d="{dots}" stroke="{colour}" stroke-width="3.2" stroke-linecap="round" stroke-opacity=".55"/>'
        )
        counts, _ = np.histogram(times.clip(scale.low, scale.high), edges)
        reach = (RIGHT - MIDDLE - 18) / max(1, int(counts.max()))
        outline = [f"M{MIDDLE + 14} {scale.y(float(edges[0])):.1f}"]
        for count, upper in zip(counts.tolist(), edges[1:].tolist(), strict=True):
            outline.append(f"H{MIDDLE + 14 + count * reach:.1f}V{scale.y(upper):.1f}")
        outline.append(f"H{MIDDLE + 14}Z")
        parts.append(f'<path d="{"".join(outline)}" fill="{colour}" fill-opacity=".28" stroke="{colour}"/>')
    axes = (LEFT, MIDDLE + 14)
    return parts + [f'<line x1="{x}" x2="{x}" y1="{PLOT_TOP}" y2="{bottom}" stroke="{MUTED}"/>' for x in axes]


def _legend(shared: Shared, drawn: Sequence[str]) -> list[str]:
    parts = []
    for number, rung in enumerate(drawn):
        y = PLOT_TOP + PLOT_HEIGHT + 42 + LEGEND_ROW * number
        arm, item = shared.run.arm(rung), shared.run.comparison(rung)
        figures = plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms) if arm is not None else plain.DASH
        told = f"{rung}: {figures} ms"
        if item is not None and item.speedup is not None:
            told += f", {plain.speedup(item.speedup, item.low, item.high)} {item.verdict}"
        parts.append(f'<circle cx="{LEFT + 5}" cy="{y - 4}" r="5" fill="{COLOURS[number % len(COLOURS)]}"/>')
        parts.append(_words(LEFT + 18, y, told))
    return parts


def _words(
    x: float, y: float, text: str, *, size: int = 12, weight: str = "400", colour: str = INK, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{html.escape(clean_line(text, limit=400))}</text>'
    )
