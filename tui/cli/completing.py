"""What a shell is offered while a word is typed: targets, rungs and runs. Answers between two key strokes: no lesson
is read, no numpy, and the store is asked with Python's own sqlite3.

Whatever cannot be read offers nothing: a message would land in the middle of the line that is being typed.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from aisp.engine import paths
from aisp.kernels import catalog
from aisp.kernels.catalog import choosing
from aisp.kernels.catalog.model import Role
from aisp.store.readonly import open_read_only
from aisp.store.text import clean_line
from aisp.tui import plain

MOST_RUNS = 50
_RUNS = "SELECT id, target, wall, state, quick FROM runs WHERE id LIKE ? || '%' ORDER BY number DESC"


def targets(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Ids that begin with `incomplete`, and those whose name does."""
    return _items(_fitting(_folders(ctx), incomplete))


def groups(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The same, with chapters and all."""
    known = _folders(ctx)
    chapters = dict.fromkeys(choosing.chapter_of(target) for target in known)
    return _items([*_fitting(known, incomplete), *(w for w in (*chapters, choosing.ALL) if w.startswith(incomplete))])


def rungs(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Rungs of the targets that stand before, as they lie in their folders. After a comma one more is offered."""
    known = _folders(ctx)
    names: dict[str, None] = {}
    for target in (target for word in _before(ctx) for target in choosing.meant(word, list(known))):
        with contextlib.suppress(OSError):
            names |= dict.fromkeys(sorted(file.stem for file in known[target].glob("*.py") if Role.of(file.stem)))
    before, comma, begun = incomplete.rpartition(",")
    return _items(f"{before}{comma}{name}" for name in names if name.startswith(begun))


def runs(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Ids of the newest runs, with what they were of; of one target where that stands before."""
    database = paths.database_file()
    if not database.exists():
        return []
    wanted = _before(ctx)
    found: list[CompletionItem] = []
    with contextlib.suppress(sqlite3.Error), closing(open_read_only(database)) as connection:
        for run, target, wall, state, quick in connection.execute(_RUNS, (incomplete.upper(),)):
            if len(found) >= MOST_RUNS:
                break
            if wanted and not choosing.meant(wanted[0], [target]):
                continue
            told = f"{target}, {plain.local_time(wall)}, {state}{', quick' if quick else ''}"
            found.append(CompletionItem(run, help=clean_line(told)))
    return found


def _before(ctx: click.Context) -> list[str]:
    """The words before the one that is typed that may be targets. Before an option's value they are still unread."""
    params = ctx.params
    one = [params.get("target_id"), params.get("wanted")]
    return [word for word in (*one, *(params.get("selectors") or ()), *ctx.args) if word]


def _folders(ctx: click.Context) -> dict[str, Path]:
    given = ctx.params.get("roots") or ctx.params.get("root") or ()
    roots = [given] if isinstance(given, str) else list(given)
    return catalog.list_ids([Path(root).absolute() for root in roots] or None)


def _fitting(known: Iterable[str], incomplete: str) -> list[str]:
    ids = list(known)
    found = [target for target in ids if target.startswith(incomplete)]
    return found or [name for name in map(choosing.name_of, ids) if name.startswith(incomplete)]


def _items(words: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.isprintable()]
