"""Resolves what a person typed for a target: a name, a path, or a run. Every command that takes a TARGET asks here.

A word with the signs of a path (`choosing.is_path`) is one. Any other is the id or name of a target in the catalogue;
else a path, where something of that name exists; else the id or name of a target that was run before, or a run: both
lie in the folder that the store has of them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aisp.kernels.catalog import choosing
from aisp.store.results import repeating
from aisp.store.text import clean_line, file_stem
from aisp.tui.cli import common
from aisp.tui.cli.tree import MeantError, NotHereError

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Catalog, Problem, Target
    from aisp.store.record import Run

MOST_TOLD = 20
"""Problems of a path that are named at once."""
MOST_LOOKED_BACK = 100
"""Runs of a name in which the folder that a person has is looked for."""


def target(word: str, roots: Sequence[str] = (), *, against: str | None = None, live: bool = False) -> Target:
    """The one target that a word means, of a run the one that ran; with `against`, the one that an answer and its
    problem there make. `live` is explained at `of_run`.

    Raises:
        MeantError: it means none, or several.
    """
    if against is not None:
        from aisp.tui.cli import judge  # the formats of others: only where there is an answer

        return one(word, at(Path(judge.answer_root(word, against))))
    found = meant(word, lambda: common.load_catalog(roots), live=live)
    return one(word, found if isinstance(found, list) else [of_run(found, roots, live=live)])


def checked(target: Target, *, rungs: Iterable[str] = (), case: str | None = None) -> Target:
    """The target, which has these rungs and, unless it is "" or None, this case; wrong usage where it lacks one."""
    try:
        for name in rungs:
            target.rung(name)
        if case:
            target.case(case)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from None
    return target


def target_or_run(word: str, roots: Sequence[str] = ()) -> Target | Run:
    """The one target that a word means, or the stored run whose id it begins. MeantError where it is neither."""
    found = meant(word, lambda: common.load_catalog(roots))
    return one(word, found) if isinstance(found, list) else found


def targets(
    selectors: Sequence[str], roots: Sequence[str] = (), *, catalog: Catalog | None = None
) -> tuple[list[Target], list[str]]:
    """The targets that `selectors` mean, each once, in the order given, and the ids of those named one by one.

    A selector is a word, a chapter, a glob, `all`, a folder of targets, or several of these with commas between.

    Raises:
        MeantError: one of them means nothing.
        click.UsageError: there is none, or two of them have one id.
    """
    known = functools.cache(lambda: catalog or common.load_catalog(roots))
    chosen: dict[str, Target] = {}
    named: list[str] = []
    every = [word for text in selectors for word in words(text)]
    if not every:
        raise click.UsageError("no target is named; give a path, ids (ch01:batching), a chapter (ch07), a glob or all")
    for word in every:
        found = meant(word, known, live=False)
        some = found if isinstance(found, list) else [of_run(found, roots, live=False)]
        if not some:
            raise click.UsageError("there are no targets to run; `aisp new NAME` makes one")
        if len(some) == 1 and (choosing.is_path(word) or not choosing.is_group(word, [some[0].id])):
            named.append(some[0].id)
        for each in some:
            first = chosen.setdefault(each.id, each)
            if first.folder != each.folder:
                folders = clean_line(f"{first.folder} and {each.folder}", limit=4096)
                raise click.UsageError(f"two targets have the id {each.id}: {folders}; name them in two commands")
    return list(chosen.values()), named


def meant(word: str, catalog: Callable[[], Catalog], *, live: bool = True) -> list[Target] | Run:
    """The targets that a word means, of "all" perhaps none, or a stored run.

    Args:
        word: what a person typed.
        catalog: reads the catalogue, which is left alone where a word is a path.
        live: see `of_run`.

    Raises:
        MeantError: it means nothing.
    """
    if (path := path_of(word, catalog)) is not None:
        return at(path)
    try:
        return catalog().choose(word)
    except choosing.TargetError as error:
        told = common.meant_error(error)
    if any(chapter.id == word for chapter in catalog().chapters):
        raise MeantError(f"the chapter {word} has no targets that load", kind="broken")
    if told.kind != choosing.Miss.UNKNOWN:
        raise told
    try:
        return _stored(word, catalog().ids, live)
    except NotHereError as error:  # what cannot be read has no names to offer
        raise error if begins_a_run(word) else told from None


def path_of(word: str, catalog: Callable[[], Catalog]) -> Path | None:
    """The path that a word means; None where it is a name, or nothing."""
    path = Path(word).expanduser()
    if choosing.is_path(word):
        return path
    if not os.path.lexists(path):
        return None
    try:
        catalog().choose(word)
    except choosing.TargetError as error:
        return path if error.kind is choosing.Miss.UNKNOWN else None
    return None


def one(word: str, found: Sequence[Target]) -> Target:
    """The only target among those that a word means. MeantError where there are more."""
    if len(found) == 1:
        return found[0]
    raise common.meant_error(choosing.ambiguous(word, [repeating.named(each.id, each.folder) for each in found]))


def begins_a_run(word: str) -> bool:
    """Whether a word that names nothing was meant as the beginning of a run's id: they begin with a digit."""
    return word[:1].isdigit()


