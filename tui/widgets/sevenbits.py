"""A screen of characters of 7 bits alone: for terminals and fonts that have no others.

Our widgets choose their signs by the graph style. What Textual draws (borders, scroll bars, its own widgets) and what
stands in texts of ours is replaced when a line is drawn, sign by sign, so that nothing moves.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_SIGNS = {
    "-": "─━═╌╍┄┅┈┉╴╶╸╺╼╾▔–—−‐‑",
    "|": "│┃║┆┇┊┋╵╷╹╻╽╿▌▍▎▏▐▕▉▊▋",
    "+": "✓",
    "/": "╱",
    "\\": "╲",
    "#": "█▄▅▆▇▀░▒▓⊘",
    "_": "▁▂▃",
    "^": "▲△↑",
    "v": "▼▽▾▿↓",
    ">": "▶▸▷→›≥",
    "<": "◀◂◁←‹≤",
    "*": "●◆■★•",
    "o": "○◇□◦°",
    "x": "×✗✕",
    "~": "…⋯≈",
    ".": "·",
    '"': "“”„",
    "'": "‘’",
    "u": "µμ",
    " ": "\u00a0",
}
_TABLE: dict[int, str] = {ord(sign): plain for plain, signs in _SIGNS.items() for sign in signs}
_TABLE[ord("🔎")] = "> "  # two cells wide, before what is typed into the palette
# The rest of the box drawing signs are corners, tees and crosses.
_TABLE = {**dict.fromkeys(range(0x2500, 0x2580), "+"), **_TABLE}


def seven_bits(text: str) -> str:
    """`text` with the signs that we and Textual draw replaced, each by one; words of others stay as they are."""
    return text if text.isascii() else text.translate(_TABLE)


class SevenBits(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else segment._replace(text=seven_bits(segment.text))
            for segment in segments
        ]


SEVEN_BITS = SevenBits()
