"""`aisp list`: what can be run, and what came of it last. Imports neither numpy nor textual nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from aisp.engine import paths
from aisp.store.results.tables import documents
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, AnswerNoError

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Catalog, Target
    from aisp.store.results.overview import Lesson


@click.command()
@click.option("--chapter", metavar="ID", help="Only this chapter: ch07, labs/block_scaling, a folder's name.")
@common.roots_option
@common.json_option
@click.pass_context
def command(ctx: click.Context, chapter: str | None, roots: tuple[str, ...], as_json: bool) -> None:
    """List targets with what they need and their last results.

    Exit status: 0; 1 there is no target; 2 there is no such chapter. Targets that do not load are told on stderr.
    """
    from aisp.store.results.tables.lessons import TARGETS

    targets = choose(common.load_catalog(roots), chapter)
    found = read(targets)
    if not targets and not as_json:
        raise AnswerNoError("no targets; `aisp new NAME` makes one")
    common.answer(as_json, lambda: {"targets": documents(TARGETS, found)}, lines, found)
    ctx.exit(EXIT_GOOD if targets else EXIT_NO)


def read(targets: Sequence[Target]) -> list[Lesson]:
    """The targets with what the store knows of them; why it cannot be read is told on stderr."""
    from aisp.store.errors import StoreError
    from aisp.store.results.overview import Lesson
    from aisp.tui.stored import Stored

    database = paths.database_file()
    try:
        with Stored(database) as opened:
            return opened.lessons(targets, facts=False)
    except StoreError as error:
        common.note(f"aisp: warning: {clean_line(f'earlier results cannot be read from {database}: {error}')}")
        return [Lesson(target) for target in targets]


def choose(catalog: Catalog, chapter: str | None) -> list[Target]:
    """The targets of a chapter, all of them where it is None; wrong usage where there is no such chapter."""
    if chapter is None:
        return list(catalog.targets)
    chapters = list(dict.fromkeys([*(c.id for c in catalog.chapters), *(t.chapter for t in catalog.targets)]))
    if chapter not in chapters:
        raise click.UsageError(f"no chapter {chapter!r}; there are {', '.join(chapters) or 'none'}")
    return [target for target in catalog.targets if target.chapter == chapter]


def lines(found: Sequence[Lesson], *, width: int | None) -> list[str]:
    """The table for people, and below it why a rung is marked."""
    from aisp.store.results.tables.lessons import TARGETS, held_lines

    return [*plain.listing(TARGETS, found, width=width), *held_lines(found)]
