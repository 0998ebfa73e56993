"""Which characters a terminal can show: braille dots, block quadrants or plain ASCII. See `detect`."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.app import App


class GraphStyle(enum.StrEnum):
    """How graphs, signs and lines are drawn."""

    BRAILLE = "braille"  # 2 x 4 dots per cell
    BLOCK = "block"  # 2 x 2 quadrants per cell, for fonts without braille
    ASCII = "ascii"  # one mark per cell, nothing beyond 7 bits anywhere

    @property
    def dots(self) -> tuple[int, int]:
        return {"braille": (2, 4), "block": (2, 2), "ascii": (1, 1)}[self.value]


# Terminals whose fonts have 256 or 512 glyphs: line drawing and blocks at best, never braille.
_BLOCK_TERMS = ("linux", "fbterm", "cons25", "wsvt25")
# Terminals that show what a teletype showed.
_ASCII_TERMS = ("dumb", "unknown", "vt52", "vt100", "vt102", "vt220", "ansi")


def detect(env: Mapping[str, str], encoding: str) -> GraphStyle:
    """Return the richest style that this terminal shows for certain.

    `AISP_GRAPH` (braille, block or ascii) wins over everything; a value that is none of these is ignored.
    Without UTF-8, in the locale or in the stream's own encoding, only ASCII is safe. A locale that is not
    set at all says nothing against UTF-8: the stream's encoding decides.

    Args:
        env: the environment, for AISP_GRAPH, LC_ALL, LC_CTYPE, LANG and TERM.
        encoding: of the stream that is drawn to, such as `sys.stdout.encoding`; "" where it is not known.
    """
    wanted = env.get("AISP_GRAPH", "").strip().lower()
    if wanted in tuple(GraphStyle):
        return GraphStyle(wanted)
    term = env.get("TERM", "").lower()
    # The first of these that is set and not empty decides, as in setlocale(3).
    locale = next((env[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(name)), "")
    if not (_is_utf8(encoding) or (not encoding and _is_utf8(locale))):
        return GraphStyle.ASCII
    # Python's UTF-8 mode makes the stream UTF-8 where the locale, and so the terminal, is not. C and POSIX
    # name no encoding: containers with UTF-8 terminals have them.
    if "." in locale and not _is_utf8(locale):
        return GraphStyle.ASCII
    if term in _ASCII_TERMS:
        return GraphStyle.ASCII
    if term in _BLOCK_TERMS:
        return GraphStyle.BLOCK
    return GraphStyle.BRAILLE


def _is_utf8(name: str) -> bool:
    encoding = name.rpartition(".")[2].partition("@")[0]
    return encoding.replace("-", "").replace("_", "").lower() in ("utf8", "cp65001")


def of(app: App[Any]) -> GraphStyle:
    """The style that widgets draw with: the app's own `graph_style` if it has one, else as detected."""
    chosen = getattr(app, "graph_style", None)
    if isinstance(chosen, GraphStyle):
        return chosen
    return detect(os.environ, getattr(sys.__stdout__, "encoding", None) or "")
