"""A row per arm that shows how its times are distributed against the baseline's, with the noise floor as a band.

The axis is of ratios to the baseline's middle time: linear within the noise floor and logarithmic far outside of it, so
that 1 % and twelvefold are both told apart. Left is faster. How high a sign stands says how many of the arm's times lie
there, against its own fullest cell. What lies outside of the middle 95 % of every arm is not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.themes import style_of
from aisp.tui.widgets.axes import Span
from aisp.tui.widgets.canvas import AXIS, BLANK, LABEL, SIGNS, SIGNS_ASCII, Row, message_rows, text_row
from aisp.tui.widgets.frames import Frame, FrameView
from aisp.tui.widgets.glyphs import GraphStyle

LEVELS, LEVELS_ASCII = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588", ".:-=+*#%"
BAND, BAND_ASCII = "\u2591", "_"
LEAST_SCALE = 0.002  # of the linear part, where no floor is known or it is smaller
NAME_SHARE = 3  # of the width, that a name takes at most; LEAST_NAME cells at least
LEAST_NAME = 20
IN_BAND = 1 << 16  # more than the owner of the same cell outside of the band
LEAST_COLUMNS = 20
# Ticks by how much they are wanted: differences from the baseline in percent, then factors.
_PERCENT, _FACTORS = (1, 10, 5, 2, 20, 0.5, 0.2, 0.1), (2, 10, 5, 20, 50, 100, 1000)


@dataclass(frozen=True)
class Distribution:
    """One arm's times.

    Attributes:
        name: for the beginning of its row.
        number: its place in the legend of the plot above, whose sign and colour it has.
        ratios: to the baseline's middle time, above zero.
    """

    name: str
    number: int
    ratios: Sequence[float]


def place(ratio: float, scale: float) -> float:
    return math.asinh(math.log(ratio) / scale)


def _range(items: Sequence[Distribution], scale: float, before: Span | None) -> Span:
    """What is drawn: the middle 95 % of every arm and twice the floor; as before while that fits."""
    low, high = -math.asinh(2.0), math.asinh(2.0)
    for item in items:
        ordered = sorted(ratio for ratio in item.ratios if ratio > 0)
        last = len(ordered) - 1
        low = min(low, place(ordered[math.floor(last * 0.025)], scale))
        high = max(high, place(ordered[math.ceil(last * 0.975)], scale))
    needed = Span(low, high)
    if before is not None and before.holds(needed) and needed.length >= 0.7 * before.length:
        return before
    room = 0.06 * needed.length
    return Span(low - room, high + room)


def draw(
    items: Sequence[Distribution],
    floor: float | None,
    width: int,
    height: int,
    style: GraphStyle,
    *,
    before: Frame | None = None,
) -> Frame:
    """Draw a row per arm, a title above and the axis below.

    Args:
        floor: noise floor as a ratio minus one; None where none is known, and no band is drawn.
        before: the previous frame, whose range is kept while it fits.
    """
    ascii = style is GraphStyle.ASCII
    names = tuple(item.name for item in items)
    longest = min(max(LEAST_NAME, width // NAME_SHARE), max((cell_len(clean_line(name)) for name in names), default=0))
    left = longest + 4
    columns = width - left
    if not items or columns < LEAST_COLUMNS or height < 3:
        return Frame(message_rows("", width, height) if width > 0 and height > 0 else [], names=names)
    scale = max(floor or 0.0, LEAST_SCALE)
    linear = Span(-scale, scale)
    kept = before.x if before is not None and before.names == names and before.left == linear else None
    span = _range(items, scale, kept)

    def column(at: float) -> int:
        return round((at - span.low) / span.length * (columns - 1))

    edge = math.asinh(math.log1p(floor) / scale) if floor else 0.0
    band = range(column(-edge), column(edge) + 1) if floor else range(0)
    sides = "< faster, slower >" if ascii else "\u25c2 faster, slower \u25b8"
    title = [("times against the baseline's median  ", LABEL), (sides, AXIS)]
    if floor:
        sign = BAND_ASCII if ascii else BAND
        title += [(f"  [{sign}]", AXIS), (f" noise floor {plain.percent(floor, 1)}", LABEL)]
    rows = [text_row(title, width)]
    shown = items[: height - 2]
    rows += [_strip(item, scale, span, columns, longest, band, ascii) for item in shown]
    rows.append(_axis(scale, span, left, columns, band, ascii))
    rows += [Row([" "] * width, [BLANK] * width) for _ in range(height - len(rows))]
    return Frame(rows, span, linear, names=names)


def _smoothed(at: Sequence[int], columns: int) -> list[int]:
    """How many of these places lie around each column: within half of Freedman and Diaconis' width of a histogram's
    bar, twice the middle half over the cube root of the number, so that few times do not look like many clusters.

    Args:
        at: in order; some may lie outside of the columns.
    """
    quarter = len(at) // 4
    reach = round((at[-quarter - 1] - at[quarter]) / len(at) ** (1 / 3))
    counts = [0] * columns
    for middle in at:
        for cell in range(max(0, middle - reach), min(columns, middle + reach + 1)):
            counts[cell] += 1
    return counts


def _strip(item: Distribution, scale: float, span: Span, columns: int, longest: int, band: range, ascii: bool) -> Row:
    signs, levels = (SIGNS_ASCII, LEVELS_ASCII) if ascii else (SIGNS, LEVELS)
    places = (place(ratio, scale) for ratio in item.ratios if ratio > 0)
    at = sorted(round((one - span.low) / span.length * (columns - 1)) for one in places)
    counts = _smoothed(at, columns)
    most = max(counts) or 1
    characters = [levels[math.ceil(count / most * len(levels)) - 1] if count else " " for count in counts]
    owners = [item.number if count else BLANK for count in counts]
    for cell in band:
        if 0 <= cell < columns and not counts[cell]:
            characters[cell], owners[cell] = (BAND_ASCII if ascii else BAND), AXIS
        elif 0 <= cell < columns:
            owners[cell] += IN_BAND
    middle = at[len(at) // 2]
    sign = signs[item.number % len(signs)]
    if 0 <= middle < columns:
        characters[middle], owners[middle] = sign, item.number + IN_BAND * (middle in band)
    name = clean_line(item.name)
    if cell_len(name) > longest:
        name = set_cell_size(name, longest - 1) + ("~" if ascii else "…")
    name = set_cell_size(name, longest)
    head = text_row(
        [(f"{sign} ", item.number), (name, LABEL), (" ", BLANK), ("|" if ascii else "\u2502", AXIS)], longest + 4
    )
    return Row(head.characters + characters, head.owners + owners)


def _axis(scale: float, span: Span, left: int, columns: int, band: range, ascii: bool) -> Row:
    """Percent near the baseline, factors far from it, the wanted ones first, as many as have room; and the floor's
    ends in brackets, which stay where nothing has a colour."""
    times = "x" if ascii else "\u00d7"
    wanted: list[tuple[float, str]] = [(1.0, "0")]
    for factor in _FACTORS[:2]:
        wanted += [(1 / factor, f"{factor}{times}"), (float(factor), f"{factor}{times}")]
    for percent in _PERCENT:
        wanted += [(1 - percent / 100, f"-{percent:g} %"), (1 + percent / 100, f"+{percent:g} %")]
    for factor in _FACTORS[2:]:
        wanted += [(1 / factor, f"{factor}{times}"), (float(factor), f"{factor}{times}")]
    taken = [False] * (columns + 2)
    cells = [" "] * columns
    for at, text in ((band[0], "["), (band[-1], "]")) if len(band) > 2 else ():
        if 0 <= at < columns:
            cells[at], taken[at] = text, True
    for ratio, text in wanted:
        at = round((place(ratio, scale) - span.low) / span.length * (columns - 1))
        start = at - len(text) // 2
        if start < 0 or start + len(text) > columns or any(taken[max(0, start - 1) : start + len(text) + 2]):
            continue
        cells[start : start + len(text)] = text
        taken[start : start + len(text)] = [True] * len(text)
    return text_row([(" " * left, BLANK), ("".join(cells), LABEL)], left + columns)


class DistributionStrips(FrameView):
    """See the module. `show` sends only the cells that changed."""

    DEFAULT_CSS = "DistributionStrips { height: auto; }"

    def show(self, items: Sequence[Distribution], floor: float | None) -> None:
        self.draw(lambda width, height, style, before: draw(items, floor, width, height, style, before=before))

    def _style(self, owner: int) -> Style:
        """A cell within the noise floor has the band behind it."""
        if owner < IN_BAND:
            return super()._style(owner)
        return super()._style(owner - IN_BAND) + style_of(self.app, "on $panel")
