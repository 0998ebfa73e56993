"""Plain text for people: numbers with their units, tables, dashes. No colours; imports the standard library and how
`store.results` writes a number.

Every function takes None for "could not be measured" and returns `DASH` for it; NaN counts as None. Lengths
are counted in terminal cells, so that a title in Chinese does not shift the column behind it.
"""

from __future__ import annotations

import json
import math
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

# Every face writes a figure as `results` does; they have it from here.
from aisp.store.results.numbers import DASH as DASH
from aisp.store.results.numbers import bounds as bounds
from aisp.store.results.numbers import count as count
from aisp.store.results.numbers import counted as counted
from aisp.store.results.numbers import factors as factors
from aisp.store.results.numbers import known as known
from aisp.store.results.numbers import local_time as local_time
from aisp.store.results.numbers import milliseconds as milliseconds
from aisp.store.results.numbers import number as number
from aisp.store.results.numbers import percent as percent
from aisp.store.results.numbers import saved as saved
from aisp.store.results.numbers import speedup as speedup
from aisp.store.results.tables import Column, RowT, cells_of, shown

if TYPE_CHECKING:
    from aisp.store.record import LinkUse
    from aisp.store.results.edits import Change


LEAST_MS = 0.1  # a time below it is told in microseconds
_micro = "\u00b5s"


def ascii_only(wanted: bool) -> None:
    """Whether what is written from now on must do with 7 bits: the app's graph style, or what stdout takes."""
    global _micro
    _micro = "us" if wanted else "\u00b5s"


def micro() -> str:
    """The sign of a microsecond: "µs", or "us" where only 7 bits may be used."""
    return _micro


def host_sentence(launch_eager_ms: float | None, fast_host_ms: float | None) -> str:
    """What an eager launch costs the host that limits a rung, and the time derived for one of 5 µs."""
    if launch_eager_ms is None or fast_host_ms is None:
        return f"what a launch costs this host is not known ({DASH}): `aisp peak` measures it"
    launch = quantity(launch_eager_ms / 1e3, "s")
    fast = f"with one of 5 {micro()} it would be {number(fast_host_ms)} ms, derived"
    return f"an eager launch costs this host {launch}; {fast}"


def link_sentence(use: LinkUse) -> str:
    """What a call carries over its link: "nvlink in 312 GB/s (85 % of the measured ceiling), out ..."."""
    basis = "the measured ceiling" if use.measured else "the datasheet"
    parts = []
    for name, rate, share in use.directions:
        held = f"{percent(share)} of {basis}" if share is not None else f"{DASH} of a ceiling that is not known"
        parts.append(f"{name} {quantity(rate, 'bytes/s')} ({held})")
    return f"{use.over.value} {', '.join(parts)}"


_SHORT = {"bytes": "B", "bytes/s": "B/s", "flop": "FLOP", "flop/s": "FLOP/s"}
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """A ceiling or what was achieved, in the unit that people say it in: "3.02 TB/s", "812 TFLOP/s", "1.28 µs".

    Args:
        value: in `unit`; None for unknown.
        unit: "bytes", "flop", either per second, or "s"; any other is written as it is, without a prefix.
        digits: digits that count.
    """
    if value is None or math.isnan(value):
        return DASH
    if unit == "s":
        scale, name = (
            (1.0, "s") if abs(value) >= 1 else (1e-3, "ms") if abs(value) >= LEAST_MS / 1e3 else (1e-6, micro())
        )
        return f"{number(value / scale, digits)} {name}"
    if unit not in _SHORT:
        return f"{number(value, digits)} {unit}".rstrip()
    scale, prefix = next(((s, p) for s, p in PREFIXES if abs(value) >= s), (1.0, ""))
    return f"{number(value / scale, digits)} {prefix}{_SHORT[unit]}"


def megahertz(clock_mhz: float | None) -> str:
    """A clock without its unit, which stands in the column's head: "1755"."""
    return DASH if clock_mhz is None or math.isnan(clock_mhz) else f"{clock_mhz:.0f}"


def time_of(median_ms: float | None, low_ms: float | None = None, high_ms: float | None = None) -> str:
    """A median with its interval and its unit: "0.4120 ms [0.4100..0.4150]", "12.30 µs [12.10..12.50]"."""
    if median_ms is None or not known(median_ms):
        return DASH
    scale, unit = (1.0, "ms") if abs(median_ms) >= LEAST_MS else (1e3, micro())
    low, high = (None if value is None else value * scale for value in (low_ms, high_ms))
    interval = milliseconds(median_ms * scale, low, high).partition(" ")
    return f"{interval[0]} {unit}{interval[1]}{interval[2]}"


def change(found: Change | None) -> str:
    """A change of a time, signed: "-3.1 %", "~ -0.2 %" where the intervals overlap; a dash where it is not known."""
    if found is None:
        return DASH
    return f"{'' if found.apart else '~ '}{found.ratio * 100:+.{1 if found.ratio < 10 else 0}f} %"


