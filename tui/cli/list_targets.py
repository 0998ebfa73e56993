"""`aisp list`: what can be run, and what came of it last; with --predictions beside what was predicted, in the app's
orders and choices. Imports neither numpy nor textual nor torch.

What a lesson comes to, the orders and the choices are said in store.results.overview.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from aisp.engine import paths
from aisp.store.results import overview
from aisp.store.results.overview import Lesson
from aisp.store.results.tables import documents
from aisp.store.results.tables.lessons import LESSONS, TARGETS, held_lines
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, AnswerNoError

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Catalog, Target

# What this machine can time only an engine knows, and this command asks none.
CHOICES = {name.replace(" ", "-"): name for name in overview.FILTERS if name != overview.HERE}
ORDERS = {name.replace(" ", "-"): name for name in overview.SORTS}
ACTIONS = {"predictions": ("sort", "only", "words", "out"), "": ()}


@click.command()
@click.option("--chapter", metavar="ID", help="Only this chapter: ch07, labs/block_scaling, a folder's name.")
@click.option("--predictions", is_flag=True, help="Show verdict and figures beside what was predicted.")
@click.option(
    "--sort",
    type=click.Choice(list(ORDERS)),
    default=next(iter(ORDERS)),
    show_default=True,
    help="With --predictions: the order of the rows; lessons of which nothing is known come last.",
)
@click.option(
    "--only",
    type=click.Choice(list(CHOICES)),
    default=next(iter(CHOICES)),
    show_default=True,
    help="With --predictions: which lessons are shown.",
)
@click.option(
    "--filter",
    "words",
    default="",
    metavar="WORDS",
    help="With --predictions: only lessons of which all these words are said, as in their id, technique, verdict.",
)
@common.picture_option
@common.roots_option
@common.json_option
def command(
    chapter: str | None,
    predictions: bool,
    sort: str,
    only: str,
    words: str,
    out: str | None,
    roots: tuple[str, ...],
    as_json: bool,
) -> int:
    """List targets with what they need and their last results. With --predictions: verdict, speed-up, what was
    predicted, share of the speed of light, where and when.

    Exit status: 0; 1 there is no target; 2 there is no such chapter. Targets that do not load are told on stderr. With
    --predictions: 3 the store cannot be read, or matplotlib is not installed.
    """
    common.action(ACTIONS)
    targets = choose(common.load_catalog(roots), chapter)
    if predictions:
        found = chosen(targets, ORDERS[sort], CHOICES[only], words)
        if out is not None:
            from aisp.tui.cli.lessons_picture import draw  # matplotlib

            title = f"{plain.counted(len(found), 'lesson')} by {sort}"
            title += "" if CHOICES[only] == "all" else f", only: {CHOICES[only]}"
            common.write_picture(out, partial(draw, found, f"{title}, with “{words}”" if words else title))
        common.answer(as_json, lambda: {"lessons": documents(LESSONS, found)}, predicted_lines, found)
    else:
        found = read(targets)
        if not targets and not as_json:
            raise AnswerNoError("no targets; `aisp new NAME` makes one")
        common.answer(as_json, lambda: {"targets": documents(TARGETS, found)}, lines, found)
    return EXIT_GOOD if found else EXIT_NO


def chosen(targets: Sequence[Target], order: str, choice: str, words: str) -> list[Lesson]:
    """The targets with their last results and what these say to the predictions, by the app's choices, in its order."""
    with common.history() as opened:
        every = [replace(one, answer=opened.answer(one.target)) for one in opened.lessons(targets)]
    fitting = [one for one in every if overview.FILTERS[choice](one) and overview.matches(one, words)]
    return overview.ordered(fitting, order)


def predicted_lines(lessons: Sequence[Lesson], *, width: int | None) -> list[str]:
    if not lessons:
        return ["no lesson is left by this choice; `aisp list --predictions` shows all"]
    return plain.listing(LESSONS, lessons, width=width)


def read(targets: Sequence[Target]) -> list[Lesson]:
    """The targets with what the store knows of them; why it cannot be read is told on stderr."""
    from aisp.store.errors import StoreError
    from aisp.tui.stored import Stored

    database = paths.database_file()
    try:
        with Stored(database) as opened:
            return opened.lessons(targets, facts=False)
    except StoreError as error:
        common.warn([f"earlier results cannot be read from {database}: {error}"])
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
    return [*plain.listing(TARGETS, found, width=width), *held_lines(found)]
