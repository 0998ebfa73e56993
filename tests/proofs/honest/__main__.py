"""What the checks say of honest rungs that look like cheats: `python -m tests.proofs unusual`.

Prints a line for each rung: its verdict, the validity of its run, and which checks caught or suspected it. Ends with
status 1 where one was caught or did not end well. `--busy` keeps every core busy beside, since no accusation may come
of what a neighbour does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import FindingStatus, State
from aisp.store.record import Run
from aisp.tui import plain
from tests import recordings
from tests.proofs.audit.gallery import PATIENCE_S, USUAL_REPLICAS, engine
from tests.proofs.honest import ROOT, rungs_of, targets

AT_ONCE = {"cpu": 5, "cuda": 9}  # rungs in one run: each is a process, and all of them take turns
BURN = "while True: sum(range(10000))"


@contextlib.contextmanager
def _burning(cores: int) -> Iterator[None]:
    """Keep so many cores busy."""
    started = [subprocess.Popen([sys.executable, "-S", "-c", BURN]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def rows_of(target: Target, record: Run) -> list[dict[str, object]]:
    """A row for each arm of a run, and one named "" for what is held against the run as a whole."""
    verdicts = {compared.rung: compared for compared in record.comparisons}
    rows: list[dict[str, object]] = []
    arms = [("", State.OK, ""), *((arm.rung, arm.state, arm.reason) for arm in record.arms)]
    for rung, state, reason in arms:
        doubts = {
            status: list(dict.fromkeys(f.check for f in record.findings if f.arm == rung and f.status is status))
            for status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)
        }
        if not rung and not any(doubts.values()):
            continue
        compared = verdicts.get(rung)
        rows.append(
            {
                "name": f"{target.id} {rung or '(the run)'}",
                "state": state.value,
                "verdict": compared.verdict.value if compared is not None and compared.verdict is not None else "",
                "speedup": compared.speedup if compared is not None else None,
                "validity": record.validity.value,
                "caught": doubts[FindingStatus.CAUGHT],
                "suspect": doubts[FindingStatus.SUSPECT],
                "why": [reason] * (state is not State.OK)
                + [f.evidence for f in record.findings if f.arm == rung and f.status in doubts],
            }
        )
    return rows


def _line(row: dict[str, object]) -> str:
    speedup = row["speedup"]
    times = f" {plain.number(speedup, 3)}x" if isinstance(speedup, float) else ""
    ended = str(row["verdict"] or "-") if row["state"] == State.OK.value else str(row["state"])
    caught, suspect = (", ".join(map(str, row[key])) or "-" for key in ("caught", "suspect"))  # type: ignore[call-overload]
    return f"{row['name']:44} | {ended + times:20} | {row['validity']:8} | {caught} | {suspect}"


def _parts(names: Sequence[str], most: int) -> list[Sequence[str]]:
    return [names[start : start + most] for start in range(0, len(names), most)]


async def _main(arguments: argparse.Namespace) -> int:
    every: list[dict[str, object]] = []
    device = arguments.device
    print("name | verdict | validity | caught | suspect")
    with _burning(len(os.sched_getaffinity(0)) if arguments.busy else 0):
        async with engine() as under_test:
            for target in targets():
                if arguments.lessons and target.id.rpartition(":")[2] not in arguments.lessons:
                    continue
                wanted = [name for name in rungs_of(target, device) if not arguments.rung or name in arguments.rung]
                for names in _parts(wanted, AT_ONCE[device]):
                    options: dict[str, Any] = {"rungs": list(names), "device": device, "quick": not arguments.full}
                    options["replicas"] = USUAL_REPLICAS  # one alone is held against nobody
                    result = await under_test.run(ROOT, target.id, patience_s=PATIENCE_S, **options)
                    for row in rows_of(target, result.record):
                        every.append(row)
                        print(_line(row), flush=True)
                        for why in row["why"]:  # type: ignore[attr-defined]
                            print(f"    {why}", flush=True)
                    if arguments.json is not None:  # after each, so that a call that is cut off leaves what it saw
                        recordings.write(arguments.json, every)
    tally = Counter("caught" if row["caught"] else "suspect" if row["suspect"] else str(row["state"]) for row in every)
    print(f"{len(every)} rows: {', '.join(f'{count} {outcome}' for outcome, count in tally.most_common())}")
    return int(any(row["caught"] or row["state"] != State.OK.value for row in every))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.proofs unusual")
    parser.add_argument("lessons", nargs="*", help="folders beside this file; all of them where none is named")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rung", action="append", default=[], metavar="NAME")
    parser.add_argument("--busy", action="store_true", help="with a process beside that burns each core")
    parser.add_argument("--full", action="store_true", help="not quick: several processes for each rung")
    parser.add_argument("--json", type=Path, default=None)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(asyncio.run(_main(parser.parse_args())))
