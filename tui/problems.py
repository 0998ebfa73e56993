"""Problems in formats of others, in words: what one takes and gives, and how to judge an answer to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from aisp.store.results import repeating
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.kernels.catalog.formats import Dialect, Opened


def opened_lines(dialect: Dialect, opened: Opened) -> Iterator[str]:
    """What a problem that was read takes and gives, its title first."""
    yield f"{clean_line(opened.title)}  ({dialect.TITLE})"
    for what, lines in (("in", opened.inputs), ("out", opened.outputs)):
        for name, line in lines.items():
            yield f"  {what:3}  {clean_line(name)}  {clean_line(line)}"
    if opened.axes:
        yield "  with " + ", ".join(f"{clean_line(name)} = {value:,}" for name, value in opened.axes.items())
    if opened.cpu is None:
        yield "  has no smaller case for a machine without a GPU"
    for note in opened.notes:
        yield f"  {clean_line(note, limit=1000)}"


def command(opened: Opened) -> str:
    return repeating.shell("aisp", "judge", "CANDIDATE", "--against", str(opened.path))
