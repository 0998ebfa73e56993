"""Text from outside is made safe to draw: nothing of it may command a terminal, and nothing of it is lost silently."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.store.text import clean, clean_line


def forbidden(character: str) -> bool:
    """Whether a terminal or a layout would act upon this character."""
    code = ord(character)
    return (
        (code < 0x20 and character not in "\t\n")
        or 0x7F <= code <= 0x9F
        or 0xD800 <= code <= 0xDFFF
        or unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        or code in (0x061C, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF)
        or code in (0xAD, 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFFA0)
        or 0x206A <= code <= 0x206F
        or 0xFFF9 <= code <= 0xFFFB
        or 0xE0000 <= code <= 0xE007F
    )


@pytest.mark.parametrize(
    ("evil", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),  # writes the clipboard
        ("\x1b]0;root@prod\x1b\\", "␛]0;root@prod␛\\"),  # sets the window's title
        ("\x1b[6n", "␛[6n"),  # makes the terminal type an answer
        ("\x1b[2J\x1b[H", "␛[2J␛[H"),
        ("\x9b6n", "\\x9b6n"),  # the same as one C1 character
        ("\x90q\x9c", "\\x90q\\x9c"),
        ("\x85", "\\x85"),
        ("a\x00b", "a␀b"),
        ("ab\x08\x08XY", "ab␈␈XY"),
        ("100%\rdone", "100%␍done"),
        ("\x7f", "␡"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("a\u200bb\ufeffc", "a\\u200bb\\ufeffc"),
        ("\u2028", "\\u2028"),
        ("optimized\u3164", "optimized\\u3164"),  # a letter that is drawn as nothing: a second "optimized"
        ("opti\xadmized", "opti\\xadmized"),
        ("x\u180e\u034f\uffa0\U0001d173", "x\\u180e\\u034f\\uffa0\\U0001d173"),
        ("\U000e0041", "\\U000e0041"),  # tag characters: text that nobody sees
        ("\udcff", "\\udcff"),  # a lone surrogate, from a file name
    ],
)
def test_what_would_command_the_terminal_is_shown_instead(evil: str, shown: str) -> None:
    assert clean(evil) == shown


def test_the_c1_bytes_are_shown_whether_they_come_as_utf_8_or_as_latin_1() -> None:
    assert clean("\x9b6n".encode()) == "\\x9b6n"
    assert clean(b"\x9b6n") == "\\x9b6n"


def test_bytes_that_are_no_utf_8_are_shown_as_escapes_and_the_rest_is_kept() -> None:
    assert clean(b"caf\xe9 \xff\xfe ok \xe4\xbd\xa0") == "caf\\xe9 \\xff\\xfe ok 你"
    assert clean(os.fsencode("bad_\udcff.py")) == "bad_\\xff.py"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "tab\there\nline",
        "naïve ☕ 你好 Ω 한국어 नमस्ते ﾊ",
        "[red]not markup[/red] [/] [@click=app.quit]x[/]",
        "\\x1b[31m",
    ],
)
def test_ordinary_text_and_markup_are_left_alone(text: str) -> None:
    assert clean(text) == text


def test_windows_line_ends_become_newlines() -> None:
    assert clean("a\r\nb\r\n") == "a\nb\n"


def test_letters_and_their_accents_are_put_together() -> None:
    assert clean("cafe\u0301") == "caf\u00e9"


def test_a_huge_text_keeps_its_beginning_and_its_end_and_says_how_much_is_gone() -> None:
    text = "A" * 1000 + "x" * 5_000_000 + "Z" * 1000
    shown = clean(text)
    assert shown.startswith("A" * 1000)
    assert shown.endswith("Z" * 1000)
    assert "\n... 4936464 characters left out ...\n" in shown
    assert len(shown) < 65536 + 50


@pytest.mark.slow
def test_a_flood_of_escapes_cannot_grow_beyond_bounds() -> None:
    assert len(clean(b"\x9b" * 10_000_000)) < 65536 * 4 + 200


def test_a_text_at_the_limit_is_whole() -> None:
    assert clean("x" * 65536) == "x" * 65536
    assert clean("x" * 8, limit=8) == "x" * 8
    assert "1 characters left out" in clean("x" * 9, limit=8)


def test_one_line_is_one_line() -> None:
    assert clean_line("  a\n\tb \r\n c\x1b[0m ") == "a b c␛[0m"
    assert "\n" not in clean_line("x\n" * 100_000)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=80))
def test_whatever_text_comes_in_no_forbidden_character_comes_out(text: str) -> None:
    assert [c for c in clean(text) if forbidden(c)] == []
    assert [c for c in clean_line(text) if forbidden(c) or c in "\t\n"] == []


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_whatever_bytes_come_in_no_forbidden_character_comes_out(data: bytes) -> None:
    shown = clean(data)
    assert [c for c in shown if forbidden(c)] == []
    shown.encode()  # it can be sent and stored


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=80))
def test_cleaning_twice_changes_nothing(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert clean_line(clean_line(text)) == clean_line(text)


def test_every_single_code_point_is_either_kept_or_shown() -> None:
    for code in [*range(0x3000), *range(0xD7F0, 0xE010), *range(0xFE00, 0x10010), *range(0xE0000, 0xE0100)]:
        shown = clean(chr(code))
        assert not any(forbidden(c) for c in shown), hex(code)
        assert shown or code == 0, hex(code)
