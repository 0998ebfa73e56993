"""What plots are drawn on: rows of cells with their owners, and dots on a grid of cells. No screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from aisp.store.text import clean_line
from aisp.tui.widgets.glyphs import GraphStyle

# What a cell belongs to: a series (0 and up) or one of these.
BLANK, AXIS, LABEL, CLIPPED = -1, -2, -3, -4

SIGNS = "●○◆◇■□"
SIGNS_ASCII = "ox+*#@"
_QUADRANTS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
# Bit of a dot by its column and row inside the cell; Unicode numbers braille dots down the left column first.
_BRAILLE_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLOCK_BITS = ((1, 4), (2, 8))


@dataclass
class Row:
    """One line of a frame: a character and an owner per column; a wide character is followed by ""."""

    characters: list[str]
    owners: list[int]

    @property
    def text(self) -> str:
        return "".join(self.characters)


class Canvas:
    """Dots on a grid of cells; the newest series owns a cell."""

    def __init__(self, columns: int, rows: int, style: GraphStyle) -> None:
        self.columns, self.rows, self.style = columns, rows, style
        self.across, self.down = style.dots
        self.width, self.height = columns * self.across, rows * self.down
        self.bits = [[0] * columns for _ in range(rows)]
        self.owners = [[BLANK] * columns for _ in range(rows)]
        self.marks: dict[tuple[int, int], tuple[str, int]] = {}
        self._table = _BRAILLE_BITS if style is GraphStyle.BRAILLE else _BLOCK_BITS

    def dots(self, points: Sequence[tuple[int, int]], owner: int) -> None:
        if self.style is GraphStyle.ASCII:
            for x, y in points:
                self.bits[y][x] = 1
                self.owners[y][x] = owner
            return
        bits, owners, table, down = self.bits, self.owners, self._table, self.down
        for x, y in points:
            row, column = y // down, x >> 1
            bits[row][column] |= table[x & 1][y % down]
            owners[row][column] = owner

    def line(self, start: tuple[int, int], end: tuple[int, int], owner: int) -> None:
        (x, y), (x1, y1) = start, end
        step_x, step_y = (1 if x < x1 else -1), (1 if y < y1 else -1)
        run, rise = abs(x1 - x), -abs(y1 - y)
        error = run + rise
        points = [(x, y)]
        while (x, y) != (x1, y1):
            twice = 2 * error
            if twice >= rise:
                error += rise
                x += step_x
            if twice <= run:
                error += run
                y += step_y
            points.append((x, y))
        self.dots(points, owner)

    def mark(self, x: int, y: int, character: str, owner: int) -> None:
        self.marks[y // self.down, x // self.across] = (character, owner)

    def row(self, number: int, signs: str) -> tuple[list[str], list[int]]:
        bits, owners = self.bits[number], list(self.owners[number])
        if self.style is GraphStyle.BRAILLE:
            characters = [chr(0x2800 + bit) if bit else " " for bit in bits]
        elif self.style is GraphStyle.BLOCK:
            characters = [_QUADRANTS[bit] for bit in bits]
        else:
            characters = [signs[o % len(signs)] if b else " " for b, o in zip(bits, owners, strict=True)]
        for (row, column), (character, owner) in self.marks.items():
            if row == number:
                characters[column], owners[column] = character, owner
        return characters, owners


def message_rows(text: str, width: int, height: int) -> list[Row]:
    rows = [Row([" "] * width, [BLANK] * width) for _ in range(height)]
    text = clean_line(text)
    if cell_len(text) > width:
        text = set_cell_size(text, width)
    start = (width - cell_len(text)) // 2
    rows[height // 2] = text_row([(" " * start, BLANK), (text, LABEL)], width)
    return rows


def with_gutter(
    label: str, left: int, cells: tuple[list[str], list[int]], ascii_only: bool, *, tick: bool = True
) -> Row:
    """A row of a plot behind its axis, which takes `left` cells: a label, and the line, with a tick at the label."""
    characters, owners = cells
    if left:
        bar, mark = ("|", "+") if ascii_only else ("│", "┤")
        characters = [*label.rjust(left - 1), mark if label and tick else bar, *characters]
        owners = [LABEL] * (left - 1) + [AXIS] + owners
    return Row(characters, owners)


def text_row(parts: Sequence[tuple[str, int]], width: int) -> Row:
    """A row from texts and their owners, cut or filled to `width` cells."""
    characters: list[str] = []
    owners: list[int] = []
    for text, owner in parts:
        for character in text:
            cells = cell_len(character)
            if len(characters) + cells > width:
                break
            if cells == 0:
                if characters:
                    characters[-1] += character
                continue
            characters += [character, *[""] * (cells - 1)]
            owners += [owner] * cells
    missing = width - len(characters)
    return Row(characters + [" "] * missing, owners + [BLANK] * missing)