def words(text: str) -> list[str]:
    """The words of a selector. A path may have commas in its name."""
    if choosing.is_path(text) or os.path.lexists(text):
        return [text]
    return [word for part in text.split(",") if (word := part.strip())]


# -- paths -------------------------------------------------------------------------------------------------------------


def at(path: Path) -> list[Target]:
    """The targets at a path: of a folder, a Python file, or a folder of either.

    Raises:
        MeantError: there is none, with the file, key and fix of what keeps it from being one.
        NotHereError: what it needs to be read is not on this machine.
    """
    from aisp.kernels.catalog import formats, load  # parses lessons

    path = Path(os.path.abspath(path))  # noqa: PTH100  a link keeps its name, which is part of the target's id
    if not os.path.lexists(path):
        raise no_path(path)
    found = load([path])
    if not (found.targets or found.broken) and path.is_dir():
        files = load(sorted(path.glob("*.py")))  # each may be a target by itself
        found = files if files.targets else found
    if not found.targets:
        foreign = formats.next_move(path)
        raise refused([foreign] if foreign is not None else found.problems)
    common.warn(found.problems)
    return [each for each in found.targets if each.folder == path] or list(found.targets)


def refused(problems: Sequence[Problem]) -> MeantError | NotHereError:
    """Why a path is no target, problem by problem."""
    if lacks := next((problem.not_here for problem in problems if problem.not_here), ""):
        return NotHereError(lacks)
    told = [clean_line(str(problem), limit=1000) for problem in problems[:MOST_TOLD]]
    return MeantError("\n".join(told), kind="broken")


def no_path(path: Path) -> MeantError:
    """That nothing is at a path, with the names beside it that come nearest."""
    import difflib  # only on the error path

    names = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    near = [str(path.with_name(name)) for name in difflib.get_close_matches(path.name, names, n=2, cutoff=0.6)]
    hint = f"did you mean {clean_line(' or '.join(near))}?" if near else "`aisp new NAME` makes a target"
    return MeantError(f"there is no folder or file {path}; {hint}", near)


# -- the store ---------------------------------------------------------------------------------------------------------


def of_run(run: Run, roots: Sequence[str] = (), *, live: bool = True) -> Target:
    """The target of a stored run as it stands: in the folder where it ran, else the catalogue's of that id; where it
    need not be `live`, so that a person edits it, else of the sources that ran.

    Raises:
        MeantError: there is none.
    """
    folder = Path(os.fsdecode(run.folder))
    there = bool(run.folder) and folder.exists()
    found = at(folder) if there else common.load_catalog(roots).targets
    named = sorted((each for each in found if run.target in each.names), key=lambda each: each.id != run.target)
    known = next(iter(named or found[: int(there)]), None)
    if known is not None:
        return known
    if live or not run.snapshot:
        raise MeantError(repeating.gone(run))
    from aisp.engine import paths, written  # makes the state folder

    with common.history() as opened:
        files = opened.snapshot(run.snapshot)
    common.note(f"{os.fsdecode(run.folder)} is not on this machine; these are the sources that ran")
    chapter, name = (file_stem(part) for part in (choosing.chapter_of(run.target), choosing.name_of(run.target)))
    return one(run.target, at(written.write(paths.judged_dir(), chapter, {name: files}, most=written.JUDGED) / name))


def _stored(word: str, names: Sequence[str], live: bool) -> list[Target] | Run:
    """The target of that id or name that was run before, or the run whose id a word begins."""
    with common.history() as opened:
        try:
            known = choosing.one(word, list(dict.fromkeys([*opened.targets(), *names])))
        except choosing.TargetError as error:
            if error.kind is choosing.Miss.UNKNOWN and ":" not in word:  # a target's id has one, no run's id does
                try:
                    return opened.run(word)
                except LookupError:
                    if begins_a_run(word):
                        raise
            path = no_path(Path(word).absolute())
            raise path if os.sep in word or (path.near and not error.near) else common.meant_error(error) from None
        runs = opened.newest(MOST_LOOKED_BACK, known, all_findings=False)
    own = next((run for run in runs if not _is_copy(Path(os.fsdecode(run.folder)))), runs[0])
    return [of_run(own, live=live)]


def _is_copy(folder: Path) -> bool:
    """Whether it is one that aisp made of the sources that ran: a name means what a person has."""
    from aisp.engine import paths  # makes the state folder

    return folder.is_relative_to(paths.judged_dir())
