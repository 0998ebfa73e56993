"""`aisp lessons`: all lessons with their last results beside what was predicted, in the app's orders and choices.

What a lesson comes to, the orders and the choices are said in store.results.overview.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results import hardware, overview
from aisp.store.results.overview import Lesson
from aisp.store.results.prediction import LOOK_BACK_RUNS, answer
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.expectations import said_word, times
from aisp.tui.earlier import newest_first

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Run
    from aisp.tui.cli.stored import Opened

# What this machine can time only an engine knows, and this command asks none.
CHOICES = tuple(name for name in overview.FILTERS if name != overview.HERE)
DROPPED = ("when", "on", "of light", "predicted")


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
    from aisp.tui.cli import stored  # the store and numpy

    order = next(name for name in overview.SORTS if _option(name) == sort)
    choice = next(name for name in CHOICES if _option(name) == only)
    targets = common.load_catalog(roots).targets
    with stored.history() as opened:
        every = gather(opened, targets)
    chosen = [one for one in every if overview.FILTERS[choice](one) and overview.matches(one, words)]
    lessons = overview.ordered(chosen, order)
    if out is not None:
        common.write_picture(out, partial(_draw, lessons, told(lessons, order, choice, words)))
    common.answer(as_json, lambda: {"lessons": [as_document(one) for one in lessons]}, lines, lessons)
    ctx.exit(0 if lessons else 1)


def _draw(lessons: Sequence[Lesson], title: str, file: str) -> None:
    from aisp.tui.cli.lessons_picture import draw  # matplotlib

    draw(lessons, title, file, file[-3:])


def told(lessons: Sequence[Lesson], order: str, choice: str, words: str) -> str:
    """What a page of lessons shows: "48 lessons by speed-up, only: not faster, with “tma”"."""
    count = f"{len(lessons)} lesson{'' if len(lessons) == 1 else 's'}"
    only = "" if choice == CHOICES[0] else f", only: {choice}"
    return f"{count} by {order}{only}{f', with “{words}”' if words else ''}"


def gather(opened: Opened, targets: Sequence[Target]) -> list[Lesson]:
    """Every lesson with what the store knows of it, in the order of the catalogue."""
    board = {name: opened.read(run) for name, run in opened.board(all_findings=False).items()}
    attempts = opened.attempts()
    known: dict[str, dict[str, object]] = {}

    def facts(run: Run) -> dict[str, object]:
        if run.environment not in known:
            known[run.environment] = opened.facts(run)
        return known[run.environment]

    found = []
    for target in targets:
        run, attempt = board.get(target.id), attempts.get(target.id)
        held = opened.marks.in_force(bytes(target.folder))
        said = None
        if target.expect is not None and run is not None:
            runs = newest_first(opened, target.id, LOOK_BACK_RUNS)
            said = answer(runs, target, facts, quarantined=bool(held))
        found.append(
            Lesson(
                target,
                run,
                Reading(attempt) if attempt is not None else None,
                facts(run.record) if run is not None else {},
                held,
                answer=said,
            )
        )
    return found


def lines(lessons: Sequence[Lesson], *, width: int | None) -> list[str]:
    """The table for people."""
    if not lessons:
        return ["no lesson is left by this choice; `aisp lessons` shows all"]
    rows = []
    for lesson in lessons:
        ratio, expect = lesson.ratio, lesson.target.expect
        predicted = plain.DASH
        if expect is not None:
            word = said_word(lesson.answer.says) if lesson.answer is not None else plain.DASH
            predicted = f"{times(expect.speedup)} {f'on {expect.on}' if word == plain.DASH else word}"
        row = [
            lesson.target.id,
            lesson.outcome.value,
            plain.speedup(ratio.speedup, ratio.low, ratio.high) if ratio is not None else plain.DASH,
            predicted,
            plain.percent(lesson.sol),
            hardware.short(lesson.on) or plain.DASH,
            plain.local_time(lesson.run.record.wall) if lesson.run is not None else plain.DASH,
        ]
        rows.append([clean_line(cell) for cell in row])
    heads = ["lesson", "verdict", "speed-up [low..high]", "predicted", "of light", "on", "when"]
    return plain.table(heads, rows, right=["of light"], width=width, shrink="lesson", drop=DROPPED)


def as_document(lesson: Lesson) -> dict[str, Any]:
    """A lesson for JSON; the schema is in docs/commands.md."""
    ratio, expect, run, target = lesson.ratio, lesson.target.expect, lesson.run, lesson.target
    return {
        "target": target.id,
        "chapter": target.chapter,
        "title": target.title,
        "techniques": list(target.techniques),
        "outcome": lesson.outcome,
        "why": lesson.why,
        "rung": ratio.rung if ratio is not None else None,
        "speedup": ratio.speedup if ratio is not None else None,
        "low": ratio.low if ratio is not None else None,
        "high": ratio.high if ratio is not None else None,
        "floor": ratio.floor if ratio is not None else None,
        "sol": lesson.sol,
        "limiter": lesson.limiter or None,
        "predicted": {"low": expect.speedup[0], "high": expect.speedup[1], "on": expect.on} if expect else None,
        "met": lesson.answer.met if lesson.answer is not None else None,
        "off_by_log2": lesson.off_by,
        "run_id": run.id if run is not None else None,
        "wall": run.record.wall if run is not None else None,
        "quick": run.record.quick if run is not None else None,
        "on": lesson.on or None,
    }
