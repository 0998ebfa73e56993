"""`aisp bench list-targets`: what can be run, and what came of it last. Imports neither numpy nor textual nor
torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engine import paths
from engine.clean import clean_line
from store.outcomes import State, Validity
from tui import plain
from tui.commands import common, last_results

if TYPE_CHECKING:
    from kernels.catalog.model import Catalog, Target


@click.command()
@click.option("--chapter", metavar="ID", help="Only this chapter: ch07, labs/block_scaling, a folder's name.")
@common.roots_option
@common.json_option
def command(chapter: str | None, roots: tuple[str, ...], as_json: bool) -> None:
    """List targets with what they need and their last results.

    Exit status: 0; 2 where there is no such chapter. Targets that do not load are told on stderr.
    """
    catalog = common.load_catalog(roots)
    targets = choose(catalog, chapter)
    last, problem = last_results.read(paths.database_file(), [target.id for target in targets])
    if problem:
        common.note(f"aisp: warning: {clean_line(problem)}")
    if as_json:
        common.say_document([target_json(target, last.get(target.id)) for target in targets])
        return
    common.say("\n".join(lines(targets, last, width=common.terminal_width())))


def choose(catalog: Catalog, chapter: str | None) -> list[Target]:
    """The targets of a chapter, all of them where it is None; wrong usage where there is no such chapter."""
    if chapter is None:
        return list(catalog.targets)
    chapters = list(dict.fromkeys([*(c.id for c in catalog.chapters), *(t.chapter for t in catalog.targets)]))
    if chapter not in chapters:
        raise click.UsageError(f"no chapter {chapter!r}; there are {', '.join(chapters) or 'none'}")
    return [target for target in catalog.targets if target.chapter == chapter]


def lines(targets: list[Target], last: dict[str, last_results.Last], *, width: int | None) -> list[str]:
    """The table for people."""
    if not targets:
        return ["no targets; `aisp new NAME` makes one"]
    rows = [
        [
            clean_line(target.id),
            clean_line(target.title),
            str(len(target.honest_rungs)),
            common.needs_text(target.needs),
            last_text(last.get(target.id)),
            plain.percent(last[target.id].sol) if target.id in last else plain.DASH,
        ]
        for target in targets
    ]
    heads = ["target", "title", "rungs", "needs", "last result", "SOL"]
    return plain.table(
        heads, rows, right=["rungs", "SOL"], width=width, shrink="title", drop=["rungs", "needs", "title"]
    )


def last_text(last: last_results.Last | None) -> str:
    """A last result in a few words: "faster 2.31x", "incorrect", a dash for none."""
    if last is None:
        return plain.DASH
    if last.state != State.OK:
        return clean_line(last.state)
    if last.speedup is None:
        return "correct" if last.median_ms is None else f"{plain.number(last.median_ms)} ms"
    marks = [last.validity] if last.validity in (Validity.SUSPECT, Validity.CAUGHT) else []
    marks += ["quick"] if last.quick else []
    text = f"{last.verdict} {plain.speedup(last.speedup)}"
    return clean_line(f"{text} ({', '.join(marks)})" if marks else text)


def target_json(target: Target, last: last_results.Last | None) -> dict[str, Any]:
    """A target for JSON; the schema is in docs/commands.md."""
    return {
        "id": target.id,
        "chapter": target.chapter,
        "title": target.title,
        "goal": target.goal,
        "needs": common.needs_json(target.needs),
        "techniques": list(target.techniques),
        "folder": plain.jsonable(bytes(target.folder)),
        "rungs": [
            {
                "name": rung.name,
                "role": rung.role,
                "kind": rung.kind,
                "needs": common.needs_json(rung.needs),
                "summary": rung.summary,
            }
            for rung in target.rungs
        ],
        "cases": [{"name": case.name, "axes": case.axes, "timed": case.timed} for case in target.cases],
        "last": last.as_json() if last else None,
    }
