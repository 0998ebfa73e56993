"""`python -m tests.proofs pages [NAME ...]`: write these pages of the documentation anew, or all of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.proofs.agreement import report as agreement
from tests.proofs.audit import report as audit
from tests.proofs.bench import sittings
from tests.proofs.evil import report as reliability
from tests.proofs.nightly import __main__ as nightly
from tests.proofs.oracle import report as oracle
from tests.proofs.oracle import sources
from tests.proofs.pages import keys, lessons, validity
from tests.proofs.pages.markers import put

DOCS = Path(__file__).resolve().parents[3] / "docs"


@dataclass(frozen=True, slots=True)
class Page:
    """A page and what makes it, from the page as it stands: the prose around tables is kept."""

    name: str
    made: Callable[[str], str]
    lesson: Path | None = None  # of a page that is not in docs

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.lesson or DOCS / f"{self.name}.md"


PAGES: Mapping[str, Page] = {
    page.name: page
    for page in (
        Page("validity", lambda _: validity.page()),
        Page("keys", lambda text: put(text, "keys", keys.tables())),
        Page("audit", lambda _: audit.page()),
        Page("reliability", lambda _: reliability.page(reliability.load(reliability.DATA))),
        Page("oracle_proof", lambda _: oracle.page(oracle.load(), sources.now())),
        Page("measurement", lambda text: agreement.written(text, agreement.DATA)),
        Page("suites", nightly.page),
        Page("speed", lambda text: put(text, "sittings", sittings.drawn(sittings.FOLDER))),
        *(
            Page(name, partial(lessons.written, name), lessons.path(name))
            for name in (*lessons.rows(), *lessons.results())
        ),
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs pages", description="Write pages anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PAGES))
    names = parser.parse_args(arguments).names
    if unknown := [name for name in names if name not in PAGES]:
        parser.error(f"no page {unknown[0]!r}; there are {', '.join(PAGES)}")
    for name in names or PAGES:
        page = PAGES[name]
        text = page.path.read_text("utf-8")
        if (made := page.made(text)) != text:
            page.path.write_text(made, "utf-8")
            print(f"wrote {page.path.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
