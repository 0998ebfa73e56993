"""`aisp judge`: somebody's kernel in one Python file, checked and timed like any target.

The file is read and never imported here. One of ours (`kernels.catalog.onefile`) the engine reads again by its path.
A problem of others and an answer to it (`kernels.catalog.formats`) are written as a folder below the state directory.
From there on it is the run of an ordinary target.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results import repeating
from aisp.store.text import clean_line, file_stem
from aisp.tui import plain, problems
from aisp.tui.cli import common
from aisp.tui.cli.follow import exit_status
from aisp.tui.cli.run import Session
from aisp.tui.cli.tree import EXIT_INTERRUPTED, EXIT_NOT_HERE, MeantError, NotHereError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisp.kernels.catalog.formats import Dialect, Listed, Opened
    from aisp.kernels.catalog.model import Problem, Target

FINALISTS = 3  # what store.results.candidate has; a test compares them
MOST_TOLD = 20
"""Problems of a file that are told at once."""
ALIKE = ("task", "definition")
"""What the one file of a problem is called in formats where its folder has the name."""


@click.command()
@click.argument("file", metavar="PATH", type=click.Path(exists=True))
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
@click.option(
    "--patience",
    type=click.FloatRange(1, 3600),
    metavar="SECONDS",
    help="How long a rung may give no sign of progress; the engine's limits else.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="With --against a target: runs in the engine's queue at once; by default one more than there are GPUs.",
)
@click.option("--rungs", metavar="A,B", help="Rungs to run beside the baseline; all honest ones by default.")
@click.option("--quick", is_flag=True, help="Two replicas and fewer samples; says so in the result.")
@common.device_option
@click.option("--case", metavar="NAME", help="Which case of the file; the device's timed one by default.")
@common.again_option
@common.verbose_option
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    against: str | None,
    sweep: tuple[str, ...],
    finalists: int,
    patience: float | None,
    jobs: int | None,
    rungs: str | None,
    quick: bool,
    device: str,
    case: str | None,
    again: bool,
    as_json: bool,
) -> None:
    """Check and time one Python file at PATH: its functions reference, baseline, optimized and optimized_*.

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
    if against is not None and _is_runs(file):
        from aisp.tui.cli import judge_runs  # numpy: only once there is something to judge

        if rungs or sweep:
            raise click.UsageError("--rungs and --sweep are about one file, and not about a folder of generations")
        folder, checkout = map(Path, common.engine_roots([file, against]))
        status = judge_runs.judge(
            folder,
            checkout,
            device=device,
            case=case or "",
            patience_s=patience or 0.0,
            jobs=jobs or 0,
            again=again,
            as_json=as_json,
        )
        ctx.exit(status)
    if against is not None:
        against = _named(file, against)
        from aisp.tui.cli import judge_many  # the results: only where something is judged against a target

        if judge_many.meant(file, against, sweep):
            if rungs:
                raise click.UsageError("--rungs is about one file; candidates are rungs by themselves")
            ctx.exit(
                judge_many.judge(
                    file,
                    against,
                    sweep=sweep,
                    finalists=0 if quick else finalists,
                    device=device,
                    case=case or "",
                    patience_s=patience or 0.0,
                    jobs=jobs or 0,
                    again=again,
                    as_json=as_json,
                )
            )
    sent = _sent(file, against, as_json=as_json)
    if sent is None:
        return
    target = read(sent)
    wanted = [name.strip() for name in (rungs or "").split(",") if name.strip()]
    try:
        for name in wanted:
            target.rung(name)
        if case is not None:
            target.case(case)
    except LookupError as error:
        raise click.UsageError(clean_line(str(error.args[0]))) from None

    from aisp.engine.protocol import requests  # msgspec: only once there is something to send

    request = requests.StartRuns(
        seq=0,  # the connection numbers it
        roots=[sent],
        targets=[target.id],
        rungs=wanted,
        device=device,
        case=case or "",
        quick=quick,
        trigger="cli",
        patience_s=patience or 0.0,
        again=again,
    )
    session = Session(request, as_json=as_json)
    interrupted = asyncio.run(session.run())
    runs = list(session.runs)
    status = exit_status(runs, required=[target.id], refused=session.refused)
    if status == 0 and runs and all(run.not_here for run in runs):
        status = EXIT_NOT_HERE  # what is right is the baseline alone
    ctx.exit(EXIT_INTERRUPTED if interrupted else status)


