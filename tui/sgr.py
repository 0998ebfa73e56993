"""Fewer style sequences for the same screen.

Textual styles every piece of text from nothing: it sets both colours and each attribute, then resets. Two thirds of
what a live screen sends are such sequences (SGR, "select graphic rendition": `ESC [ ... m`). `StyleDelta` reads the
text on its way to the terminal, keeps account of the style that the terminal has and of the one that the program
wants, and sends the difference only where something is about to be drawn with it.

What reaches the screen is exactly the same. A sequence that this module does not know is passed on as it is, and so is
every style after it until one that resets: then the account is true again.
"""

from __future__ import annotations

import re
from typing import NamedTuple

RESET = "0"
REMEMBERED = 4096  # styles and steps between styles kept; a themed screen uses some hundred

# Colon forms (`4:3`, a curly underline) are found too, and passed on as unknown.
_STYLE = re.compile(r"\x1b\[([0-9;:]*)m")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]*)?\Z")
# Draw nothing and leave the style alone, so that a style may wait until they have passed: moves to a place,
# the brackets of a synchronized frame, a request for the cursor's position.
_STILL = re.compile(r"(?:\x1b\[(?:[0-9;]*H|\?2026[hl]|6n))*")
# Leave the style alone, but may draw with it (an erased cell takes the background). Modes 1047 to 1049 are not among
# them: with the other screen a terminal may save and restore its style.
_HARMLESS = re.compile(r"\x1b\[(?:[0-9;]*[A-HJKf]|[56]n|\?(?!104[789])[0-9]+(?:[hl]|\$p))")
_ESCAPES = ("\x1b", "\x9b")


class Style(NamedTuple):
    """What a terminal draws text with: for each attribute the parameters that set it, "" where it is off."""

    foreground: str = ""
    background: str = ""
    bold: str = ""
    dim: str = ""
    italic: str = ""
    underline: str = ""
    blink: str = ""
    reverse: str = ""
    conceal: str = ""
    strike: str = ""


PLAIN = Style()
# Not 6 and 21, which some terminals take for 5 and 22 and some do not know.
_ON = {
    **{str(code): "foreground" for code in (*range(30, 38), *range(90, 98))},
    **{str(code): "background" for code in (*range(40, 48), *range(100, 108))},
    "1": "bold",
    "2": "dim",
    "3": "italic",
    "4": "underline",
    "5": "blink",
    "7": "reverse",
    "8": "conceal",
    "9": "strike",
}
_OFF: dict[str, tuple[str, ...]] = {
    "22": ("bold", "dim"),
    "23": ("italic",),
    "24": ("underline",),
    "25": ("blink",),
    "27": ("reverse",),
    "28": ("conceal",),
    "29": ("strike",),
    "39": ("foreground",),
    "49": ("background",),
}
_COLOUR = {"38": "foreground", "48": "background"}
_PARAMETERS = {"5": 3, "2": 5}  # how many a colour has: 38;5;INDEX and 38;2;RED;GREEN;BLUE


def styled(style: Style | None, parameters: str) -> Style | None:
    """The style after one sequence.

    Args:
        style: the one before; None where it is not known.
        parameters: what stands between `ESC [` and `m`.

    Returns:
        The style after it; None where that is not known, because the style before was not and nothing resets it, or
        because a parameter is not one of those above.
    """
    words = [word.lstrip("0") or RESET for word in parameters.split(";")]
    at = 0
    while at < len(words):
        word = words[at]
        if word == RESET:
            style = PLAIN
        elif word in _COLOUR:
            taken = words[at : at + _PARAMETERS.get(words[at + 1] if at + 1 < len(words) else "", 0)]
            if len(taken) < 3 or len(taken) != _PARAMETERS[taken[1]]:
                return None
            style = style and style._replace(**{_COLOUR[word]: ";".join(taken)})
            at += len(taken) - 1
        elif word in _ON:
            style = style and style._replace(**{_ON[word]: word})
        elif word in _OFF:
            style = style and style._replace(**dict.fromkeys(_OFF[word], ""))
        else:
            return None
        at += 1
    return style


def step(before: Style | None, after: Style) -> str:
    """The shortest sequence that makes `after` of `before`; "" where they are the same. None is any style."""
    if before == after:
        return ""
    anew = ";".join((RESET, *filter(None, after)))
    if before is None:
        return f"\x1b[{anew}m"
    changes: list[str] = []
    gone = {name for name, was, now in zip(Style._fields, before, after, strict=True) if was and not now}
    # 22 ends bold and dim together, so one that stays is set again.
    again: set[str] = set()
    for code, names in _OFF.items():
        if not gone.isdisjoint(names):
            changes.append(code)
            again.update(names)
    for name, was, now in zip(Style._fields, before, after, strict=True):
        if now and (now != was or name in again):
            changes.append(now)
    return f"\x1b[{min(';'.join(changes), anew, key=len)}m"


class StyleDelta:
    """A filter for what a program writes to its terminal. Feed it every text in order; any cut is right."""

    def __init__(self) -> None:
        self._terminal: Style | None = None  # the terminal's style; None: not known
        self._wanted: Style | None = None  # the program's; differs from the terminal's while nothing was drawn with it
        self._held = ""  # the beginning of a sequence whose end has not been written yet
        self._styles: dict[tuple[Style | None, str], Style | None] = {}
        self._steps: dict[tuple[Style | None, Style], str] = {}

    def feed(self, text: str) -> str:
        """What to send for `text`."""
        text = self._held + text
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished.group() if unfinished else ""
        if unfinished:
            text = text[: unfinished.start()]
        sent: list[str] = []
        at = 0
        for found in _STYLE.finditer(text):
            if found.start() > at:
                self._pass(text[at : found.start()], sent)
            at = found.end()
            self._restyle(found, sent)
        if at < len(text):
            self._pass(text[at:], sent)
        return "".join(sent)

    def rest(self) -> str:
        """What is held back: a cut sequence, and a style that nothing was drawn with. For the end of all writing."""
        held, self._held = self._held, ""
        return self._due() + held

    def _restyle(self, found: re.Match[str], sent: list[str]) -> None:
        key = (self._wanted, found.group(1))
        if key in self._styles:
            after = self._styles[key]
        else:
            if len(self._styles) >= REMEMBERED:
                self._styles.clear()
            after = self._styles[key] = styled(*key)
        if after is None:
            sent.append(self._due() + found.group())
            self._terminal = None
        self._wanted = after

    def _pass(self, text: str, sent: list[str]) -> None:
        still = _STILL.match(text)
        start = still.end() if still else 0
        if start:
            sent.append(text[:start])
        if start == len(text):
            return
        drawn = text[start:] if start else text
        sent.append(self._due())
        sent.append(drawn)
        if any(escape in drawn for escape in _ESCAPES):
            left = _HARMLESS.sub("", drawn)
            if any(escape in left for escape in _ESCAPES):
                self._terminal = self._wanted = None

    def _due(self) -> str:
        """The step to the wanted style, taken as sent."""
        if self._wanted is None or self._wanted == self._terminal:
            return ""
        key = (self._terminal, self._wanted)
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= REMEMBERED:
                self._steps.clear()
            found = self._steps[key] = step(*key)
        self._terminal = self._wanted
        return found
