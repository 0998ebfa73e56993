"""`aisp-tui` behind its options: opens the app, or prints the plain list of targets where no app can be
drawn."""

from __future__ import annotations

from pathlib import Path

import click

from aisp.tui.cli import common, list_targets
from aisp.tui.cli.quarantine import Marks


def open_app(path: str | None, *, theme: str | None, graph: str | None, mouse: bool, screenshot: str | None) -> int:
    """Open the app and return the exit status: its own, or 3 where it cannot be drawn here."""
    from aisp.tui.app import refusal, run  # textual, 0.3 s

    # Textual writes its escape sequences to anything, a pipe and TERM=dumb included, so this is asked first.
    reason = "" if screenshot else refusal()
    if reason:
        roots = [path] if path else []
        catalog = common.load_catalog(roots)
        common.say("\n".join(list_targets.lines(list(catalog.targets), {}, Marks(), width=None)))
        click.echo(f"aisp-tui: {reason}", err=True)
        return 3
    return run(
        Path(path).absolute() if path else None,
        theme=theme,
        graph=graph,
        mouse=mouse,
        screenshot=Path(screenshot) if screenshot else None,
    )
