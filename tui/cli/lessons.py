"""`aisp lessons`: all lessons with their last results beside what was predicted, in the app's orders and choices.

What a lesson comes to, the orders and the choices are said in store.results.overview.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import click

from aisp.store.results import overview
from aisp.store.results.overview import Lesson
from aisp.store.results.tables import documents
from aisp.store.results.tables.lessons import LESSONS
from aisp.tui import plain
from aisp.tui.cli import common

# What this machine can time only an engine knows, and this command asks none.
CHOICES = tuple(name for name in overview.FILTERS if name != overview.HERE)


def _option(name: str) -> str:
    return name.replace(" ", "-")


@click.command()
@click.option(
    "--sort",
    type=click.Choice([_option(name) for name in overview.SORTS]),
    default=_option(next(iter(overview.SORTS))),
    show_default=True,
    help="The order of the rows; lessons of which nothing is known come last.",
)
@click.option(
    "--only",
    type=click.Choice([_option(name) for name in CHOICES]),
    default=_option(CHOICES[0]),
    show_default=True,
    help="Which lessons are shown.",
)
@click.option(
    "--filter",
    "words",
    default="",
    metavar="WORDS",
    help="Only lessons of which all these words are said: id, title, technique, limiter, verdict, hardware.",
)
@common.picture_option
@common.roots_option
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    sort: str,
    only: str,
    words: str,
    out: str | None,
    roots: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show every lesson: verdict, speed-up, what was predicted, share of the speed of light, where and when.

    Exit status: 0; 1 no lesson is left; 3 the store cannot be read, or matplotlib is not installed.
    """
    from aisp.tui.cli import stored  # the store

    order = next(name for name in overview.SORTS if _option(name) == sort)
    choice = next(name for name in CHOICES if _option(name) == only)
    targets = common.load_catalog(roots).targets
    with stored.history() as opened:
        every = [replace(one, answer=opened.answer(one.target)) for one in opened.lessons(targets)]
    chosen = [one for one in every if overview.FILTERS[choice](one) and overview.matches(one, words)]
    lessons = overview.ordered(chosen, order)
    if out is not None:
        common.write_picture(out, partial(_draw, lessons, told(lessons, order, choice, words)))
    common.answer(as_json, lambda: {"lessons": documents(LESSONS, lessons)}, lines, lessons)
    ctx.exit(0 if lessons else 1)


def _draw(lessons: Sequence[Lesson], title: str, file: str) -> None:
    from aisp.tui.cli.lessons_picture import draw  # matplotlib

    draw(lessons, title, file, file[-3:])


def told(lessons: Sequence[Lesson], order: str, choice: str, words: str) -> str:
    """What a page of lessons shows: "48 lessons by speed-up, only: not faster, with “tma”"."""
    only = "" if choice == CHOICES[0] else f", only: {choice}"
    return f"{plain.counted(len(lessons), 'lesson')} by {order}{only}{f', with “{words}”' if words else ''}"


def lines(lessons: Sequence[Lesson], *, width: int | None) -> list[str]:
    """The table for people."""
    if not lessons:
        return ["no lesson is left by this choice; `aisp lessons` shows all"]
    return plain.listing(LESSONS, lessons, width=width)
