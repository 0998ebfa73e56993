"""What becomes of the held-out cheats and their twins today: `python -m tests.proofs held_out`.

Prints one line for each rung: how often it ended in which way, which checks spoke of it, its speed-up by its own clocks
and by the judge's, and why. Ends with status 1 where a cheat was FASTER or a twin was caught.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aisp.store.results.reading import Reading
from aisp.tui import plain
from tests import recordings
from tests.proofs.audit.gallery import HELD_OUT, engine, run
from tests.proofs.held_out import End, Ended, ended, fixtures


def _line(rung: str, every: Sequence[Ended]) -> str:
    newest = every[-1]
    says = [f"{end} {count}/{len(every)}" for end, count in Counter(one.end for one in every).most_common()]
    says += [f"{check} x{count}" for check, count in Counter(c for one in every for c in one.checks).most_common()]
    for name, ratio in (("own clocks", newest.speedup), ("judge", newest.outside.ratio if newest.outside else None)):
        if ratio is not None:
            says.append(f"{name} {plain.number(ratio, 3)}x")
    return f"  {rung:10} {', '.join(says)}"


async def _main(arguments: argparse.Namespace) -> int:
    wanted = [f"{HELD_OUT}/{name}" for name in arguments.names] or fixtures()
    every: list[dict[str, Any]] = []
    async with engine() as under_test:
        for fixture in wanted:
            by_rung: dict[str, list[Ended]] = {}
            for number in range(arguments.runs):
                told = await run(under_test, fixture, device=arguments.device, quick=not arguments.full)
                reading = Reading(told.record)
                for rung in reading.rungs:
                    came = ended(reading, rung)
                    by_rung.setdefault(rung, []).append(came)
                    every.append(_row(fixture, rung, number, came, told.record.validity.value))
            print(fixture.partition("/")[2], flush=True)
            for rung, came_to in by_rung.items():
                if rung.startswith("baseline") and all(one.end is not End.CAUGHT for one in came_to):
                    continue
                print(_line(rung, came_to), flush=True)
                for why in dict.fromkeys(one.why for one in came_to if one.why):
                    print(f"             {why}", flush=True)
            if arguments.json is not None:  # after each, so that a call that is cut off leaves what it saw
                recordings.write(arguments.json, every)
    for kind in ("cheat", "optimized"):
        tally = Counter(row["end"] for row in every if row["rung"] == kind)
        print(f"{kind}: {', '.join(f'{count} {end}' for end, count in tally.most_common()) or 'none'}")
    return int(any(row["end"] == (End.FASTER if row["rung"] == "cheat" else End.CAUGHT) for row in every))


def _row(fixture: str, rung: str, number: int, came: Ended, validity: str) -> dict[str, Any]:
    judge = [came.outside.ratio, came.outside.low, came.outside.high] if came.outside is not None else None
    return {
        "fixture": fixture,
        "rung": rung,
        "run": number,
        "end": came.end.value,
        "validity": validity,
        "checks": list(came.checks),
        "why": came.why,
        "speedup": came.speedup,
        "judge": judge,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.proofs held_out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="not quick: several processes for each rung")
    parser.add_argument("--json", type=Path, default=None)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(asyncio.run(_main(parser.parse_args())))
