"""`aisp judge`: somebody's kernel in one Python file, checked and timed like any target.

The file is read and never imported here. One of ours (`kernels.catalog.onefile`) the engine reads again by its path.
A problem of others and an answer to it (`kernels.catalog.formats`) are written as a folder below the state directory.
From there on it is the run of an ordinary target.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results import repeating
from aisp.store.results.candidate import FINALISTS
from aisp.store.results.tables import Column, attributes, documents
from aisp.store.text import clean_line, file_stem
from aisp.tui import plain, problems
from aisp.tui.cli import common, resolve
from aisp.tui.cli.follow import exit_status
from aisp.tui.cli.resolve import MOST_TOLD
from aisp.tui.cli.run import measure
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NOT_HERE, MeantError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisp.kernels.catalog.formats import Dialect, Listed

ALIKE = ("task", "definition")
"""What the one file of a problem is called in formats where its folder has the name."""


@click.command()
@click.argument("file", metavar="PATH|TARGET", shell_complete=common.complete_targets)
@click.option(
    "--against",
    metavar="TARGET",
    help="What PATH is an answer to: a problem in a format of others, or a target, by its id or path. In a folder "
    "every Python file and every folder is an answer.",
    shell_complete=common.complete_targets,
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=A,B",
    help="With --against: judge each with these values of a constant at its left edge. Repeatable: all combinations.",
)
@click.option(
    "--finalists",
    type=click.IntRange(0, 100),
    default=FINALISTS,
    show_default=True,
    metavar="N",
    help="With --against a target: how many get a full run at most, the fastest; --quick: none.",
)
@common.patience_option
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="With --against a target: runs in the engine's queue at once; by default one more than there are GPUs.",
)
@common.rungs_option
@common.quick_option
@common.device_option
@common.case_option
@common.again_option
@common.verbose_option
@common.json_option
def command(
    file: str,
    against: str | None,
    sweep: tuple[str, ...],
    finalists: int,
    patience: float | None,
    jobs: int | None,
    rungs: str | None,
    quick: bool,
    case: str | None,
    as_json: bool,
    **how: Any,
) -> int:
    """Check and time one Python file at PATH: its functions reference, baseline, optimized and optimized_*.

    Any other TARGET is run as `aisp run` does.

    The parameters of reference are annotated with the inputs (x: "float32 [M, N] normal"), its result with the outputs
    (-> "float32 [M, N]"), and a dictionary axes at the top gives the sizes. Nothing else is needed, and the file is not
    imported to be read. Its target is called after the file: softmax.py is softmax:softmax in history.

    Formats of others are read as they are (docs/formats.md): a folder of problems is listed, a problem is shown, and
    a candidate is judged --against its problem. A folder of generations is listed with what was claimed of them, and
    judged --against the checkout that has their problems.

    Many candidates of one target are judged --against it: each Python file in a folder, and each folder in it. What was
    judged before is known and not run again, also after a kill. The fastest get a full run of their own.

    Exit status: 0 the run is good, or a candidate is right and faster; 1 it is wrong, failed, or its times are not to
    be believed, or no candidate is faster; 2 the file is no target, with the line and what would work; 3 it could not
    be run here; 130 left by Ctrl-C.
    """
    if against is None and sweep:
        raise click.UsageError("--sweep makes candidates; say of which target: --against TARGET")
    if against is None and tell(file, as_json=as_json):
        return EXIT_GOOD
    how["patience_s"] = patience or 0.0
    if against is not None:
        if not Path(file).exists():
            raise resolve.no_path(Path(file))
        from aisp.kernels.catalog import formats
        from aisp.tui.cli import judge_many, judge_runs  # the results: only where something is judged against a target

        many: dict[str, Any] = {"case": case or "", "ahead": jobs or 0, "as_json": as_json, **how}
        if (recognised := formats.recognise(Path(file))) is not None and recognised[1] is formats.Part.RUNS:
            if rungs or sweep:
                raise click.UsageError("--rungs and --sweep are about one file, and not about a folder of generations")
            return judge_runs.judge(*map(Path, common.engine_roots([file, against])), finalists=0, **many)
        against = _named(file, against)
        if judge_many.meant(file, against, sweep):
            if rungs:
                raise click.UsageError("--rungs is about one file; candidates are rungs by themselves")
            many["finalists"] = 0 if quick else finalists
            return judge_many.judge(file, against, sweep=sweep, quick=quick, **many)
    target = resolve.target(file, against=against)
    session, interrupted = measure([target], rungs=rungs, case=case, as_json=as_json, quick=quick, **how)
    status = exit_status(session.runs, required=[target.id], refused=session.refused)
    if status == 0 and session.runs and all(run.not_here for run in session.runs):
        status = EXIT_NOT_HERE  # what is right is the baseline alone
    return EXIT_INTERRUPTED if interrupted else status


def _named(file: str, against: str) -> str:
    """The problem that an answer names, where AGAINST is a folder of problems; else AGAINST. MeantError where the
    folder has no problem of that name."""
    from aisp.kernels.catalog import formats  # parses: only where a file is read

    path, folder = Path(file), Path(against)
    found = formats.named(folder, [path]) if folder.is_dir() else {}
    if path not in found and folder.is_dir() and (name := formats.wanted(path)):
        taken = formats.recognise(folder)
        if taken is not None and taken[1] is formats.Part.COLLECTION:
            told = f"{file} answers {name!r}, which is not among the problems in {against}"
            raise MeantError(f"{told}; `{repeating.shell('aisp', 'judge', against)}` lists them", kind="broken")
    return str(found.get(path, against))


def tell(file: str, *, as_json: bool) -> bool:
    """List or show the problems in a format of others at a path; whether there are any."""
    from aisp.kernels.catalog import formats  # parses: only where a file is read

    (path,) = map(Path, common.engine_roots([file]))
    dialect, part = formats.recognise(path) or (None, None)
    if dialect is None or part is formats.Part.CANDIDATE:
        return False
    if part is formats.Part.COLLECTION:
        listed = list(formats.listed(path))
        formats_of = dict(Counter(dialect.NAME for dialect, _ in listed))
        common.answer(
            as_json, lambda: {"formats": formats_of, "problems": documents(PROBLEMS, listed)}, listed_lines, listed
        )
    elif part is formats.Part.PROBLEM:
        try:
            opened = dialect.read(path)
        except OSError as error:
            raise MeantError(str(error), kind="broken") from None
        if opened.problems:
            raise resolve.refused(opened.problems)
        names = ("path", "title", "axes", "inputs", "outputs", "weights", "cpu", "notes")
        common.answer(
            as_json,
            lambda: {"format": dialect.NAME, **attributes(opened, *names)},
            lambda width: [*problems.opened_lines(dialect, opened), problems.command(opened)],
        )
    else:
        from aisp.tui.cli import judge_runs  # for generations alone

        judge_runs.listing(path, as_json=as_json)
    return True


def answer_root(file: str, against: str) -> str:
    """Where the target lies that an answer and its problem make. MeantError where they make none."""
    from aisp.engine import paths, written  # makes the state directory
    from aisp.kernels.catalog import formats  # parses: only where a file is read

    path, problem = map(Path, common.engine_roots([file, against]))
    if gone := [each for each in (path, problem) if not each.exists()]:
        raise resolve.no_path(gone[0])
    dialect = formats.answered(problem, path)
    if dialect is None:
        raise MeantError(f"{against} is no problem; {known_formats()}", kind="broken")
    try:
        parts = dialect.against(path, problem)
    except OSError as error:
        raise MeantError(str(error), kind="broken") from None
    if parts.problems:
        raise resolve.refused(parts.problems)
    name = folder_name(path)
    root = written.write(paths.judged_dir(), folder_name(problem), {name: parts.files}, most=written.JUDGED)
    return str(root / name)


def known_formats() -> str:
    """Which formats of others are read, in a sentence."""
    from aisp.kernels.catalog import formats

    return f"formats that are read: {', '.join(dialect.TITLE for dialect in formats.DIALECTS)} (docs/formats.md)"


def folder_name(path: Path) -> str:
    """What a target is called after a path: its own name, or its folder's where every problem's file is called
    alike."""
    named = path.parent if path.stem in ALIKE and not path.is_dir() else path
    return file_stem(named.name if named.is_dir() else named.stem)


Problem = tuple["Dialect", "Listed"]
"""A problem of a folder, and how it is written."""


def listed_lines(listed: Sequence[Problem], *, width: int | None) -> Iterable[str]:
    """A table, how many there are, and why some cannot be judged."""
    yield from plain.listing(PROBLEMS, listed, width=width)
    broken = [each for _, each in listed if each.reason]
    counted = Counter(dialect.TITLE for dialect, _ in listed)
    yield ""
    by_format = ", ".join(f"{title} {count:,}" for title, count in counted.items())
    yield f"{plain.counted(len(listed), 'problem')}: {by_format}"
    for each in broken[:MOST_TOLD]:
        yield f"  cannot be judged: {clean_line(str(each.path))}: {clean_line(each.reason)}"
    if len(broken) > MOST_TOLD:
        yield f"  and {len(broken) - MOST_TOLD:,} more cannot"


PROBLEMS: tuple[Column[Problem], ...] = (
    Column("format", "how it is written", lambda one: one[0].NAME, "format", lambda one: one[0].TITLE),
    Column("level", "of a collection that has levels", lambda one: one[1].level,
           "level", lambda one: plain.count(one[1].level), right=True),
    Column("number", "its number there", lambda one: one[1].number,
           "number", lambda one: plain.count(one[1].number), right=True),
    Column("name", "what it is called", lambda one: one[1].name, "name", shrink=True),
    Column("path", "its file or folder", lambda one: one[1].path, "file", lambda one: one[1].path.name, drop=1),
    Column("reason", "why it cannot be judged", lambda one: one[1].reason or None),
)  # fmt: skip