def _is_runs(file: str) -> bool:
    """Whether a path is a folder of answers with what was claimed of them."""
    from aisp.kernels.catalog import formats

    found = formats.recognise(Path(file)) if Path(file).is_dir() else None
    return found is not None and found[1] is formats.Part.RUNS


def _named(file: str, against: str) -> str:
    """The problem that an answer names, where AGAINST is a folder of problems; else AGAINST. MeantError where the
    folder has no problem of that name."""
    from aisp.kernels.catalog import formats  # parses: only where a file is read

    path, folder = Path(file), Path(against)
    found = formats.named(folder, [path]) if folder.is_dir() else {}
    if path not in found and folder.is_dir() and (name := formats.wanted(path)):
        taken = formats.recognise(folder)
        if taken is not None and taken[1] is formats.Part.COLLECTION:
            told = f"{clean_line(file)} answers {clean_line(name)!r}, which is not among the problems in"
            raise MeantError(
                f"{told} {clean_line(against)}; `{repeating.shell('aisp', 'judge', against)}` lists them",
                kind="broken",
            )
    return str(found.get(path, against))


def _sent(file: str, against: str | None, *, as_json: bool) -> str | None:
    """The root to be sent to the engine; None where the path was listed or shown and there is nothing to run.

    Raises:
        MeantError: it is nothing that can be judged.
    """
    from aisp.kernels.catalog import formats  # parses: only where a file is read

    if against is not None:
        return answer_root(file, against)
    (path,) = map(Path, common.engine_roots([file]))
    found = formats.recognise(path)
    if found is None:
        if path.is_dir():
            raise MeantError(f"{clean_line(file)} holds no problems; {known_formats()}", kind="broken")
        return str(path)
    dialect, part = found
    if part is formats.Part.COLLECTION:
        listed = list(formats.listed(path))
        common.answer(as_json, lambda: listed_document(listed), listed_lines, listed)
    elif part is formats.Part.PROBLEM:
        opened = _opened(dialect, path)
        common.answer(as_json, lambda: opened_document(dialect, opened), opened_lines, dialect, opened)
    elif part is formats.Part.RUNS:
        from aisp.tui.cli import judge_runs  # for generations alone

        judge_runs.listing(path, as_json=as_json)
    else:
        told = f"{clean_line(file)} is an answer in the form of {dialect.TITLE}; name its problem: --against PROBLEM"
        raise MeantError(told, kind="broken")
    return None


def answer_root(file: str, against: str) -> str:
    """Where the target lies that an answer and its problem make. MeantError where they make none."""
    from aisp.kernels.catalog import formats  # parses: only where a file is read

    path, problem = map(Path, common.engine_roots([file, against]))
    dialect = formats.answered(problem, path)
    if dialect is None:
        raise MeantError(f"{clean_line(against)} is no problem; {known_formats()}", kind="broken")
    return _together(dialect, path, problem)


def known_formats() -> str:
    """Which formats of others are read, in a sentence."""
    from aisp.kernels.catalog import formats

    return f"formats that are read: {', '.join(dialect.TITLE for dialect in formats.DIALECTS)} (docs/formats.md)"


def _together(dialect: Dialect, candidate: Path, problem: Path) -> str:
    """Where the target lies that the two make. MeantError where they make none."""
    from aisp.engine import paths, written  # makes the state directory

    try:
        parts = dialect.against(candidate, problem)
    except OSError as error:
        raise MeantError(f"{clean_line(str(error))}", kind="broken") from None
    if parts.problems:
        raise _broken(parts.problems)
    name = folder_name(candidate)
    root = written.write(paths.judged_dir(), folder_name(problem), {name: parts.files}, most=written.JUDGED)
    return str(root / name)


