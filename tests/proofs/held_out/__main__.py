"""What today's checks say of the held-out cheats and their twins: `python -m tests.proofs held_out`.

Prints one line for each rung: how often it ended in which way, which checks told, its speed-up where it was not caught,
and what a naive harness says of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aisp.tui import plain
from tests import recordings
from tests.proofs.audit.gallery import HELD_OUT, engine, run
from tests.proofs.audit.report import rows_of
from tests.proofs.held_out import fixtures


def _line(rows: Sequence[dict[str, Any]]) -> str:
    outcomes = Counter(row["outcome"] for row in rows)
    checks = Counter(check for row in rows for check in row["checks"])
    newest = rows[-1]
    says = [f"{outcome} {count}/{len(rows)}" for outcome, count in outcomes.most_common()]
    says += [f"{check} x{count}" for check, count in checks.most_common()]
    for name, value in (("ours", newest["ours"]), ("naive", newest["naive"])):
        if value is not None:
            says.append(f"{name} {plain.number(value, 3)}x")
    if newest["accepts"] is not None:
        says.append("naive harness accepts" if newest["accepts"] else "naive harness refuses")
    return f"  {newest['rung']:10} {', '.join(says)}"


async def _main(arguments: argparse.Namespace) -> None:
    wanted = [f"{HELD_OUT}/{name}" for name in arguments.names] or fixtures()
    every: list[dict[str, Any]] = []
    async with engine() as under_test:
        for fixture in wanted:
            by_rung: dict[str, list[dict[str, Any]]] = {}
            for number in range(arguments.runs):
                told = await run(under_test, fixture, naive=True, device=arguments.device, quick=not arguments.full)
                for row in rows_of(fixture, told.record):
                    by_rung.setdefault(row["rung"], []).append(row)
                    every.append({"run": number, "validity": told.record.validity.value, **row})
            print(fixture.partition("/")[2], flush=True)
            for rows in by_rung.values():
                print(_line(rows), flush=True)
                for why in dict.fromkeys(row["why"] for row in rows if row["why"]):
                    print(f"             {why}", flush=True)
            if arguments.json is not None:  # after each, so that a call that is cut off leaves what it saw
                recordings.write(arguments.json, every)
    for kind in ("cheat", "twin"):
        tally = Counter(row["outcome"] for row in every if row["kind"] == kind)
        print(f"{kind}s: {', '.join(f'{count} {outcome}' for outcome, count in tally.most_common()) or 'none'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.proofs held_out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="not quick: several processes for each rung")
    parser.add_argument("--json", type=Path, default=None)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    asyncio.run(_main(parser.parse_args()))
