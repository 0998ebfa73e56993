"""`aisp tune`: which values of a rung's launch parameters are the fastest here?

The search is `engine.doors.tuning`; every figure is of a stored run. Ctrl-C ends it, and what was found is printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results import tables
from aisp.store.results.tables import Column, at, attributes, documents, fields, printed
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NO, MeantError, NotHereError

if TYPE_CHECKING:
    from aisp.engine.doors.tuning import Trial, Tuned


@click.command()
@common.target_argument
@click.argument("rung", metavar="RUNG", shell_complete=common.complete_rungs)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="No trial begins after so many seconds; the full run of the best comes on top.",
)
@click.option(
    "--param",
    "given",
    multiple=True,
    metavar="NAME=A,B",
    help="A constant of the rung's file and the values to try; those that the lesson declares by default. Repeatable.",
)
@click.option("--grid", is_flag=True, help="Try every combination in its order, instead of what Optuna proposes.")
@common.device_option
@common.root_option
@common.verbose_option
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    target_id: str,
    rung: str,
    budget: float,
    given: tuple[str, ...],
    grid: bool,
    device: str,
    roots: tuple[str, ...],
    as_json: bool,
) -> None:
    """Search the launch parameters of RUNG in TARGET: constants at the top of its file.

    Each combination is a quick run, the first with the values that the file has; the best is judged again in a full
    run. The file is not changed. Combinations that were measured before are taken from the store.

    Exit status: 0 the best is right and timed in a full run; 1 none is, or that run says otherwise; 2 there is nothing
    to search; 3 it could not be run here; 130 left by Ctrl-C.
    """
    from aisp.engine.client import EngineUnavailableError  # asyncio and msgspec: only where something is measured
    from aisp.engine.doors import tuning
    from aisp.engine.doors.asking import NotHereError as MissingError
    from aisp.engine.doors.asking import RefusedError
    from aisp.kernels.catalog import parameters

    try:
        wanted = [parameters.read(text) for text in given]
    except parameters.ParameterError as error:
        raise click.UsageError(str(error)) from None
    target = resolve.target(target_id, roots)
    progress = common.Progress()
    try:
        tuning.prepare(target, rung, wanted)  # what is wrong here is wrong usage, and nothing was run yet
    except RefusedError as error:
        raise MeantError(str(error), kind="refused") from None
    try:
        found = tuning.tune(
            target,
            rung,
            wanted,
            budget_s=budget,
            grid=grid,
            device=device,
            told=lambda trial: progress.step(trial_line(trial)),
        )
    except (RefusedError, MissingError, EngineUnavailableError) as error:
        raise NotHereError(str(error)) from None
    common.answer(as_json, lambda: _as_json(target.id, found), lines, target.id, found)
    good = found.final is not None and found.final.score
    ctx.exit(EXIT_INTERRUPTED if found.interrupted else EXIT_GOOD if good else EXIT_NO)


def trial_line(trial: Trial) -> str:
    """One trial as it is told on the way."""
    from aisp.kernels.catalog import parameters  # as in the command

    known = ", known" if trial.known else ""
    return f"{trial.number}: {parameters.words(trial.values)}  {_figure(trial)}  {trial.evidence.verdict}{known}"


def lines(target_id: str, found: Tuned, *, width: int | None) -> Iterable[str]:
    """A search for people: its trials, the best first, then what the full run says."""
    from aisp.kernels.catalog import parameters  # as in the command

    names = [parameter.name for parameter in found.parameters]
    spent = plain.duration(found.spent_s)
    tried = f"{plain.counted(len(found.trials), 'trial')} of {plain.counted(found.combinations, 'combination')}"
    among = all(found.written[parameter.name] in parameter.values for parameter in found.parameters)
    extra = "" if among else ", and of the values that the file has"
    yield f"{target_id}  {found.rung}  {found.sampler}: {tried}{extra} in {spent}"
    yield ""
    *columns, run = TRIALS
    as_written = printed("", lambda trial: "as written" if trial.values == found.written else " ")
    columns = [*map(_parameter, names), *columns, as_written, run]
    yield from plain.listing(columns, found.ranked, width=width, tabs=False)
    if found.final is not None and found.best is not None:
        best, final = parameters.words(found.best.values), found.final
        yield ""
        yield f"=> {best}: {_figure(final)}, {final.evidence.verdict} in a full run {final.reading.id}"
        yield f"   its quick run, the best of {len(found.trials)}: {_figure(found.best)}"
    elif not found.interrupted:
        yield ""
        yield "=> no combination is right and timed"


def _as_json(target_id: str, found: Tuned) -> dict[str, Any]:
    return {
        "target": target_id,
        **attributes(found, "rung", "sampler"),
        "parameters": {parameter.name: parameter.values for parameter in found.parameters},
        "as_written": found.written,
        **attributes(found, "combinations", "budget_s", "spent_s", "interrupted"),
        "trials": documents(TRIALS, found.trials),
        "best": None if found.best is None else found.best.values,
        "final": None if found.final is None else tables.as_json(TRIALS, found.final),
    }


def _figure(trial: Trial) -> str:
    said = trial.evidence
    return plain.speedup(said.speedup, _LOW(trial), _HIGH(trial), verdict=said.verdict)


def _parameter(name: str) -> Column[Trial]:
    return printed(name, lambda trial: trial.values[name], right=True)


def _ms(trial: Trial) -> float | None:
    return trial.evidence.counters.get("median_ms")


_LOW, _HIGH = at("evidence.interval.lo"), at("evidence.interval.hi")
TRIALS: tuple[Column[Trial], ...] = (
    *fields("", {"number": "its place in the order of trying, counted from 1", "values": "of the parameters, by name"}),
    Column("median_ms", "time of a call", _ms, "ms", lambda trial: plain.milliseconds(_ms(trial))),
    Column("speedup", "baseline time over its time", at("evidence.speedup"), "speed-up [low..high]", _figure),
    Column("low", "lower end of its 95 % interval", _LOW),
    Column("high", "upper end", _HIGH),
    Column("verdict", "of the [evidence](agents.md#the-evidence)", at("evidence.verdict"), "verdict"),
    *fields("evidence", {"reason_code": "likewise"}),
    *fields("", {"known": "whether it had been measured before, and was not again"}),
    Column("run_id", "its run", at("reading.id"), "run", shrink=True),
)  # fmt: skip
