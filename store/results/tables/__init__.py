"""A list is a table of columns. The terminal, `--json`, the app, copying and docs/lists.md draw the same ones.

A column with a `value` is a key of the row's JSON object; one with a `head` stands in the table for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from aisp.store.results.numbers import DASH
from aisp.store.text import clean_line

RowT = TypeVar("RowT")
PartT = TypeVar("PartT")
CELL_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """One thing that a list says of each of its rows.

    Attributes:
        key: in JSON, on a screen and in the docs; unique in a table.
        means: what stands in it, for the docs.
        value: for JSON; None where only people are shown it.
        head: its title for people; None where only JSON has it.
        text: for people; None writes the value as it is.
        right: whether it is aligned right.
        drop: how early it gives way on a narrow terminal, the lowest first; 0 never.
        shrink: whether it gives up cells before any column gives way.
    """

    key: str
    means: str = ""
    value: Callable[[RowT], Any] | None = None
    head: str | None = None
    text: Callable[[RowT], str] | None = None
    right: bool = False
    drop: int = 0
    shrink: bool = False

    def cell(self, row: RowT) -> str:
        """What people read; a dash for what is not known."""
        value = self.text(row) if self.text is not None else self.value(row) if self.value is not None else None
        return DASH if value is None or value == "" else clean_line(str(value), limit=CELL_CHARS)


def as_json(columns: Iterable[Column[RowT]], row: RowT) -> dict[str, Any]:
    """A row for JSON."""
    return {column.key: column.value(row) for column in columns if column.value is not None}


def documents(columns: Sequence[Column[RowT]], rows: Iterable[RowT]) -> list[dict[str, Any]]:
    """The rows for JSON."""
    return [as_json(columns, row) for row in rows]


def shown(columns: Iterable[Column[RowT]], *without: str) -> list[Column[RowT]]:
    """The columns that people are shown, but for those with these keys."""
    return [column for column in columns if column.head is not None and column.key not in without]


def cells_of(columns: Iterable[Column[RowT]], row: RowT) -> list[Any]:
    """What people are shown of a row."""
    return [column.cell(row) for column in shown(columns)]


def copied(columns: Iterable[Column[RowT]], row: RowT) -> str:
    """A row as text to be copied: what people are shown of it, without what is not known."""
    return "  ".join(cell for column in shown(columns) if (cell := column.cell(row)) != DASH)


def at(path: str) -> Callable[[Any], Any]:
    """What a path of attributes leads to from a row, "run.record.wall"; None where one on the way is None."""
    names = path.split(".")

    def of(row: Any) -> Any:
        for name in names:
            row = None if row is None else getattr(row, name)
        return row

    return of


def attributes(one: Any, *names: str) -> dict[str, Any]:
    """Some of what a thing has, for JSON."""
    return {name: getattr(one, name) for name in names}


def fields(path: str, names: Mapping[str, str]) -> tuple[Column[Any], ...]:
    """Columns that only JSON has: attributes of what a path leads to, "" for the row itself, and what each means."""
    before = f"{path}." if path else ""
    return tuple(Column(name, means, at(before + name)) for name, means in names.items())


def printed(
    head: str, text: Callable[[Any], Any], *, right: bool = False, drop: int = 0, shrink: bool = False
) -> Column[Any]:
    """A column that only people are shown."""
    return Column(head, head=head, text=text, right=right, drop=drop, shrink=shrink)


def through(column: Column[PartT], part: Callable[[RowT], PartT]) -> Column[RowT]:
    """The column of a part, as one of what it is a part of."""

    def of(function: Callable[[PartT], Any] | None) -> Any:
        return None if function is None else lambda row: function(part(row))

    return replace(column, value=of(column.value), text=of(column.text))  # type: ignore[return-value]
