"""`python -m tests.proofs fuzz frames|lessons`: read that many inputs, and say what came of them.

    --inputs N      how many (100 000)
    --seed S        which (1)
    --only NUMBER   this one alone, shown: what the number in a failure stands for
    --record FILE   put the figures into this JSON file, beside those of the other kind

The exit status is 0 where every promise held, 1 where one was broken; the first that breaks one ends the fuzz.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests import recordings
from tests.proofs.fuzz.tally import BrokenPromiseError, Fuzz, Tally

KINDS = ("frames", "lessons")


def fuzz_of(kind: str) -> Fuzz[Any]:
    """The fuzz of that name."""
    found: Fuzz[Any] = importlib.import_module(f"tests.proofs.fuzz.{kind}").FUZZ
    return found


def record(path: Path, kind: str, seed: int, tally: Tally) -> None:
    """Put the figures into a JSON file; those of other kinds stay."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    versions = {"python": platform.python_version(), "msgspec": msgspec.__version__}
    known[kind] = {"command": f"python -m tests.proofs fuzz {kind} --inputs {tally.inputs} --seed {seed}", **versions}
    known[kind] |= tally.plain()
    path.parent.mkdir(parents=True, exist_ok=True)
    recordings.write(path, {kind: dict(sorted(found.items())) for kind, found in sorted(known.items())})


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs fuzz", description="Hostile frames and lessons.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this input alone")
    parser.add_argument("--record", type=Path, metavar="FILE", help="a JSON file for the figures")
    given = parser.parse_args(arguments)
    fuzz = fuzz_of(given.kind)
    if given.only is not None:
        one = fuzz.one(given.seed, given.only)
        print(one, flush=True)
        print(fuzz.judge(one))
        return 0

    def told(tally: Tally) -> None:
        if tally.inputs % 50_000 == 0:
            print(f"fuzz: {tally.inputs} in {tally.seconds:.0f} s", file=sys.stderr, flush=True)

    try:
        tally = fuzz.run(given.inputs, given.seed, told)
    except BrokenPromiseError as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 1
    print(json.dumps(tally.plain(), indent=2))
    if given.record is not None:
        record(given.record, given.kind, given.seed, tally)
    return 0


if __name__ == "__main__":
    sys.exit(main())
