"""The ceilings of a GPU as a list, in the app and on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from aisp.store.results.tables import Column, at, fields
from aisp.tui import plain

if TYPE_CHECKING:
    from aisp.store.record import Ceiling


class Row(NamedTuple):
    """A ceiling, and what the datasheet says of it; None where that is not known."""

    ceiling: Ceiling
    sheet: float | None

    @property
    def name(self) -> str:
        footprint = self.ceiling.footprint_bytes
        return self.ceiling.name + (f" ({plain.size(footprint)})" if footprint is not None else "")


def rows(gpu: str, ceilings: Iterable[Ceiling]) -> list[Row]:
    from aisp.store.results.datasheets import ceiling_value  # data of fifteen GPUs, only where there is a table to fill

    return [Row(ceiling, ceiling_value(gpu, ceiling.name)) for ceiling in ceilings]


CEILINGS: tuple[Column[Row], ...] = (
    Column("name", "what was measured", at("ceiling.name"), "ceiling", at("name"), shrink=True),
    Column("value", "the most that it did, in `unit`; `null` with a `note`", at("ceiling.value"),
           "measured", lambda row: plain.quantity(row.ceiling.value, row.ceiling.unit), right=True),
    *fields("ceiling", {"unit": "`bytes/s`, `flop/s` or `s`"}),
    Column("datasheet", "what the datasheet says, `null` where that is not known", at("sheet"),
           "datasheet", lambda row: plain.quantity(row.sheet, row.ceiling.unit), right=True, drop=2),
    Column("share", head="share", right=True,
           text=lambda row: plain.percent(row.ceiling.value / row.sheet if row.ceiling.value and row.sheet else None)),
    Column("clock_mhz", "the SM clock meanwhile", at("ceiling.sm_clock_mhz"),
           "SM MHz", lambda row: plain.megahertz(row.ceiling.sm_clock_mhz), right=True, drop=3),
    Column("memory_clock_mhz", "the memory's clock", at("ceiling.memory_clock_mhz"),
           "memory MHz", lambda row: plain.megahertz(row.ceiling.memory_clock_mhz), right=True, drop=1),
    *fields("ceiling", {"footprint_bytes": "the memory that it touches", "note": "how it was found, or why not"}),
)  # fmt: skip
