"""What a terminal may send, as bytes: a key, a paste or a report that is known, or nothing."""

from __future__ import annotations

import random

import pytest
from textual.events import AppFocus, CursorPosition, Key, MouseDown, Paste, Resize
from textual.message import Message

from aisp.tui.terminal_input import LONGEST, PASTE_SILENCE_S, SILENCE_S, TerminalInput


class Typed:
    """A terminal's side of the input, with a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.input = TerminalInput(clock_s=lambda: self.now_s)

    def send(self, data: bytes, silence_s: float = 0.0) -> list[Message]:
        messages = list(self.input.feed(data.decode("utf-8", "surrogateescape")))
        self.now_s += silence_s
        return messages + list(self.input.tick())


def shown(messages: list[Message]) -> list[str]:
    """Names of keys, with the character that would be typed."""
    keys = [message for message in messages if isinstance(message, Key)]
    assert len(keys) == len(messages)
    return [f"{key.key}={key.character}" if key.is_printable else key.key for key in keys]


KEYS = {
    "kitty, pressed": (b"\x1b[97;1:1u", ["a=a"]),
    "kitty, repeated": (b"\x1b[1;1:2A", ["up"]),
    "kitty, released": (b"\x1b[97;1:3u", []),
    "kitty, an arrow released": (b"\x1b[1;1:3A", []),
    "kitty, with what Shift gives": (b"\x1b[97:65;2u", ["A=A"]),
    "kitty, with a layout's base key": (b"\x1b[1089::99;5u", ["ctrl+с"]),
    "kitty, with its text": (b"\x1b[97;2;65u", ["A=A"]),
    "kitty, all of it": (b"\x1b[97:65:97;6:1;65u", ["ctrl+A=A"]),
    "kitty, Escape": (b"\x1b[27u", ["escape"]),
    "kitty, Ctrl with caps lock": (b"\x1b[99;69u", ["ctrl+c"]),
    "kitty, a key of no name": (b"\x1b[58000u", []),
    "kitty, no character at all": (b"\x1b[99999999999u", []),
    "kitty, half a character": (b"\x1b[55296;1u\x1b[0u", []),
    "kitty, numbers without end": (b"\x1b[" + b"9" * 6000 + b"u", []),
    "xterm's other keys": (b"\x1b[27;5;105~\x1b[27;2;65~\x1b[27;2;13~", ["ctrl+i", "A=A", "shift+enter"]),
    "a function key of no name": (b"\x1b[99~\x1b[1;9T", []),
    "old keys": (b"\x1b[A\x1bOP\x1b[[A\x1b[Z\x1b[1;5C\x1b[24~", ["up", "f1", "f1", "shift+tab", "ctrl+right", "f12"]),
    "Alt": (b"\x1bx\x1bf", ["alt+x=x", "ctrl+right"]),
    "text, with bytes that are none": (b"a\xff\xc3\xa9\xc2\x9b\xedb", ["a=a", "é=é", "b=b"]),
    "who are you": (b"\x1b[?62;22c\x1b[>1;4600;0c\x1b[?1u\x1b[0n\x1b[?997;1n", []),
    "colours, by BEL and by ST": (b"\x1b]11;rgb:1e1e/1e1e/2e2e\x07\x1b]10;rgb:ff/ff/ff\x1b\\", []),
    "a name, and a picture's answer": (b"\x1bP>|kitty(0.36)\x1b\\\x1b_Gi=31;OK\x1b\\", []),
    "a sequence that another cuts": (b"\x1b[12\x1b[B\x1b]0;x\x1b[B", ["down", "down"]),
    "a sequence with a letter of no alphabet": ("\x1b[1;é".encode(), ["é=é"]),
    "a mouse of old": (b"\x1b[M !!\x1b[M\xff\xff\xff\x1b[32;4;4M", []),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("whole", [True, False], ids=["at once", "byte by byte"])
def test_a_key_is_the_key_and_all_else_is_nothing(name: str, whole: bool) -> None:
    data, keys = KEYS[name]
    typed = Typed()
    decoded = data.decode("utf-8", "surrogateescape")
    messages: list[Message] = []
    for piece in [decoded] if whole else decoded:
        messages += typed.input.feed(piece)
    assert shown(messages) == keys
    assert shown(typed.send(b"q")) == ["q=q"]


def test_reports_arrive_and_a_size_that_no_window_has_does_not() -> None:
    typed = Typed()
    messages = typed.send(b"\x1b[I\x1b[5;9R\x1b[<0;3;4M\x1b[48;24;80;0;0t\x1b[<0;3;4M")
    assert typed.send(b"\x1b[48;0;80;0;0t\x1b[48;99999;9;9;9t") == []
    assert [type(message) for message in messages] == [AppFocus, CursorPosition, MouseDown, Resize, MouseDown]


def test_an_escape_alone_is_a_key_and_what_does_not_go_on_is_dropped() -> None:
    typed = Typed()
    assert shown(typed.send(b"\x1b")) == []
    assert shown(typed.send(b"", 0.2)) == ["escape"]
    assert shown(typed.send(b"\x1b\x1b", 0.2)) == ["escape", "escape"]
    assert shown(typed.send(b"\x1b[", 0.2)) == ["left_square_bracket=["]
    assert shown(typed.send(b"\x1b[12;", SILENCE_S) + typed.send(b"q")) == ["q=q"]
    assert shown(typed.send(b"\x1b]11;" + b"x" * LONGEST + b"yyy") + typed.send(b"zzz\x07q")) == ["q=q"]


def test_a_paste_is_one_message_whatever_is_in_it() -> None:
    typed = Typed()
    inside = b"rm\x1b[A\x1b]52;c;aGk=\x07 a\xff\r\nb\t" + b"q" * 100
    (paste,) = typed.send(b"\x1b[200~" + inside + b"\x1b[20") + typed.send(b"1~")
    assert isinstance(paste, Paste) and paste.text == "rm[A]52;c;aGk= a\r\nb\t" + "q" * 100
    assert shown(typed.send(b"\x1b[201~q")) == ["q=q"]
    assert typed.send(b"\x1b[200~never ended") == []
    (paste,) = typed.send(b"", PASTE_SILENCE_S)
    assert isinstance(paste, Paste) and paste.text == "never ended"
    assert shown(typed.send(b"q")) == ["q=q"]


@pytest.mark.parametrize("seed", range(40))
def test_no_bytes_end_the_input(seed: int) -> None:
    draw = random.Random(seed)
    parts = [b"\x1b", b"[", b"<", b"?", b";", b":", b"9999999", b"1", b"u", b"~", b"M", b"t", b"R", b"O", b"]", b"\x07"]
    parts += [b"P", b"\\", b"200~", b"\x1b[48;", b"27;", b"\xff", b"\xc3", b"$y", b"-", b"A", b"\x00", b"\x9b", b"a"]
    typed = Typed()
    for _ in range(300):
        typed.send(b"".join(draw.choices(parts, k=draw.randint(1, 12))), draw.choice((0.0, 0.0, 0.3)))
    typed.send(b"", 10.0)
    typed.send(b"", 10.0)
    assert shown(typed.send(b"q")) == ["q=q"]
