"""What programs write into a page of prose stands between two comments that name it."""

from __future__ import annotations

import re


def markers(name: str) -> tuple[str, str]:
    """The comments before and after what is written under that name."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def put(text: str, name: str, markdown: str) -> str:
    """A page's text with this between its markers of that name.

    Raises:
        ValueError: the page has no such markers.
    """
    begin, end = markers(name)
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no {begin} ... {end}; put both where the table belongs")
    return pattern.sub(lambda _: f"{begin}\n\n{markdown}\n\n{end}", text)
