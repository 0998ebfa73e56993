"""Style differences: whatever is written, the screen is the same cell by cell, and fewer bytes go to it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pyte
import pytest

from aisp.tui.sgr import PLAIN, Style, StyleDelta, step, styled

COLUMNS, LINES = 30, 8


def screen_of(texts: list[str]) -> Any:
    screen: Any = pyte.Screen(COLUMNS, LINES)
    stream: Any = pyte.Stream(screen)
    for text in texts:
        stream.feed(text)
    return screen


def cells(texts: list[str]) -> tuple[list[list[tuple[Any, ...]]], tuple[int, int]]:
    """Every cell with its colours and attributes, and where the cursor stands."""
    screen = screen_of(texts)
    drawn = [[tuple(screen.buffer[y][x]) for x in range(COLUMNS)] for y in range(LINES)]
    return drawn, (screen.cursor.y, screen.cursor.x)


def filtered(texts: list[str]) -> list[str]:
    delta = StyleDelta()
    return [*(delta.feed(text) for text in texts), delta.rest()]


def parameters(chance: random.Random) -> str:
    """A style as programs write them: attributes on and off, colours of all three kinds, resets anywhere."""

    def colour(first: int) -> str:
        kind = chance.randrange(4)
        if kind == 0:
            return str(first + chance.randrange(8))
        if kind == 1:
            return str(first + 60 + chance.randrange(8))
        if kind == 2:
            return f"{first + 8};5;{chance.randrange(256)}"
        return f"{first + 8};2;{chance.randrange(256)};{chance.randrange(256)};{chance.randrange(256)}"

    attributes = ["1", "2", "3", "4", "5", "7", "9", "22", "23", "24", "25", "27", "29", "39", "49", "0"]
    makers = [lambda: chance.choice(attributes), lambda: colour(30), lambda: colour(40)]
    return ";".join(chance.choice(makers)() for _ in range(chance.randrange(4)))


def script(chance: random.Random) -> str:
    """Styled text with all that may stand between: moves, erasures, line ends, frames, wide and unusual characters."""
    # What Textual writes around the text, and what nobody of ours writes but a terminal may get all the same.
    between: list[Callable[[], str]] = [
        lambda: f"\x1b[{chance.randrange(1, LINES + 1)};{chance.randrange(1, COLUMNS + 1)}H",
        lambda: f"\x1b[{chance.randrange(3)}K",
        lambda: f"\x1b[{chance.randrange(3)}J",
        lambda: f"\x1b[{chance.randrange(1, 5)}{chance.choice('ABCD')}",
        lambda: f"\x1b[{chance.randrange(1, 4)}{chance.choice('@PLMX')}",
        lambda: "\n",
        lambda: "\r\n",
        lambda: chance.choice(["\x1b7", "\x1b8", "\x1bM", "\x1bc", "\x1b[?25l", "\x1b[?7h", "\x1b[?6l"]),
        lambda: f"\x1b[{chance.choice(['1;99', '53', '21', '38;5', '5;38;2;1'])}m",
    ]
    parts = []
    for _ in range(chance.randrange(1, 40)):
        kind = chance.random()
        if kind < 0.4:
            parts.append(f"\x1b[{parameters(chance)}m")
        elif kind < 0.75:
            parts.append("".join(chance.choice("ab ─⣿é日x") for _ in range(chance.randrange(1, 6))))
        elif kind < 0.9:
            parts.append("\x1b[0m")
        else:
            parts.append(chance.choice(between)())
    return "".join(parts)


def cut(text: str, chance: random.Random) -> list[str]:
    marks = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randrange(8)))
    return [text[start:end] for start, end in zip([0, *marks], [*marks, len(text)], strict=True)]


@pytest.mark.slow
def test_whatever_is_written_in_whatever_pieces_the_screen_is_the_same() -> None:
    for seed in range(1500):
        chance = random.Random(seed)
        text = script(chance)
        pieces = cut(text, chance)
        assert cells(filtered(pieces)) == cells([text]), f"seed {seed}: {pieces!r} became {filtered(pieces)!r}"


def test_the_screen_is_right_after_every_write_and_not_only_at_the_end() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        text = script(chance)
        # Between sequences: one that is cut is waited for.
        writes = re.findall(r"(?:\x1b\[[0-9;?]*[A-Za-z@]|\x1b.|[^\x1b])+?(?=\x1b\[[0-9;]*H|\Z)", text, re.DOTALL)
        assert "".join(writes) == text
        delta, sent = StyleDelta(), ""
        for count, write in enumerate(writes, 1):
            sent += delta.feed(write)
            assert cells([sent])[0] == cells(writes[:count])[0], f"seed {seed}, write {count} of {writes!r}"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("1;38;2;1;2;3", "38;2;1;2;3", "\x1b[22m"),
        ("1;2;31", "2;31", "\x1b[22;2m"),
        ("31", "32", "\x1b[32m"),
        ("31;48;5;9", "", "\x1b[0m"),
        ("", "", ""),
        ("4;31", "31;4", ""),
        ("4", "1", "\x1b[0;1m"),
        ("4;31;42", "1;31;42", "\x1b[24;1m"),
        ("48;2;10;10;10", "7;48;2;10;10;10", "\x1b[7m"),
    ],
)
def test_the_step_between_two_styles_is_the_shortest(before: str, after: str, expected: str) -> None:
    one, other = styled(PLAIN, before), styled(PLAIN, after)
    assert one is not None and other is not None
    assert step(one, other) == expected


def test_a_style_that_is_not_known_is_made_from_nothing() -> None:
    assert step(None, Style(bold="1", foreground="31")) == "\x1b[0;31;1m"
    assert styled(None, "1;31") is None
    assert styled(None, "1;0;31") == Style(foreground="31")


@pytest.mark.parametrize("parameters", ["4:3", "99", "21", "38;5", "38;2;1;2", "38", "58;5;1", "38;7;1;2;3"])
def test_a_sequence_that_is_not_known_passes_as_it_is_until_a_reset(parameters: str) -> None:
    assert styled(PLAIN, parameters) is None
    delta = StyleDelta()
    assert delta.feed("\x1b[0;31ma") == "\x1b[0;31ma"
    assert delta.feed(f"\x1b[1m\x1b[{parameters}mb") == f"\x1b[1m\x1b[{parameters}mb"
    assert delta.feed("\x1b[31mc\x1b[1md") == "\x1b[31mc\x1b[1md"
    assert delta.feed("\x1b[0;31me\x1b[0;31mf") == "\x1b[0;31mef"


def test_text_in_one_style_is_styled_once() -> None:
    style = "\x1b[1;38;2;1;2;3m"
    frame = "".join(f"\x1b[{row};3H{style}row {row}\x1b[0m" for row in range(1, 5))
    delta = StyleDelta()
    delta.feed("\x1b[0m ")
    assert delta.feed(frame).count("m") == 1
    # A frame that begins in the style in which the last one ended sends no style at all.
    assert delta.feed(f"\x1b[?2026h\x1b[1;3H{style}again\x1b[0m\x1b[?2026l") == "\x1b[?2026h\x1b[1;3Hagain\x1b[?2026l"


def test_the_last_style_is_reset_before_the_terminal_is_handed_back() -> None:
    delta = StyleDelta()
    delta.feed("\x1b[0;41mred\x1b[0m")
    assert delta.feed("\x1b[?2004l\x1b[?1049l") == "\x1b[0m\x1b[?2004l\x1b[?1049l"
    # The other screen may have had another style.
    assert delta.feed("\x1b[0;41mred\x1b[0m") == "\x1b[0;41mred"
    assert delta.rest() == "\x1b[0m"
    assert delta.rest() == ""


@pytest.mark.parametrize(
    "sequence", ["\x1b[6n", "\x1b[?1000h", "\x1b[>25u", "\x1b]52;c;YWI=\a", "\x1b[?2026$p", "\x1b[?2026h", "\x1b[2J"]
)
def test_other_sequences_pass_unharmed_even_when_they_are_cut(sequence: str) -> None:
    for at in range(len(sequence)):
        delta = StyleDelta()
        assert delta.feed(sequence[:at]) + delta.feed(sequence[at:]) + delta.rest() == sequence
