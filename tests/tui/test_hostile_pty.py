"""Whatever a kernel, a path, an error, a lesson or a name holds: the bytes on the terminal hold no command of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from aisp.store.text import clean, clean_line
from aisp.tui.endsignal import title_sequence
from aisp.tui.screens import SCREENS
from tests.tui.hostile import EVIL, MARKUP, SIGN, TEXTS, commands_in
from tests.tui.test_app_terminal import Terminal
from tests.tui.test_app_terminal import environment as environment  # a fixture


class Recording(Terminal):
    """A terminal whose bytes are kept and not interpreted: at 1 us a byte an emulator would hold the app up."""

    def __init__(self, argv: list[str], environment: dict[str, str], size: tuple[int, int]) -> None:
        super().__init__(argv, environment, size)
        self._stream.feed = lambda data: None


@pytest.fixture
def visited(environment: dict[str, str], tmp_path: Path) -> tuple[bytes, list[dict[str, str]]]:
    """The bytes of a tour through every screen of a hostile world, and what each screen drew."""
    log = tmp_path / "log"
    (tmp_path / "lessons").mkdir()
    words = [sys.executable, "-m", "tests.tui.hostile", str(tmp_path / "lessons"), str(log)]
    terminal = Recording(words, environment, size=(120, 40))
    try:
        status = terminal.end(150.0)
        assert status == 0, terminal.raw[-3000:].decode("utf-8", "replace")
    finally:
        terminal.close()
    return terminal.raw, [json.loads(line) for line in log.read_text("ascii").splitlines()]


@pytest.mark.evil
def test_no_screen_writes_a_hostile_sequence_to_the_terminal(visited: tuple[bytes, list[dict[str, str]]]) -> None:
    raw, stops = visited
    assert {stop["screen"] for stop in stops} == {*SCREENS, "confirm", "picker", "palette"}
    assert [stop["screen"] for stop in stops if stop["top"] != stop["expected"]] == []
    # The texts did arrive: what they would command stands there as pictures, markup as its own letters.
    untouched = [stop["screen"] for stop in stops if "\u241b" not in stop["drawn"]]
    assert untouched == []
    assert any(MARKUP in stop["drawn"] for stop in stops)
    assert any("The run was not started" in stop["drawn"] for stop in stops)  # a refusal in a notification
    found = commands_in(raw)
    assert found == [], f"{len(found)} commands:\n" + "\n".join(found[:20])


@pytest.mark.parametrize("name", [name for name in TEXTS if "arkup" not in name and name != "Markdown"])
def test_the_search_finds_each_hostile_text_raw_and_none_of_it_cleaned(name: str) -> None:
    around = b"\x1b[38;2;1;2;3mbefore %s after\x1b[0m\x1b[?1049l"
    assert commands_in(around % TEXTS[name].encode())
    assert commands_in(around % clean(TEXTS[name]).encode()) == []
    assert commands_in(around % clean_line(EVIL).encode()) == []


def test_a_copy_of_ordinary_text_is_no_finding_and_one_that_pastes_a_command_is() -> None:
    def copy(text: str) -> bytes:
        import base64

        return b"\x1b]52;c;" + base64.b64encode(text.encode()) + b"\x07"

    assert commands_in(copy("aisp run ch07:transpose")) == []
    assert commands_in(copy("echo \x1b]0;x\x07"))
    assert commands_in(copy(SIGN))
    assert commands_in("\x1b]52;c;│ no copy\x07".encode())


@pytest.mark.parametrize("name", [name for name in TEXTS if "arkup" not in name and name != "Markdown"])
def test_our_title_is_no_finding_and_one_with_a_command_in_it_or_of_another_name_is(name: str) -> None:
    assert commands_in(title_sequence("aisp: ch07:transpose 3/5").encode()) == []
    assert commands_in(title_sequence(f"aisp: {TEXTS[name]}").encode()) == []
    assert commands_in(f"\x1b]2;aisp: {TEXTS[name]}\x1b\\".encode())
    assert commands_in(title_sequence(SIGN).encode())
    assert commands_in(b"\x1b]0;aisp: x\x1b\\")
