"""Formats of others on checkouts of theirs: how many problems are listed, how many can be opened, why not the rest.

    python -m tests.proofs formats ~/KernelBench ~/reference-kernels
    python -m tests.proofs formats --made 10000

Nothing of a checkout is imported, here as in the product. `--made` writes so many KernelBench problems into a folder of
its own, of which the listing opens none.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import formats
from aisp.store.text import clean_line

HEAVY = ("torch", "triton", "numpy")
PER_LEVEL = 2500
MOST_REASONS = 12


def looked_at(folder: Path, *, opening: bool = True) -> dict[str, Any]:
    """What a folder holds by format: problems that are listed, opened, and why the others are not."""
    begun = time.perf_counter()
    listed = list(formats.listed(folder))
    listing_s = time.perf_counter() - begun
    found: dict[str, dict[str, Any]] = {}
    for dialect, each in listed:
        row = found.setdefault(dialect.NAME, {"listed": 0, "opened": 0 if opening else None, "reasons": Counter()})
        row["listed"] += 1
        why = each.reason
        if opening and not why:
            try:
                problems = dialect.read(each.path).problems
                why = problems[0].message if problems else ""
            except OSError as error:
                why = str(error)
            row["opened"] += 0 if why else 1
        if why:
            row["reasons"][clean_line(why, limit=160)] += 1
    heavy = [name for name in HEAVY if name in sys.modules]
    return {"folder": str(folder), "listing_s": round(listing_s, 3), "formats": found, "heavy": heavy}


def lines(found: dict[str, Any]) -> list[str]:
    """The same for people."""
    total = sum(row["listed"] for row in found["formats"].values())
    heavy = ", ".join(found["heavy"]) or "nothing heavy"
    said = [f"{found['folder']}: {total:,} listed in {found['listing_s']:.3f} s; imported: {heavy}"]
    for name, row in found["formats"].items():
        opened = "" if row["opened"] is None else f", {row['opened']:,} opened"
        said.append(f"  {name}: {row['listed']:,} listed{opened}")
        said += [f"    {count:5}  {why}" for why, count in row["reasons"].most_common(MOST_REASONS)]
    return said


def make(folder: Path, count: int) -> Path:
    """A checkout of so many KernelBench problems."""
    for number in range(count):
        level = folder / "KernelBench" / f"level{number // PER_LEVEL + 1}"
        level.mkdir(parents=True, exist_ok=True)
        (level / f"{number % PER_LEVEL + 1}_Made_.py").write_text("# never opened\n")
    return folder


def main(arguments: Sequence[str]) -> int:
    """Print what the folders hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs formats", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, help="checkouts of problems of others")
    parser.add_argument(
        "--made", type=int, default=0, metavar="N", help="also a made checkout of N problems, listed only"
    )
    parser.add_argument("--json", action="store_true", help="print an object for each folder")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        told = [looked_at(folder) for folder in options.folders]
        if options.made:
            told.append(looked_at(make(Path(scratch), options.made), opening=False))
    for found in told:
        print(json.dumps(found) if options.json else "\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
