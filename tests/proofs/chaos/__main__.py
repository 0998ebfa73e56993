"""`python -m tests.proofs chaos`: kill engine, workers, verifier and app at random points. `make chaos` runs this.

    --rounds N      rounds with stand-ins for workers (50)
    --real N        rounds with real workers after them (10)
    --seed S        of what is killed when; the moments themselves are the machine's (by default another each time)
    --most-s S      begin no more rounds with stand-ins after so many seconds
    --record FILE   put the figures there

`python -m tests.proofs chaos life`: one engine carries out many runs; it must not grow, nor become slow.

    --runs N        with stand-ins for workers (2000)
    --real N        runs with real workers before and after them (25)
    --every N       runs between two looks at it (100)
    --record FILE   put the figures there

The figures go to stdout as JSON, progress to stderr. The exit status is 0 where every promise held.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.proofs.chaos import life, loop
from tests.proofs.evil import report


def told(text: str) -> None:
    """Progress."""
    print(f"chaos: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs chaos", description="Killed at any moment; alive for long."
    )
    parser.add_argument("what", choices=("loop", "life"), nargs="?", default="loop")
    parser.add_argument("--rounds", type=int, default=50, metavar="N")
    parser.add_argument("--runs", type=int, default=2000, metavar="N")
    parser.add_argument("--real", type=int, metavar="N")
    parser.add_argument("--every", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), metavar="S")
    parser.add_argument("--most-s", type=float, default=math.inf, metavar="S")
    parser.add_argument("--record", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="chaos_", ignore_cleanup_errors=True) as home:
        if given.what == "loop":
            real = 10 if given.real is None else given.real
            work = loop.run(
                Path(home) / "w",
                light=given.rounds,
                real=real,
                seed=given.seed,
                progress=told,
                most_s=given.most_s,
            )
            data = asyncio.run(work).plain()
        else:
            real = 25 if given.real is None else given.real
            data = asyncio.run(life.run(Path(home) / "w", given.runs, real=real, every=given.every, progress=told))
    print(json.dumps(data, indent=1))
    if given.record is not None:
        report.write(given.record.parent, given.record.stem, data)
    return 1 if data["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
