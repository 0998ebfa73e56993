"""`python -m tests.proofs bench`: take every row and print them as one table with the machine. `make bench` runs this.

    --only NAME     one group of rows (may be given again)
    --quick         fewer repetitions
    --json          plain data on stdout
    --record FOLDER add the figures to the machine's file there; docs/speed/ is what docs/speed.md draws, and where the
                    last sitting is looked for
    --write-docs    write the table into docs/speed.md too
    --compare WHAT  measure this tree and a commit's or a folder's in turns

Progress goes to stderr. The exit status is 0 once everything was measured, whatever the times were; 1 where a group
failed, and its place in the table says why.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.proofs.bench import pairs, sittings, table
from tests.proofs.bench.table import Machine, Row
from tests.proofs.pages.markers import put

GROUPS = ("startup", "flood", "saves", "batch", "idle", "sampling", "storing")
PAGE = Path(__file__).parents[3] / "docs" / "speed.md"


def take(names: Iterable[str], *, quick: bool, keep: Callable[[Sequence[Row]], None]) -> tuple[list[Row], bool]:
    """Every row of these groups, and whether all groups came to their end.

    Args:
        keep: gets the rows of each group when it has ended: a sitting may be cut off.
    """
    rows: list[Row] = []
    whole = True
    for name in names:
        start, known = time.monotonic(), len(rows)
        print(f"bench: {name} ...", file=sys.stderr, flush=True)
        try:
            for row in importlib.import_module(f"tests.proofs.bench.{name}").measure(quick=quick):
                rows.append(row)
                print("  ".join(cell for cell in row.cells() if cell), file=sys.stderr, flush=True)
        except Exception as error:
            # A table without one group is worth more than none; the traceback says what broke.
            traceback.print_exc()
            lines = str(error).splitlines()
            rows.append(Row(name, f"{name} failed", "", note=f"{type(error).__name__}: {lines[0] if lines else ''}"))
            whole = False
        keep(rows[known:])
        print(f"bench: {name} took {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return rows, whole


def write_page(page: Path, machine: Machine, rows: Sequence[Row]) -> None:
    """Put the table between the page's markers: one pair for machines with a GPU, one for those without.

    Raises:
        ValueError: the page has no such markers.
    """
    text = page.read_text(encoding="utf-8")
    name = f"bench {'gpu' if machine.gpu else 'no-gpu'}"
    page.write_text(put(text, name, table.markdown(machine, rows)), encoding="utf-8")


def draw(page: Path, folder: Path) -> None:
    """Put what that folder's files hold between the page's markers. Raises ValueError as write_page does."""
    text = page.read_text(encoding="utf-8")
    page.write_text(put(text, "sittings", sittings.drawn(folder)), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs bench", description="How fast aisp is on this machine."
    )
    parser.add_argument("--only", action="append", choices=GROUPS, metavar="NAME", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--json", action="store_true", help="plain data on stdout")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="add the figures to the machine's file there")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table into {PAGE.name} too")
    parser.add_argument("--compare", metavar="COMMIT|FOLDER", help="measure this tree and that one in turns")
    given = parser.parse_args(arguments)
    if given.write_docs and given.only:
        parser.error("--write-docs replaces the whole table; leave out --only")
    if given.compare:
        if given.write_docs or given.record or given.json:
            parser.error("--compare prints a table of its own; leave out --json, --record and --write-docs")
        words = [f"--only={name}" for name in given.only or ()] + ["--quick"] * given.quick
        try:
            with pairs.tree(given.compare) as folder:
                for number, found in enumerate(pairs.compare(folder, words), start=1):
                    print(f"after {number} of {len(pairs.ORDER)} sittings", pairs.text(found), sep="\n\n", flush=True)
        except ValueError as error:
            parser.error(str(error))
        return 0
    machine = Machine.find()
    earlier = sittings.read(sittings.file_of(machine, sittings.FOLDER))
    commit = sittings.commit_of()

    def keep(found: Sequence[Row]) -> None:
        if given.record is not None:
            sittings.append(sittings.file_of(machine, given.record), machine, commit, found)

    rows, whole = take(given.only or GROUPS, quick=given.quick, keep=keep)
    rows = sittings.beside_last(rows, earlier)
    if given.json:
        print(json.dumps(table.document(machine, rows), indent=2, ensure_ascii=False))
    else:
        print(table.text(machine, rows))
    if given.record is not None and given.record.resolve() == sittings.FOLDER:
        draw(PAGE, sittings.FOLDER)
    if given.write_docs and whole:
        write_page(PAGE, machine, rows)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
