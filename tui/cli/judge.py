"""`aisp bench judge`: somebody's kernel in one Python file, checked and timed like any target.

The file is read and never imported here. One of ours (`kernels.catalog.onefile`) the engine reads again by its path.
A problem of others and an answer to it (`kernels.catalog.formats`) are written as a folder below the state directory.
From there on it is the run of an ordinary target.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.store.text import clean_line
from aisp.tui.cli import common
from aisp.tui.cli.follow import exit_status
from aisp.tui.cli.run import Session
from aisp.tui.cli.tree import EXIT_INTERRUPTED, MeantError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisp.kernels.catalog.formats.kernelbench import Listed, Opened
    from aisp.kernels.catalog.model import Problem, Target

_PROBLEM = "it has a class Model and a function get_inputs"
MOST_TOLD = 20
"""Problems of a file that are told at once."""


@click.command()
@click.argument("file", metavar="PATH", type=click.Path(exists=True))
@click.option(
    "--against",
    metavar="PROBLEM",
    type=click.Path(exists=True, dir_okay=False),
    help="The problem that PATH is an answer to, in a format of others.",
)
@click.option("--rungs", metavar="A,B", help="Rungs to run beside the baseline; all honest ones by default.")
@click.option("--quick", is_flag=True, help="Two replicas and fewer samples; says so in the result.")
@common.device_option
@click.option("--case", metavar="NAME", help="Which case of the file; the device's timed one by default.")
@common.again_option
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    against: str | None,
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
    imported to be read. Its target is called after the file: softmax.py is softmax:softmax in history and watch.

    KernelBench is read as it is: a folder of problems is listed, a problem is shown, and a file with a class ModelNew
    is judged --against its problem.

    Exit status: 0 the run is good; 1 it is wrong, failed, or its times are not to be believed; 2 the file is no target,
    with the line and what would work; 3 it could not be run here; 130 left by Ctrl-C.
    """
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
        again=again,
    )
    session = Session(request, as_json=as_json)
    interrupted = asyncio.run(session.run())
    status = exit_status(session.runs, required=[target.id], refused=session.refused)
    ctx.exit(EXIT_INTERRUPTED if interrupted else status)


def _sent(file: str, against: str | None, *, as_json: bool) -> str | None:
    """The root to be sent to the engine; None where the path was shown and there is nothing to run. MeantError where
    it is nothing that can be judged."""
    from aisp.kernels.catalog.formats import Part, kernelbench, recognise  # parses: only where a file is read

    (path, *rest) = common.engine_roots([file] if against is None else [file, against])
    part = recognise(Path(path))
    if against is not None:
        if recognise(Path(rest[0])) is not Part.PROBLEM:
            raise MeantError(f"{clean_line(against)} is no problem; {_PROBLEM}", kind="broken")
        if part is not Part.CANDIDATE:
            raise MeantError(f"{clean_line(file)} has no class ModelNew at its left edge", kind="broken")
        (problem,) = rest
        return _together(Path(path), Path(problem))
    if part is Part.COLLECTION:
        listed = list(kernelbench.collection(Path(path)))
        common.answer(as_json, lambda: listed_document(listed), listed_lines, listed)
        return None
    if part is Part.PROBLEM:
        opened = _opened(Path(path))
        common.answer(as_json, lambda: opened_document(opened), opened_lines, opened)
        return None
    if part is Part.CANDIDATE:
        raise MeantError(f"{clean_line(file)} is an answer; name its problem: --against PROBLEM", kind="broken")
    if Path(path).is_dir():
        raise MeantError(f"{clean_line(file)} holds no problems; they are files like level1/12_Name.py", kind="broken")
    return path


def _together(candidate: Path, problem: Path) -> str:
    """Where the target lies that the two make. MeantError where they make none."""
    from aisp.engine import paths, written  # makes the state directory
    from aisp.kernels.catalog.formats import kernelbench

    try:
        parts = kernelbench.against(candidate, problem)
    except OSError as error:
        raise MeantError(f"{clean_line(str(error))}", kind="broken") from None
    if parts.problems:
        raise _broken(parts.problems)
    root = written.write(paths.judged_dir(), problem.stem, {candidate.stem: parts.files}, most=written.JUDGED)
    return str(root / candidate.stem)


def _opened(path: Path) -> Opened:
    from aisp.kernels.catalog.formats import kernelbench

    try:
        opened = kernelbench.read(path)
    except OSError as error:
        raise MeantError(f"{clean_line(str(error))}", kind="broken") from None
    if opened.problems:
        raise _broken(opened.problems)
    return opened


def _broken(problems: Sequence[Problem]) -> MeantError:
    told = [clean_line(str(problem), limit=1000) for problem in problems[:MOST_TOLD]]
    return MeantError("\n".join(told), kind="broken")


def listed_document(listed: Sequence[Listed]) -> dict[str, Any]:
    """The problems of a collection for JSON; the schema is in docs/commands.md."""
    found = [
        {"level": each.level, "number": each.number, "name": clean_line(each.name), "path": clean_line(str(each.path))}
        for each in listed
    ]
    return {"format": "kernelbench", "problems": found}


def listed_lines(listed: Sequence[Listed], *, width: int | None) -> Iterable[str]:
    """The same for people."""
    rows = [
        (
            "-" if each.level is None else str(each.level),
            str(each.number),
            clean_line(each.name),
            clean_line(each.path.name),
        )
        for each in listed
    ]
    return common.table(
        ("level", "number", "name", "file"), rows, width=width, right=("level", "number"), shrink="name"
    )


def opened_document(opened: Opened) -> dict[str, Any]:
    """One problem for JSON; the schema is in docs/commands.md."""
    return {
        "format": "kernelbench",
        "path": clean_line(str(opened.path)),
        "title": clean_line(opened.title),
        "axes": dict(opened.axes),
        "inputs": dict(opened.inputs),
        "outputs": dict(opened.outputs),
        "weights": opened.weights,
        "cpu": dict(opened.cpu) if opened.cpu is not None else None,
    }


def opened_lines(opened: Opened, *, width: int | None) -> Iterable[str]:
    """The same for people."""
    yield clean_line(opened.title)
    for what, lines in (("in", opened.inputs), ("out", opened.outputs)):
        for name, line in lines.items():
            yield f"  {what:3}  {name}  {line}"
    if opened.axes:
        yield "  with " + ", ".join(f"{name} = {value:,}" for name, value in opened.axes.items())
    if opened.cpu is None:
        yield "  too large for a CPU: its sizes are those of its weights, or its own code makes its inputs"
    yield f"aisp bench judge CANDIDATE --against {clean_line(str(opened.path))}"


def read(file: str) -> Target:
    """The target that the file is. MeantError with every line that is wrong where it is none."""
    from aisp.kernels.catalog import load  # parses: only where a file is read

    found = load([Path(file)])
    if len(found.targets) == 1:
        return found.targets[0]
    told = [clean_line(str(problem), limit=1000) for problem in found.problems[:MOST_TOLD]]
    raise MeantError("\n".join(told) or f"{clean_line(file)} holds no target", kind="broken")
