"""`aisp-tui`: the app's options, and the plain list of targets where no app can be drawn.

The one module that knows both the command line and the app. Textual, 0.3 s, is imported once the options are read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import click

from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_NOT_HERE, Polite, tolerant_streams
from aisp.tui.screens import Place


@click.command("aisp-tui", cls=Polite, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.argument("what", metavar="[PATH | TARGET | run RUN]", default="")
@click.argument("run_id", metavar="", default="")
@click.option(
    "--against", metavar="PROBLEM", help="What PATH is an answer to: a problem in a format of others (docs/formats.md)."
)
@click.option("--theme", metavar="NAME", help="Colours: aisp-dark, aisp-light, aisp-safe, or one of Textual's.")
@click.option(
    "--graph",
    type=click.Choice(["auto", "braille", "block", "ascii"]),
    help="Signs that graphs are drawn with.",
)
@click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal, for selecting text.")
@click.option(
    "--screenshot",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the first screen into this SVG file and end; needs no terminal.",
)
@click.version_option(package_name="aisp", message="aisp %(version)s")
@click.pass_context
def app(
    ctx: click.Context,
    what: str,
    run_id: str,
    against: str | None,
    theme: str | None,
    graph: str | None,
    no_mouse: bool,
    screenshot: Path | None,
) -> None:
    """Open the workbench on the shipped lessons, on the targets in the folder PATH, on the lesson TARGET, or on a run.

    PATH may be a Python file that `aisp bench judge` takes, or problems in a format of others: all of them are shown,
    or the one. An answer to one is opened as a target, --against its problem.

    TARGET is an id (ch07:transpose) or a name that only one lesson has (transpose). A folder of that name comes first:
    the id then tells the lesson. RUN is a run's id or its beginning.

    Without a terminal (a pipe, TERM=dumb) it prints the plain list of targets instead and ends with status 3.
    """
    place = _answer(what, against) if against is not None else _place(what, run_id)
    from aisp.tui.app import refusal, run, theme_names  # see the module

    if theme is not None and theme not in theme_names():
        raise click.UsageError(f"no theme {theme!r}; there are {', '.join(theme_names())}")
    # Textual writes its escape sequences to anything, a pipe and TERM=dumb included, so this is asked first.
    reason = "" if screenshot else refusal()
    if reason:
        from aisp.tui.cli import list_targets  # only where it takes the app's place

        catalog = place.catalog or common.load_catalog([str(place.folder)] if place.folder else [])
        common.say("\n".join(list_targets.lines(list_targets.read(catalog.targets), width=None)))
        common.note(f"aisp-tui: {reason}")
        ctx.exit(EXIT_NOT_HERE)
    ctx.exit(run(place, theme=theme, graph=graph, mouse=not no_mouse, screenshot=screenshot))


def _place(what: str, run_id: str) -> Place:
    """Where the app begins. What is not known is wrong usage, before anything is drawn."""
    if run_id:
        if what != "run":
            raise click.UsageError(f"one place at a time, not {what!r} and {run_id!r}; `run RUN` opens a run")
        from aisp.tui.cli import stored  # numpy and the store: only where a run is named

        with stored.history() as history:
            return Place(screen="run", arguments={"run_id": history.run(run_id).id})
    if not what:
        return Place()
    folder = Path(what)
    if folder.exists() and (found := _problems(folder.absolute())) is not None:
        return found
    if folder.is_dir():
        if not os.access(folder, os.R_OK | os.X_OK):
            raise click.UsageError(f"the folder {what!r} cannot be read; `chmod u+rx` lets you")
        return Place(folder=folder.absolute())
    if what.endswith(".py") and folder.is_file():  # a target by itself
        return Place(folder=folder.absolute())
    if folder.exists():
        raise click.UsageError(f"{what!r} is a file; give the folder of targets, or a target's id")
    if what == "run":
        raise click.UsageError("which run? `aisp bench history` lists them; `aisp-tui run RUN` opens one")
    catalog = common.load_catalog([])
    named = [target.id for target in catalog.targets if what in (target.id, target.name)]
    if len(named) > 1:
        raise click.UsageError(f"{what!r} is the name of several targets: {', '.join(named)}")
    if not named:
        names = [name for target in catalog.targets for name in (target.id, target.name)]
        raise common.unknown(f"no folder and no target {what!r}", what, names, "`aisp bench list-targets` shows all")
    return Place(catalog=catalog, screen="lesson", arguments={"target_id": named[0]})


def _problems(path: Path) -> Place | None:
    """The screen of problems, where a path is one in a format of others, or a folder of them; None where it is not.

    A folder of targets is one, whatever else lies in it.
    """
    from aisp.kernels.catalog import formats  # parses: only where a path is given

    if any(next(path.glob(place), None) for place in ("lesson.md", "*/lesson.md", "*/*/lesson.md")):
        return None
    found = formats.recognise(path)
    if found is None or found[1] is formats.Part.RUNS:
        return None
    if found[1] is formats.Part.CANDIDATE:
        told = f"{str(path)!r} is an answer in the form of {found[0].TITLE}; name its problem: --against PROBLEM"
        raise click.UsageError(told)
    return Place(screen="problems", arguments={"folder": path})


def _answer(what: str, against: str) -> Place:
    """The target that an answer and its problem make."""
    from aisp.tui.cli import judge  # the formats: only where there is an answer

    for path in (what, against):
        if not Path(path).exists():
            raise click.UsageError(f"there is no {path!r}; --against PROBLEM is about an answer at PATH")
    return Place(folder=Path(judge.answer_root(what, against)))


def main() -> NoReturn:
    """Entry point of `aisp-tui`."""
    tolerant_streams()
    app.main(prog_name="aisp-tui")
    raise AssertionError("click's main ends the process")
