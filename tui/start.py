"""`aisp-tui`: the app's options, and the plain list of targets where no app can be drawn.

The one module that knows both the command line and the app. Textual, 0.3 s, is imported once the options are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click

from aisp.tui.cli.tree import EXIT_NOT_HERE, Polite, tolerant_streams


@click.command("aisp-tui", cls=Polite, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.argument("path", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
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
    path: Path | None,
    theme: str | None,
    graph: str | None,
    no_mouse: bool,
    screenshot: Path | None,
) -> None:
    """Open the workbench on the shipped lessons, or on the targets in the folder PATH.

    Without a terminal (a pipe, TERM=dumb) it prints the plain list of targets instead and ends with status 3.
    """
    from aisp.tui.app import refusal, run  # see the module

    # Textual writes its escape sequences to anything, a pipe and TERM=dumb included, so this is asked first.
    reason = "" if screenshot else refusal()
    if reason:
        from aisp.tui.cli import common, list_targets, quarantine  # only where they take the app's place

        catalog = common.load_catalog([str(path)] if path else [])
        common.say("\n".join(list_targets.lines(list(catalog.targets), {}, quarantine.Marks(), width=None)))
        common.note(f"aisp-tui: {reason}")
        ctx.exit(EXIT_NOT_HERE)
    folder = path.absolute() if path else None
    ctx.exit(run(folder, theme=theme, graph=graph, mouse=not no_mouse, screenshot=screenshot))


def main() -> NoReturn:
    """Entry point of `aisp-tui`."""
    tolerant_streams()
    app.main(prog_name="aisp-tui")
    raise AssertionError("click's main ends the process")
