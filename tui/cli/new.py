"""`aisp new`: a folder with a target that runs, and what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from aisp.store.text import clean_line
from aisp.tui.cli import common
from aisp.tui.cli.tree import NotHereError


@click.command()
@click.argument("name")
@click.option(
    "--into",
    metavar="DIR",
    default=".",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where to make it.",
)
@common.json_option
def command(name: str, into: str, as_json: bool) -> None:
    """Make the target NAME, with a reference, a baseline, an optimized and a wrong version, and a lesson.

    Exit status: 0; 2 the name will not do or is taken; 3 the folder cannot be written.
    """
    from aisp.kernels.catalog import ScaffoldError, load, scaffold  # the starter's texts: only when one is made

    # A person writes ~ where the shell leaves it alone: --into=~/mine.
    collection = Path(into).expanduser().absolute()
    try:
        folder = scaffold(name, collection)
    except ScaffoldError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise NotHereError(f"{folder_name(collection)} cannot be written: {error.strerror}") from None
    found = [target for target in load([collection]).targets if target.folder.samefile(folder)]
    target_id = found[0].id if found else ""
    root = shlex.quote(str(collection))
    commands = [
        f"aisp run {shlex.quote(target_id)} --root {root}",
        f"aisp watch {shlex.quote(target_id)} --root {root}",
        f"aisp-tui {root}",
    ]
    if as_json:
        files = sorted(path.name for path in folder.iterdir())
        common.say_document(
            {
                "id": target_id,
                "folder": str(folder),
                "root": str(collection),
                "files": files,
                "next": commands,
            }
        )
        return
    common.say(f"made {target_id} in {folder_name(folder)}; next:")
    for text in commands:
        common.say(f"  {clean_line(text, limit=4000)}")


def folder_name(path: Path) -> str:
    """A path for people."""
    return clean_line(bytes(path), limit=4096)