def duration(seconds: float | None) -> str:
    """A span of time with at most two units: "0.8 ms", "340 ms", "1.2 s", "3 min 04 s", "2 h 05 min", "4 d 03
    h"."""
    if seconds is None or math.isnan(seconds):
        return DASH
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 0.00995:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def about(seconds: float | None) -> str:
    """A span of time that is only an estimate, or is drawn every second, without figures that pretend more: "9 s",
    "95 s", "12 min", "2 h 05 min"."""
    if seconds is None:
        return DASH
    if seconds < 97.5:
        return f"{round(seconds) if seconds < 60 else 5 * round(seconds / 5)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def size(size_bytes: float | None) -> str:
    """Bytes in binary units: "512 B", "1.5 KiB", "80.0 GiB"."""
    if size_bytes is None or math.isnan(size_bytes):
        return DASH
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def ago(wall: str, now: datetime) -> str:
    """How long ago an ISO 8601 time in UTC was, in one unit: "just now", "5 min ago", "2 h ago", "3 d ago"."""
    try:
        at = datetime.fromisoformat(wall)
    except ValueError:
        return DASH
    minutes = int((now - (at if at.tzinfo else at.replace(tzinfo=UTC))).total_seconds() // 60)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    return f"{minutes // 60} h ago" if minutes < 48 * 60 else f"{minutes // 1440} d ago"


def cells(text: str) -> int:
    """How many terminal cells `text` takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def fit(text: str, width: int) -> str:
    """`text` cut to at most `width` cells, the cut marked with "..." where there is room for it."""
    if cells(text) <= width:
        return text
    mark = "..." if width > 6 else ""
    kept: list[str] = []
    left = max(0, width) - len(mark)
    for sign in text:
        left -= cells(sign)
        if left < 0:
            break
        kept.append(sign)
    return "".join(kept) + mark


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[str] = (),
    width: int | None = None,
    shrink: str = "",
    drop: Sequence[str] = (),
) -> list[str]:
    """Lines of a table, two spaces between columns, nothing after the last character of a line.

    Args:
        heads: column titles.
        rows: one text per column; missing ones at the end are empty.
        right: titles of the columns to align right.
        width: cells that a line may take; None for no limit.
        shrink: title of the column that gives up cells (down to 8) where a line would be too long.
        drop: titles of columns to leave out, one after the other, where that is not enough.
    """
    body = [list(row) + [""] * (len(heads) - len(row)) for row in rows]
    widths = [max([cells(head), *(cells(row[i]) for row in body)]) for i, head in enumerate(heads)]
    for title in drop:
        # What a line takes at least: `shrink` gives up what is above 8.
        least = [min(8, room) if head == shrink else room for head, room in zip(heads, widths, strict=True)]
        if width is None or sum(least) + 2 * (len(least) - 1) <= width:
            break
        kept = [i for i, head in enumerate(heads) if head != title]
        heads, widths = [heads[i] for i in kept], [widths[i] for i in kept]
        body = [[row[i] for i in kept] for row in body]
    if width is not None and shrink in heads:
        column = list(heads).index(shrink)
        over = sum(widths) + 2 * (len(widths) - 1) - width
        if over > 0:
            widths[column] = max(min(8, widths[column]), widths[column] - over)
            body = [[fit(c, widths[i]) if i == column else c for i, c in enumerate(row)] for row in body]
    to_right = set(right)

    def line(row: Sequence[str]) -> str:
        parts = []
        for head, cell, room in zip(heads, row, widths, strict=True):
            gap = " " * (room - cells(cell))
            parts.append(gap + cell if head in to_right else cell + gap)
        return "  ".join(parts).rstrip()

    return [line(heads), *(line(row) for row in body)]


def listing(
    columns: Sequence[Column[RowT]], rows: Iterable[RowT], *, width: int | None, tabs: bool = True
) -> list[str]:
    """A list for a terminal of `width` cells; without one the cells with a tab between, unless other tables stand
    around it."""
    there = shown(columns)
    heads = [column.head or "" for column in there]
    rows_of = [cells_of(there, row) for row in rows]
    if width is None and tabs:
        return ["\t".join(row) for row in (heads, *rows_of)]
    return table(
        heads,
        rows_of,
        right=[column.head or "" for column in there if column.right],
        width=width,
        shrink=next((column.head or "" for column in there if column.shrink), ""),
        drop=[column.head or "" for column in sorted(there, key=lambda one: one.drop) if column.drop],
    )


LABEL_COLUMNS = 12  # of labelled lines: what belongs to a label stands below itself


def wrapped(lines: Sequence[str], width: int, *, labelled: bool = False) -> list[str]:
    """Lines cut at `width` cells between words, the rest indented below: for panes that wrap nothing.

    Args:
        labelled: whether the rest of an indented line goes below the text behind its label.
    """
    out: list[str] = []
    for line in lines:
        if cells(line) <= width or width < 20:
            out.append(line)
            continue
        own = len(line) - len(line.lstrip())
        indent = " " * (min(LABEL_COLUMNS, width // 2) if labelled and own else min(own + 2, width // 2))
        out += textwrap.wrap(line, width, subsequent_indent=indent, drop_whitespace=True) or [""]
    return out


def indent(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line if line else line for line in text.splitlines())


def jsonable(value: Any) -> Any:
    """`value` with NaN and infinities as None, paths and enums as text, dataclass-free containers as they
    are."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item) for item in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def json_document(value: Any) -> str:
    """`value` as indented JSON. ASCII only: an escape sequence in a kernel's message cannot reach the
    terminal."""
    return json.dumps(jsonable(value), indent=2, allow_nan=False)


def json_line(value: Any) -> str:
    return json.dumps(jsonable(value), allow_nan=False)
