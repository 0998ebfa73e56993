"""Text from outside, made safe to draw (`clean`), or to name a folder of ours (`file_stem`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

# C0 but tab and newline, DEL, C1, bidirectional controls and isolates, zero-width and line separators, tags, and what
# is drawn as nothing although it is a letter or a mark: with it two names look the same.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the picture of the control character
    if code == 0x7F:
        return "\u2421"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: str | bytes, *, limit: int = 65536) -> str:
    """Return `text` without anything that a terminal or a markup language would act upon.

    Bytes are decoded as UTF-8 with backslash escapes for what is not. Control characters become visible
    pictures, a carriage return before a newline disappears, tabs and newlines stay. Lone surrogates (from file
    names) are shown as escapes. Rich and Textual markup is not touched here, because brackets are ordinary
    text: whoever draws passes `markup=False` or a `Text`.

    Args:
        text: whatever came from a kernel, a path, an error or a file.
        limit: characters to keep; a longer text is cut in the middle and says so.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    text = text.replace("\r\n", "\n")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return unicodedata.normalize("NFC", _UNSAFE.sub(_escape, text))


def printable(text: str, *, lines: bool = False) -> bool:
    """Whether a terminal and a markup language leave `text` alone: one line of it, unless `lines`."""
    return _UNSAFE.search(text) is None and (lines or not re.search(r"[\n\t]", text))


def whole(ask: Callable[..., Any], *arguments: Any) -> Any:
    """Answer of a binding that decodes texts strictly, with escapes for bytes that are no UTF-8."""
    try:
        return ask(*arguments)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "backslashreplace")


def clean_line(text: str | bytes, *, limit: int = 512) -> str:
    """`clean`, on one line: newlines and tabs become spaces."""
    if isinstance(text, str) and len(text) <= limit and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return re.sub(r"\s+", " ", clean(text, limit=limit)).strip()


def file_stem(text: str) -> str:
    """A name of somebody else's as the name of a folder that we make."""
    return re.sub(r"[^\w.+-]", "_", text).lstrip(".") or "unnamed"
