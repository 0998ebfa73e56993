"""`aisp new`: a folder with a target that runs, new or a copy of a shipped one, and what to type next."""

from __future__ import annotations

from pathlib import Path

import click

from aisp.store.results import repeating
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import NotHereError


@click.command()
@click.argument("name", required=False)
@click.option("--from", "origin", metavar="TARGET", help="Copy this target, all its rungs and files.")
@common.out_option(
    "into", "--into", "Where to make its folder; the current one by default.", type=click.Path(file_okay=False)
)
@common.json_option
def command(name: str | None, origin: str | None, into: str | None, as_json: bool) -> None:
    """Make the target NAME, with a reference, a baseline, an optimized and a wrong version, and a lesson.

    With --from it is a copy of a shipped target, by whose name it is called unless NAME is given.

    Exit status: 0; 2 the name will not do or is taken, or there is no such target; 3 the folder cannot be written.
    """
    from aisp.kernels.catalog import ScaffoldError, copy_target, load, scaffold  # the starter's texts: only here

    if name is None and origin is None:
        raise click.UsageError("give a NAME for the new target, or --from TARGET to copy a shipped one")
    source = resolve.target(origin) if origin is not None else None
    # A person writes ~ where the shell leaves it alone: --out=~/mine.
    collection = Path(into or ".").expanduser().absolute()
    try:
        if source is None:
            folder = scaffold(name or "", collection)
        else:
            folder = copy_target(source, name if name is not None else source.name, collection)
    except ScaffoldError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise NotHereError(common.cannot("written", collection, error)) from None
    found = [target for target in load([collection]).targets if target.folder.samefile(folder)]
    target_id = found[0].id if found else ""
    commands = [repeating.command(verb, target_id, folder) for verb in ("run", "watch")]
    commands.append(repeating.shell("aisp-tui", str(collection)))
    if as_json:
        files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        what = {"id": target_id, "from": source.id if source is not None else None}
        where = {"folder": str(folder), "root": str(collection), "files": files}
        common.say_document({**what, **where, "next": commands})
        return
    how = f", a copy of {source.id}," if source is not None else ""
    common.say(f"made {target_id}{how} in {common.path_text(folder)}; next:")
    common.say("\n".join(f"  {text}" for text in commands))
