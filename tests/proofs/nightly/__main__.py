"""`python -m tests.proofs nightly`: nights of a suite of unchanged code, and of planted slowdowns, from stored samples.

    --nights N      of unchanged code (200); planted slowdowns are tried once beside each of them
    --seed S        the same seed gives the same figures (26)
    --record FILE   put the figures into this JSON file; docs/suites/nightly.json is what docs/suites.md shows

The exit status is 0 where unchanged code was called worse at most once in 200 nights.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests import recordings
from tests.proofs.nightly import nights
from tests.proofs.nightly.kernels import Kernel, stored
from tests.proofs.pages.markers import put

RECORD = Path(__file__).parents[3] / "docs" / "suites" / "nightly.json"

WATCHED = {"scale_4mb": 0.003, "read_0_1ms": 0.3, "sort_4m": 0.3}
"""Whose noise the slowed kernels have, and how long one call of theirs takes, in ms."""
SLOWED = (0.01, 0.02, 0.05)
ALLOWED_IN = 200  # nights: one alarm


def watched(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels that are slowed: one of 3 us with the noise of the shortest that was stored, and of 300 us a steady
    one and an uneasy one."""
    by_name = {kernel.name: kernel for kernel in kernels}
    return [by_name[name].lasting(time_ms) for name, time_ms in WATCHED.items()]


def figures(count: int, seed: int) -> dict[str, Any]:
    """All that the program has to say, as plain data."""
    kernels = stored()
    begin = time.monotonic()
    calm = nights.unchanged(kernels, count, np.random.default_rng([seed, 0]))
    took_s = time.monotonic() - begin
    found = [
        nights.planted(kernel, slowed, calm.rows, np.random.default_rng([seed, 1, number]))
        for number, (kernel, slowed) in enumerate((k, s) for k in watched(kernels) for s in SLOWED)
    ]
    return {
        "nights": count,
        "seed": seed,
        "targets": len(kernels),
        "took_s": round(took_s, 1),
        "alarms": [{"night": night, "target": target, "sentence": text} for night, target, text in calm.alarms],
        "turns": calm.turns,
        "changes": {change.value: number for change, number in calm.changes.items()},
        "planted": [
            {
                "time_us": one.time_ms * 1e3,
                "noise_of": one.kernel,
                "slowed": one.slowed,
                "found": one.found,
                "measured_in_turns": one.measured_in_turns,
                "missed": one.missed,
                "sentence": one.sentence,
            }
            for one in found
        ],
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The same for people."""
    alarms = found["alarms"]
    told = [
        f"{found['nights']} nights of {found['targets']} targets, unchanged code, seed {found['seed']}: "
        f"{len(alarms)} alarms, {found['turns']} runs in turns",
        "rows: " + ", ".join(f"{number} {change}" for change, number in found["changes"].items() if number),
        *(f"  night {one['night']}: {one['target']}: {one['sentence']}" for one in alarms),
        "",
        f"{'planted':<10}{'kernel':>10}{'noise of':>13}  {'called worse':>13}{'put in turns':>14}{'not noticed':>13}",
    ]
    told += [
        f"{one['slowed']:<10.0%}{one['time_us']:>7.0f} us{one['noise_of']:>13}  {one['found']:>13.1%}"
        f"{one['measured_in_turns']:>14.1%}{one['missed']:>13.1%}"
        for one in found["planted"]
    ]
    told += [
        "",
        *(
            f"{one['slowed']:.0%}, {one['time_us']:.0f} us, {one['noise_of']}: {one['sentence']}"
            for one in found["planted"]
        ),
    ]
    return told


def markdown(found: Mapping[str, Any]) -> str:
    """What a record says, for a page."""
    rows = [
        f"| {one['time_us']:.0f} µs, noise of {one['noise_of']} | {one['slowed']:.0%} | {one['found']:.1%} "
        f"| {one['measured_in_turns']:.1%} |"
        for one in found["planted"]
    ]
    changes = ", ".join(f"{number:,} {change}" for change, number in found["changes"].items() if number)
    return "\n".join(
        [
            f"{found['nights']} nights of {found['targets']} kernels whose code did not change: "
            f"**{len(found['alarms'])} alarms**. Of the rows {changes}; {found['turns']} were measured in turns.",
            "",
            f"A sitting is taken to shift baseline and rung alike by {nights.SHARED:.1%} and either alone by "
            f"{nights.APART:.1%} (standard deviations). The second is an assumption: no two sittings of one machine "
            f"are stored yet that would show it. Before {nights.EDITED:.0%} of the nights somebody edits to no effect.",
            "",
            "| kernel | planted slowdown | called worse | measured in turns |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def page(text: str) -> str:
    """The page of suites with the recorded figures."""
    return put(text, "nightly", markdown(json.loads(RECORD.read_text("utf-8"))))


def allowed(count: int) -> int:
    """How many alarms so many nights may have."""
    return math.ceil(count / ALLOWED_IN)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs nightly", description="Nights of a suite.")
    parser.add_argument("--nights", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=26, metavar="S")
    parser.add_argument("--record", type=Path, metavar="FILE", help="a JSON file for the figures")
    given = parser.parse_args(arguments)
    if given.nights < 1 or given.seed < 0:
        parser.error("at least one night, and a seed of at least 0")
    found = figures(given.nights, given.seed)
    print("\n".join(lines(found)))
    if given.record is not None:
        given.record.parent.mkdir(parents=True, exist_ok=True)
        recordings.write(given.record, found)
    return 0 if len(found["alarms"]) <= allowed(given.nights) else 1


if __name__ == "__main__":
    sys.exit(main())
