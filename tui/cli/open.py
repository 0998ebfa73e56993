"""`aisp open`: the app, begun on a target or on a run."""

from __future__ import annotations

import os
import sys

import click

from aisp.tui.cli import common

APP = (sys.executable, "-c", "from aisp.tui.start import main; main()")
"""The app as a program: it is not imported here, so that this command line needs no Textual."""


@click.command()
@click.argument("wanted", metavar="TARGET|RUN", shell_complete=common.complete_targets_and_runs)
@common.roots_option
@common.json_option
def command(wanted: str, roots: tuple[str, ...], as_json: bool) -> None:
    """Open the app on TARGET's lesson, or on RUN.

    A run is named by its id or the beginning of it. --json prints what would be opened and opens nothing.

    Exit status: 0; 2 no such target or run; 3 there is no terminal that the app can draw on.
    """
    words, what = place(wanted, roots)
    if as_json:
        common.say_document({**what, "command": ["aisp-tui", *words]})
        return
    sys.stdout.flush()
    os.execv(APP[0], [*APP, *words])


def place(wanted: str, roots: tuple[str, ...]) -> tuple[list[str], dict[str, str | None]]:
    """The app's words, and what they open. MeantError where `wanted` is neither a target nor a run."""
    catalog = common.load_catalog(roots)
    found = common.target_or_run(catalog, wanted)
    if isinstance(found, str):
        return ["run", found], {"target": None, "run_id": found}
    # A target of a folder of one's own is named by its folder, which the app opens like any other.
    return [str(found.folder) if roots else found.id], {"target": found.id, "run_id": None}
