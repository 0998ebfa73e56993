"""Events: whatever text one is made with or decoded from, nobody who draws it has to clean it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, get_args, get_origin

import msgspec
import pytest

from aisp.engine.protocol import events

EVIL = "\x1b]52;c;aGk=\x07 a\r\n\tb \x9b6n \u202egnp.exe \u200b"
FORBIDDEN = "\x1b\x07\r\x9b\u202e\u200b"
MESSAGES = (*get_args(events.AnyEvent), events.Device, events.QueueItem, events.WatchItem)
OWN: dict[Any, Any] = {str: EVIL, list[str]: [EVIL, "plain"], dict[str, str]: {EVIL: EVIL}}


def own_texts(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: OWN[field.type] for field in msgspec.structs.fields(kind) if field.type in OWN}


def flat(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return [value] if isinstance(value, str) else list(value)


def value(kind: Any) -> Any:
    """Of a field that holds no text."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind)).value
    return {int: 1, float: 1.0, bool: True}.get(kind, [] if get_origin(kind) is list else None)


def made_of_texts(kind: type[msgspec.Struct]) -> bool:
    """Whether it holds text of its own; a record that it holds as well is clean by itself."""
    types = [field.type for field in msgspec.structs.fields(kind)]
    return any(found in OWN for found in types) and not any(
        isinstance(found, type) and issubclass(found, msgspec.Struct) for found in types
    )


@pytest.mark.parametrize("kind", filter(made_of_texts, MESSAGES), ids=lambda kind: kind.__name__)
def test_every_text_of_a_message_is_clean_whether_it_is_made_or_decoded(kind: type[msgspec.Struct]) -> None:
    texts = own_texts(kind)
    fields = {field.name: texts.get(field.name, value(field.type)) for field in msgspec.structs.fields(kind)}
    raw = msgspec.json.encode({"type": kind.__struct_config__.tag, **fields})
    for message in (kind(**fields), msgspec.json.decode(raw, type=kind)):
        for name in texts:
            for text in flat(getattr(message, name)):
                assert not [sign for sign in FORBIDDEN if sign in text], name
                assert name in getattr(kind, "LINES", ()) or ("\n" not in text and "\t" not in text), name
                assert "\u241b]52;c;aGk=\u2407" in text or text == "plain", name


def test_lines_of_an_output_keep_their_indentation_and_a_banner_is_one_line() -> None:
    printed = events.Output(run_id="R1", arm="a", stream="stdout", lines=["    x  =\t1"])
    assert printed.lines == ["    x  =\t1"]
    assert events.Banner(key="disk", text="the disk\nis full  now").text == "the disk is full now"
