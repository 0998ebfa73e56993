"""The project's words and the size of its rooms: neither private words nor lines come back unseen."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests import words


def test_private_words_only_become_fewer() -> None:
    """`python -m tests.words` prints them; `--tighten` brings the budgets down to what is left."""
    allowed = words.budgets()["words"]
    more = {word: count for word, count in words.standing().items() if count > allowed.get(word, 0)}
    assert more == {}, f"more than tests/budgets.toml allows ({allowed}); say it with the glossary's words"


def test_no_room_outgrows_its_budget() -> None:
    """Whoever needs more raises the number in tests/budgets.toml, and says beside it what for."""
    budgets = words.budgets()["rooms"]
    rooms = words.rooms()
    assert {room for room in rooms if not budgets.get(room, {}).get("reason")} == set()
    assert set(budgets) <= set(rooms), "a room that is gone has a budget"
    assert {room: lines for room, lines in rooms.items() if lines > budgets[room]["lines"]} == {}


def test_the_glossary_says_what_each_term_means_once() -> None:
    entries = words.terms()
    names = [entry["term"] for entry in entries]
    assert len(set(names)) == len(names)
    for entry in entries:
        assert entry.keys() <= {"term", "meaning", "never"}
        assert re.fullmatch(r"[^.].{20,}\.", entry["meaning"]), entry
        assert entry["term"] not in entry.get("never", ())


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("def f(x):\n    found = x\n    return found\n", "name found"),
        ("def f(told):\n    return told\n", "name told"),
        ('def f(x):\n    """Of all rows the last."""\n', words.DOCSTRING),
        ('print("it was told to\\nthe user")\n', "text told"),
    ],
)
def test_a_private_word_in_a_new_module_is_counted(source: str, word: str) -> None:
    tally = words.counts([ast.parse(source)], [])
    assert {key for key, count in tally.items() if count} == {word}


def test_a_private_word_on_a_page_is_counted() -> None:
    assert words.counts([], ["so it was\ntold"])["text told"] == 1


def test_tightening_lowers_each_budget_and_raises_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text(
        '# how many\n[words]\n"name found" = 9\n"name told" = 1\n\n'
        '[rooms.store]\nlines = 900\nreason = "why"\n\n[rooms.tui]\nlines = 100\nreason = "why not"\n'
    )
    monkeypatch.setattr(words, "BUDGETS", path)
    monkeypatch.setattr(words, "rooms", lambda: {"store": 210, "tui": 300})
    monkeypatch.setattr(words, "standing", lambda: {"name found": 3, "name told": 5})
    words.tighten()
    assert path.read_text().startswith("# how many\n")
    budgets = words.budgets()
    assert budgets["words"] == {"name found": 3, "name told": 1}
    assert {room: each["lines"] for room, each in budgets["rooms"].items()} == {"store": 250, "tui": 100}
