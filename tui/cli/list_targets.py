"""`aisp list`: what can be run, and what came of it last. Imports neither numpy nor textual nor
torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from aisp.engine import paths
from aisp.store.outcomes import State, Validity
from aisp.store.results import catalogued
from aisp.store.results.reading import Bar
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common, last_results
from aisp.tui.cli.last_results import Standing
from aisp.tui.cli.quarantine import Marks
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, AnswerNoError
from aisp.tui.results import state_words

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Catalog, Target


@click.command()
@click.option("--chapter", metavar="ID", help="Only this chapter: ch07, labs/block_scaling, a folder's name.")
@common.roots_option
@common.json_option
@click.pass_context
def command(ctx: click.Context, chapter: str | None, roots: tuple[str, ...], as_json: bool) -> None:
    """List targets with what they need and their last results.

    Exit status: 0; 1 there is no target; 2 there is no such chapter. Targets that do not load are told on stderr.
    """
    catalog = common.load_catalog(roots)
    targets = choose(catalog, chapter)
    last, marks = results_of(targets)
    if not targets and not as_json:
        raise AnswerNoError("no targets; `aisp new NAME` makes one")
    told = (target_json(target, last.get(target.id), marked(marks, target)) for target in targets)
    common.answer(as_json, lambda: {"targets": list(told)}, lines, targets, last, marks)
    ctx.exit(EXIT_GOOD if targets else EXIT_NO)


def results_of(targets: Sequence[Target]) -> tuple[dict[str, Standing], Marks]:
    """How each target stands by the store, and the marks on rungs; why they cannot be read is told on stderr."""
    last, marks, problem = last_results.read(paths.database_file(), [target.id for target in targets])
    if problem:
        common.note(f"aisp: warning: {clean_line(problem)}")
    return last, marks


def choose(catalog: Catalog, chapter: str | None) -> list[Target]:
    """The targets of a chapter, all of them where it is None; wrong usage where there is no such chapter."""
    if chapter is None:
        return list(catalog.targets)
    chapters = list(dict.fromkeys([*(c.id for c in catalog.chapters), *(t.chapter for t in catalog.targets)]))
    if chapter not in chapters:
        raise click.UsageError(f"no chapter {chapter!r}; there are {', '.join(chapters) or 'none'}")
    return [target for target in catalog.targets if target.chapter == chapter]


def marked(marks: Marks, target: Target) -> list[Bar]:
    """The rungs of a target that are in quarantine."""
    return list(marks.in_force(bytes(target.folder)).values())


def lines(targets: list[Target], last: dict[str, Standing], marks: Marks, *, width: int | None) -> list[str]:
    """The table for people, and below it why a rung is marked."""
    rows = [
        [
            clean_line(target.id),
            clean_line(target.title),
            str(len(target.honest_rungs)),
            common.needs_text(target.needs),
            last_text(last.get(target.id, Standing()), quarantined=bool(marked(marks, target))),
            plain.percent(found.sol if (found := last.get(target.id, Standing()).result) else None),
        ]
        for target in targets
    ]
    heads = ["target", "title", "rungs", "needs", "last result", "SOL"]
    table = common.table(
        heads, rows, right=["rungs", "SOL"], width=width, shrink="title", drop=["rungs", "needs", "title"]
    )
    told = [f"{target.id}: {mark.sentence}" for target in targets for mark in marked(marks, target)]
    return [*table, *([""] if told else []), *(clean_line(line, limit=2000) for line in told)]


def last_text(found: Standing, *, quarantined: bool = False) -> str:
    """A last result in a few words: "faster 2.31x", "wrong", "correct (quarantined)", a dash for none; and what the
    newest attempt came to, where that said nothing."""
    last, attempt = found.result, found.attempt
    if last is None:
        text = plain.DASH
    elif last.state != State.OK:
        text = state_words(State(last.state))
    elif last.speedup is None:
        text = "correct" if last.median_ms is None else f"{plain.number(last.median_ms)} ms"
    else:
        text = f"{last.verdict} {plain.speedup(last.speedup)}"
    notes = [last.validity] if last and Validity(last.validity).doubted else []
    notes += ["quick"] if last and last.quick and last.speedup is not None else []
    notes += ["quarantined"] if quarantined else []
    notes += [f"last try: {state_words(State(attempt.state))}"] if attempt else []
    if last is None and quarantined and not attempt:
        return "quarantined"
    return clean_line(f"{text} ({', '.join(notes)})" if notes else text)


def target_json(target: Target, found: Standing | None, marks: Sequence[Bar] = ()) -> dict[str, Any]:
    """A target for JSON; the schema is in docs/commands.md."""
    last, attempt = (found.result, found.attempt) if found else (None, None)
    return {
        **catalogued.target_json(target),
        "quarantined": [mark.as_json() for mark in marks],
        "last": last.as_json() if last else None,
        "last_try": attempt.as_json() if attempt else None,
    }
