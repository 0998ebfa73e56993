"""`aisp bench judge`: somebody's kernel in one Python file, checked and timed like any target.

The file is read and never imported here (`kernels.catalog.onefile`); the engine reads it again by its path, and it is
the run of an ordinary target from there on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aisp.store.text import clean_line
from aisp.tui.cli import common
from aisp.tui.cli.follow import exit_status
from aisp.tui.cli.run import Session
from aisp.tui.cli.tree import EXIT_INTERRUPTED, MeantError

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target

MOST_TOLD = 20
"""Problems of a file that are told at once."""


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
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
    rungs: str | None,
    quick: bool,
    device: str,
    case: str | None,
    again: bool,
    as_json: bool,
) -> None:
    """Check and time one Python FILE: its functions reference, baseline, optimized and optimized_*.

    The parameters of reference are annotated with the inputs (x: "float32 [M, N] normal"), its result with the outputs
    (-> "float32 [M, N]"), and a dictionary axes at the top gives the sizes. Nothing else is needed, and the file is not
    imported to be read. Its target is called after the file: softmax.py is softmax:softmax in history and watch.

    Exit status: 0 the run is good; 1 it is wrong, failed, or its times are not to be believed; 2 the file is no target,
    with the line and what would work; 3 it could not be run here; 130 left by Ctrl-C.
    """
    (sent,) = common.engine_roots([file])
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


def read(file: str) -> Target:
    """The target that the file is. MeantError with every line that is wrong where it is none."""
    from aisp.kernels.catalog import load  # parses: only where a file is read

    found = load([Path(file)])
    if len(found.targets) == 1:
        return found.targets[0]
    told = [clean_line(str(problem), limit=1000) for problem in found.problems[:MOST_TOLD]]
    raise MeantError("\n".join(told) or f"{clean_line(file)} holds no target", kind="broken")
