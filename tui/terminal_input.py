"""Terminal input in whole sequences: nothing that a terminal may send ends the app, and nothing but keys is typed.

Textual's parser raises on numbers that it does not expect (kitty's event types and alternate keys), and types what it
does not know: answers that nobody waits for, keys of other protocols, bytes that are no text. Here the input is cut by
the rules of ECMA-48 first. Textual gets the sequences that it knows, in the form that it knows; a paste is one
message, whatever is in it; all else is dropped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Final

from textual import constants
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._keyboard_protocol import FUNCTIONAL_KEYS
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, FOCUSIN, FOCUSOUT, XTermParser
from textual.events import Key, Paste
from textual.keys import Keys
from textual.message import Message

ESC: Final = "\x1b"
SILENCE_S = 0.5  # after which the rest of a sequence does not come any more
PASTE_SILENCE_S = 2.0  # and the end of a paste
LONGEST = 1 << 16  # of a sequence; a paste has no limit
MOST_CELLS = 10_000  # of a window that is believed
RELEASE = "3"  # kitty's event type
SHIFT = 1

# The order matters: X10's mouse has three characters behind its M, and the console's function keys begin with [[.
COMPLETE = re.compile(
    r"\x1b\[M[^\x1b]{3}|\x1b\[\[[A-E]|\x1b\[(?![M\[])[0-?]*[ -/]*[@-~]|\x1bO[0-9;]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^\[O\]PX^_\x1b]"
)
BEGUN = re.compile(r"\x1b(?:\[(?:M[^\x1b]{0,2}|\[|[0-?]*[ -/]*)|O[0-9;]*|[\]PX^_][^\x07\x1b]*)?")
# Reports: SGR mouse, the cursor's place, a mode.
REPORT = re.compile(r"\x1b\[(?:<\d{1,5};-?\d{1,5};-?\d{1,5}[Mm]|\d{1,5};\d{1,5}R|\?\d{1,5};\d\$y)")
RESIZE = re.compile(r"\x1b\[48;(\d{1,5})(?:[:\d]*);(\d{1,5})(?:[:\d]*);(\d{1,5})(?:[:\d]*);(\d{1,5})(?:[:\d]*)t")
KEY = re.compile(r"\x1b\[([\d:]*(?:;[\d:]*){0,2})([u~ABCDEFHPQRS])")
NO_TEXT = re.compile(r"[\x80-\x9f\ud800-\udfff]")  # control codes of 8 bits, and bytes that are no UTF-8
NO_PASTE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class TerminalInput:
    """What came from the terminal, as messages. A sequence may come in pieces; `tick` notices that no more come."""

    def __init__(self, debug: bool = False, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._parser = XTermParser(debug)
        self._clock_s = clock_s
        self._begun = ""  # of a sequence
        self._paste: str | None = None  # so far
        self._came_s = 0.0

    def feed(self, text: str) -> Iterator[Message]:
        """Take in what was read, bytes that are no UTF-8 as surrogates."""
        if not text:
            return
        self._came_s = self._clock_s()
        text, self._begun = self._begun + text, ""
        at = 0
        while at < len(text):
            if self._paste is not None:
                pasted, end, rest = (self._paste + text[at:]).partition(BRACKETED_PASTE_END)
                self._paste = None if end else pasted
                text, at = rest, 0
                if end:
                    yield _pasted(pasted)
            elif text[at] != ESC:
                end_at = text.find(ESC, at)
                end_at = len(text) if end_at < 0 else end_at
                if plain := NO_TEXT.sub("", text[at:end_at]):
                    yield from self._parser.feed(plain)
                at = end_at
            elif complete := COMPLETE.match(text, at):
                at = complete.end()
                yield from self._sequence(complete.group())
            else:
                begun = BEGUN.match(text, at)
                assert begun is not None  # an escape alone matches
                at = begun.end()
                ends = begun.group()[1:2] in tuple("]PX^_") and text[at:] == ESC  # half of a string's end
                if at == len(text) or ends:
                    rest = text[begun.start() :]
                    self._begun = rest if len(rest) <= LONGEST else rest[:3]
                    return
                if begun.group() == ESC:
                    yield Key("escape", ESC)

    def tick(self) -> Iterator[Message]:
        """Give up what began and does not go on: an escape is a key, and a character behind it one with Alt."""
        silent_s = self._clock_s() - self._came_s
        if self._paste is not None and silent_s >= PASTE_SILENCE_S:
            pasted, self._paste = self._paste, None
            yield _pasted(pasted)
        if self._begun and silent_s >= (constants.ESCAPE_DELAY if len(self._begun) <= 2 else SILENCE_S):
            begun, self._begun = self._begun, ""
            if begun == ESC:
                yield Key("escape", ESC)
            elif len(begun) == 2:
                yield from self._keys(begun[1], alt=True)

    def _sequence(self, text: str) -> Iterator[Message]:
        if text == BRACKETED_PASTE_START:
            self._paste = ""
        elif text in (FOCUSIN, FOCUSOUT) or REPORT.fullmatch(text):
            yield from self._parser.feed(text)
        elif resize := RESIZE.fullmatch(text):
            height, width, high, wide = (int(number) for number in resize.groups())
            if 0 < height <= MOST_CELLS and 0 < width <= MOST_CELLS:  # a size in pixels may be unknown
                yield from self._parser.feed(f"{ESC}[48;{height};{width};{high or height};{wide or width}t")
        elif text[1] not in "[O]PX^_":
            known = list(self._keys(text))
            yield from known or self._keys(NO_TEXT.sub("", text[1]), alt=True)
        elif (key := KEY.fullmatch(text)) and (plain := _plain(*key.groups())):
            yield from self._keys(plain)
        elif not key or key.group(2) != "u":
            old = ANSI_SEQUENCES_KEYS.get(text)
            for name in old if isinstance(old, tuple) else ():
                if name is not Keys.Ignore:
                    yield Key(name.value, None)

    def _keys(self, text: str, alt: bool = False) -> Iterator[Key]:
        for key in self._parser._sequence_to_key_events(text, alt=alt) if text else ():
            if key.key != Keys.Ignore:
                yield key


def _pasted(text: str) -> Paste:
    return Paste(NO_PASTE.sub("", text))


def _plain(parameters: str, final: str) -> str:
    """Write a key of kitty's protocol, or of xterm's modifyOtherKeys, as Textual reads it.

    Args:
        parameters: `code:shifted:base ; modifiers:event ; text:text`, each of which may be missing.

    Returns:
        "" for a key that is released, and for one that nobody knows.
    """
    code, modifiers, text = ([*field.split(":"), "", ""] for field in [*parameters.split(";"), "", ""][:3])
    if modifiers[1] == RELEASE or any(len(number) > 7 for field in (code, modifiers, text) for number in field):
        return ""
    other = final == "~" and code[0] == "27"  # 27 ; modifiers ; code ~
    if other:
        code, text, final = [text[0], text[0]], [], "u"
    number, held = code[0] or "1", "" if modifiers[0] in ("0", "1") else modifiers[0]
    if f"{number}{final}" in FUNCTIONAL_KEYS:
        return f"{ESC}[{number};{held}{final}"
    if final != "u" or not _character(number):
        return ""
    typed = [part for part in text if _character(part)]
    if not typed and held and int(held) - 1 & 0x3F == SHIFT and _character(code[1]):
        typed = [code[1]]
    return f"{ESC}[{number};{held};{':'.join(typed)}u" if typed else f"{ESC}[{number};{held}u"


def _character(number: str) -> bool:
    """Whether it is the code of a character that can be typed."""
    return number.isdecimal() and int(number) < 0x110000 and chr(int(number)).isprintable()
