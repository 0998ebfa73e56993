"""`aisp open`: the app, begun on a target or on a run."""

from __future__ import annotations

import os
import sys

import click

from aisp.kernels.catalog.model import Target
from aisp.store.results import repeating
from aisp.tui.cli import common, resolve

APP = (sys.executable, "-c", "from aisp.tui.start import main; main()")
"""The app as a program: it is not imported here, so that this command line needs no Textual."""


@click.command()
@click.argument("wanted", metavar="TARGET|RUN", shell_complete=common.complete_targets_and_runs)
@common.root_option
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
    found = resolve.target_or_run(wanted, roots)
    if not isinstance(found, Target):
        return [found.id], {"target": None, "run_id": found.id}
    return [repeating.named(found.id, found.folder)], {"target": found.id, "run_id": None}
