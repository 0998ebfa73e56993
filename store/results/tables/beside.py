"""Two kinds of hardware, or two runs of a suite, rung by rung."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisp.store.results.beside import Row
from aisp.store.results.numbers import DASH, milliseconds, speedup
from aisp.store.results.tables import Column, at

if TYPE_CHECKING:
    from aisp.store.results.expected import Seen


def time_text(one: Seen | None) -> str:
    """A rung's time with its interval."""
    return DASH if one is None else milliseconds(one.ms, one.low_ms, one.high_ms)


def ratio_text(row: Row) -> str:
    """How fast B is beside A; and that the hosts are in it, too."""
    ratio = speedup(row.speedup, row.low, row.high)
    return "not comparable" if row.reason else f"{ratio}, of the hosts too" if row.of_host else ratio


ROWS: tuple[Column[Row], ...] = (
    Column("target", "the target", at("target"), "target", shrink=True),
    Column("case", "the case that both measured", at("case")),
    Column("rung", "the rung, `null` where none was timed", lambda row: row.rung or None, "rung", drop=2),
    Column("a_ms", "its time in A", at("a.ms"),
           "A ms", lambda row: time_text(row.a), drop=1),
    Column("b_ms", "its time in B", at("b.ms"), "B ms", lambda row: time_text(row.b)),
    Column("ratio", "the time in A over the time in B, `null` where they cannot be compared", at("speedup"),
           "B is as fast as A, times", ratio_text),
    Column("low", "the widest interval that both allow: its lower end", at("low")),
    Column("high", "its upper end", at("high")),
    Column("verdict", "beyond both noise floors, `none` where one is not known", at("verdict")),
    Column("of_host", "whether the host's time is in it", at("of_host")),
    Column("reason", "why they cannot be compared", lambda row: row.reason or None),
)  # fmt: skip
