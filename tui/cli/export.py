"""`aisp export` and `aisp import`: a run for somebody else's eyes, and one from somebody else's machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from aisp.engine import paths
from aisp.store.given import write_whole
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, NotHereError
from aisp.tui.sharing import FORMS


def _form_options(function: common.Function) -> common.Function:
    """A flag for each form; Markdown by default."""
    for form, (what, _) in reversed(list(FORMS.items())):
        flag = "package" if form == "json" else form
        sentence = f"Write {what}{'; the default' if form == 'md' else ''}."
        function = click.option(f"--{flag}", "form", flag_value=form, default="md", help=sentence)(function)
    return click.option("--json", "form", flag_value="json", hidden=True)(function)


@click.command("export")
@click.argument("wanted", metavar="RUN|TARGET", shell_complete=common.complete_targets_and_runs)
@common.out_option(
    "file", "FILE", "Write it into this file, whole or not at all.", type=click.Path(dir_okay=False, path_type=Path)
)
@_form_options
def export(wanted: str, file: Path | None, form: str) -> int:
    """Write a stored run for somebody else, into a file or to stdout.

    A run is named by its id or the beginning of it; a target by its id, name or path, which means its last result.

    Exit status: 0; 1 the run cannot be packed, or has nothing for that form; 2 no such run, or FILE cannot be written;
    3 the store cannot be read.
    """
    from aisp.store.packages import PackageError
    from aisp.store.results.dashboards import NothingError

    try:
        with common.history() as opened:
            text = FORMS[form][1](opened, opened.one(wanted))
    except (PackageError, NothingError) as error:
        common.note(error)
        return EXIT_NO
    if file is None:
        common.say(text.rstrip("\n"))
        return EXIT_GOOD
    try:
        write_whole(file, text.encode())
    except OSError as error:
        raise click.UsageError(common.cannot("written", file, error)) from None
    common.tell(f"wrote {common.path_text(file)}, {plain.size(len(text.encode('utf-8')))}")
    return EXIT_GOOD


@click.command("import")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@common.json_option
def import_(files: tuple[Path, ...], as_json: bool) -> int:
    """Take runs in that another machine exported with --package, as foreign ones.

    A foreign run is in its target's history under its machine's name, and can be opened, compared and exported. It is
    never a result of this machine: no last result, no part of a suite, no answer to a prediction.

    Exit status: 0, also for what was here already; 1 a file is no whole package; 2 it is not there; 3 the store
    cannot be written.
    """
    from aisp.store import packages  # numpy
    from aisp.store.errors import StoreError
    from aisp.store.results import hardware

    told: list[dict[str, Any]] = []
    for file in files:
        unknown = dict.fromkeys(("run_id", "target", "machine"))
        told.append(row := {"file": os.fsencode(file), **unknown, "new": False, "problem": None})
        try:
            package = packages.read_file(file)
            run = package.run
            machine = clean_line(hardware.machine(run.device, package.environment))
            row |= {"run_id": run.id, "target": run.target, "machine": machine}
            row["new"] = packages.take_in(paths.database_file(), package)
        except packages.PackageError as error:
            row["problem"] = clean_line(str(error), limit=1000)
        except OSError as error:
            row["problem"] = clean_line(f"it cannot be read: {error.strerror or error}")
        except StoreError as error:
            raise NotHereError(str(error)) from None
    if as_json:
        common.say_document({"files": told})
    else:
        for row in told:
            if row["problem"]:
                common.note(f"{os.fsdecode(row['file'])}: {row['problem']}")
            else:
                what = f"{row['target']} of {row['machine']}, run {row['run_id']}"
                common.say(f"{what}{'' if row['new'] else ': was here already'}")
    return EXIT_NO if any(row["problem"] for row in told) else 0