def folder_name(path: Path) -> str:
    """What a target is called after a path: its own name, or its folder's where every problem's file is called
    alike."""
    named = path.parent if path.stem in ALIKE and not path.is_dir() else path
    return file_stem(named.name if named.is_dir() else named.stem)


def _opened(dialect: Dialect, path: Path) -> Opened:
    try:
        opened = dialect.read(path)
    except OSError as error:
        raise MeantError(f"{clean_line(str(error))}", kind="broken") from None
    if opened.problems:
        raise _broken(opened.problems)
    return opened


def _broken(problems: Sequence[Problem]) -> click.ClickException:
    if lacks := next((problem.not_here for problem in problems if problem.not_here), ""):
        return NotHereError(lacks)
    told = [clean_line(str(problem), limit=1000) for problem in problems[:MOST_TOLD]]
    return MeantError("\n".join(told), kind="broken")


def listed_document(listed: Sequence[tuple[Dialect, Listed]]) -> dict[str, Any]:
    """The problems of a folder for JSON; the schema is in docs/commands.md."""
    found = [
        {
            "format": dialect.NAME,
            "level": each.level,
            "number": each.number,
            "name": clean_line(each.name),
            "path": clean_line(str(each.path)),
            "reason": clean_line(each.reason) or None,
        }
        for dialect, each in listed
    ]
    return {"formats": dict(Counter(dialect.NAME for dialect, _ in listed)), "problems": found}


def listed_lines(listed: Sequence[tuple[Dialect, Listed]], *, width: int | None) -> Iterable[str]:
    """The same for people: a table, how many there are, and why some cannot be judged."""
    heads = ("format", "level", "number", "name", "file")
    rows = [
        (
            dialect.TITLE,
            plain.DASH if each.level is None else str(each.level),
            plain.DASH if each.number is None else str(each.number),
            clean_line(each.name),
            clean_line(each.path.name),
        )
        for dialect, each in listed
    ]
    yield from common.table(heads, rows, width=width, right=("level", "number"), shrink="name", drop=("file",))
    broken = [each for _, each in listed if each.reason]
    counted = Counter(dialect.TITLE for dialect, _ in listed)
    yield ""
    yield f"{len(listed):,} {'problem' if len(listed) == 1 else 'problems'}: " + ", ".join(
        f"{title} {count:,}" for title, count in counted.items()
    )
    for each in broken[:MOST_TOLD]:
        yield f"  cannot be judged: {clean_line(str(each.path))}: {clean_line(each.reason)}"
    if len(broken) > MOST_TOLD:
        yield f"  and {len(broken) - MOST_TOLD:,} more cannot"


def opened_document(dialect: Dialect, opened: Opened) -> dict[str, Any]:
    """One problem for JSON; the schema is in docs/commands.md."""
    return {
        "format": dialect.NAME,
        "path": clean_line(str(opened.path)),
        "title": clean_line(opened.title),
        "axes": dict(opened.axes),
        "inputs": dict(opened.inputs),
        "outputs": dict(opened.outputs),
        "weights": opened.weights,
        "cpu": dict(opened.cpu) if opened.cpu is not None else None,
        "notes": [clean_line(note, limit=1000) for note in opened.notes],
    }


def opened_lines(dialect: Dialect, opened: Opened, *, width: int | None) -> Iterable[str]:
    """The same for people."""
    return [*problems.opened_lines(dialect, opened), problems.command(opened)]


def read(file: str) -> Target:
    """The target that the file is. MeantError with every line that is wrong where it is none."""
    from aisp.kernels.catalog import load  # parses: only where a file is read

    found = load([Path(file)])
    if len(found.targets) == 1:
        return found.targets[0]
    told = [clean_line(str(problem), limit=1000) for problem in found.problems[:MOST_TOLD]]
    raise MeantError("\n".join(told) or f"{clean_line(file)} holds no target", kind="broken")
