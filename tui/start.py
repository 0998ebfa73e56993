"""`aisp-tui`: the app's options, and the plain list of targets where no app can be drawn.

The one module that knows both the command line and the app. Textual, 0.3 s, is imported once the options are read.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NoReturn

import click

from aisp.store.results import repeating
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import EXIT_NOT_HERE, Polite, tolerant_streams
from aisp.tui.screens import Place


@click.command(
    "aisp-tui",
    cls=Polite,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=False,
    epilog="\b\nExamples:\n  aisp-tui .\n  aisp-tui transpose --theme aisp-light",
)
@click.argument("what", metavar="[PATH | TARGET | RUN]", default="", shell_complete=common.complete_groups_and_runs)
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

    PATH may be a Python file that `aisp run` takes, or problems in a format of others: all of them are shown, or the
    one. An answer to one is opened as a target, --against its problem.

    TARGET is an id (ch07:transpose), a name that only one lesson has (transpose), or a chapter (ch07). It comes before
    a folder of that name, which is ./transpose. RUN is a run's id or its beginning.

    Without a terminal (a pipe, TERM=dumb) it prints the plain list of targets instead and ends with status 3.
    """
    place = _place(what, run_id) if against is None else Place(folder=resolve.target(what, against=against).folder)
    from aisp.tui.app import refusal, run, theme_names  # see the module

    if theme is not None and theme not in theme_names():
        raise click.UsageError(f"no theme {theme!r}; there are {', '.join(theme_names())}")
    # Textual writes its escape sequences to anything, a pipe and TERM=dumb included, so this is asked first.
    reason = "" if screenshot else refusal()
    if reason:
        from aisp.tui.cli import list_targets  # only where it takes the app's place

        catalog = place.catalog or common.load_catalog([str(place.folder)] if place.folder else [])
        common.say("\n".join(list_targets.lines(list_targets.read(catalog.targets), width=None)))
        common.tell(f"aisp-tui: {reason}")
        ctx.exit(EXIT_NOT_HERE)
    ctx.exit(run(place, theme=theme, graph=graph, mouse=not no_mouse, screenshot=screenshot))


def _place(what: str, run_id: str) -> Place:
    """Where the app begins. What is not known is wrong usage, before anything is drawn."""
    if run_id and what != "run":
        raise click.UsageError(f"one place at a time, not {what!r} and {run_id!r}")
    if what == "run" and not run_id:
        raise click.UsageError("which run? `aisp history` lists them; `aisp-tui RUN` opens one")
    word = run_id or what
    if not word:
        return Place()
    catalog = functools.cache(lambda: common.load_catalog([]))
    if (path := resolve.path_of(word, catalog)) is not None:
        return _at(path.absolute())
    for chapter in catalog().chapters:
        if chapter.id == word:
            return Place(folder=chapter.folder)
    found = resolve.meant(word, catalog)
    if not isinstance(found, list):
        return Place(screen="run", arguments={"run_id": found.id})
    target = resolve.one(word, found)
    if repeating.named(target.id, target.folder) != target.id:
        return Place(folder=target.folder)
    return Place(catalog=catalog(), screen="lesson", arguments={"target_id": target.id})


def _at(path: Path) -> Place:
    """The place that a path is: of targets, which the app reads, or of problems."""
    if path.exists() and (found := _problems(path)) is not None:
        return found
    if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
        raise click.UsageError(f"the folder {str(path)!r} cannot be read; `chmod u+rx` lets you")
    if not path.is_dir() and not (path.suffix == ".py" and path.is_file()):
        resolve.at(path)  # says why it is none
    return Place(folder=path)


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
        resolve.at(path)  # says whose answer it is
        return None
    return Place(screen="problems", arguments={"folder": path})


def main() -> NoReturn:
    tolerant_streams()
    os.umask(os.umask(0o077) & 0o077)  # see tui.cli.tree.main
    if "_AISP_TUI_COMPLETE" in os.environ:  # click's name for it
        import aisp.tui.cli.completion  # noqa: F401  how a shell is answered
    app.main(prog_name="aisp-tui")
    raise AssertionError("click's main ends the process")
