"""`aisp dev selftest`: does the arithmetic that gives verdicts keep its promise? Synthetic streams of samples, whose
truth is known, go through the same code as measured ones; no GPU is needed.

The streams are made and judged by `engine.selftest` in a process of its own: numpy and the simulation stay out of
this one, and its progress goes straight to stderr.
"""

from __future__ import annotations

import json
import subprocess
from operator import itemgetter
from typing import Any

import click

from aisp.engine import start
from aisp.store.results.tables import Column, printed
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import NotHereError

OUT, WEAK = "OUT", "WEAK"
PROGRAM = tuple(start.command("aisp.engine.selftest"))


@click.command()
@click.option(
    "--trials", type=click.IntRange(1), metavar="N", help="Comparisons per stream and effect; the self-test's own else."
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Makes the same streams again.")
@common.json_option
def command(trials: int | None, seed: int | None, as_json: bool) -> int:
    """Try the statistics on synthetic streams: false-positive rates, and power by size of effect.

    A false positive is FASTER or SLOWER where both sides are alike. Power is how often a rung that is faster by so
    much is found FASTER.

    Exit status: 0 every rate is as it must be; 1 a rate left its band, or power is too low; 3 it could not run.
    """
    options = [] if trials is None else ["--trials", str(trials)]
    options += [] if seed is None else ["--seed", str(seed)]
    found, good = ask(options)
    common.answer(as_json, lambda: found, lines, found)
    return 0 if good else 1


def ask(options: list[str]) -> tuple[dict[str, Any], bool]:
    """Run the self-test: its document, and whether every rate is as it must be. Raises NotHereError with what it
    ended with where it gave no answer."""
    words = [*PROGRAM, "--json", *options]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    try:
        found = json.loads(done.stdout) if done.returncode in (0, 1) else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("streams"), list):
        raise NotHereError(f"the self-test gave no answer and ended with status {done.returncode}; its words are above")
    return found, done.returncode == 0


def lines(found: dict[str, Any], *, width: int | None) -> list[str]:
    streams = found["streams"]
    effects = list(dict.fromkeys(effect for stream in streams for effect in stream["power"]))
    effects.sort(key=float)
    powers = [_power(effect, drop=place) for place, effect in enumerate(effects, 1)]
    columns = [*RATES, *powers, printed("", mark)]
    plan = [f"{found[key]:,} {key}" for key in ("trials", "replicas") if isinstance(found.get(key), int)]
    plan += [f"seed {found['seed']}"] if "seed" in found else []
    wrong = {
        what: [clean_line(stream["name"]) for stream in streams if mark(stream) == sign]
        for what, sign in (("out of band", OUT), ("too little power", WEAK))
    }
    told = "; ".join(f"{what}: {', '.join(names)}" for what, names in wrong.items() if names)
    return [
        *([", ".join(plan) + "; found FASTER by size of effect:"] if plan else []),
        "",
        *plain.listing(columns, streams, width=width, tabs=False),
        "",
        f"=> {told or f'{len(streams)} streams, every rate as it must be'}",
    ]


def _power(effect: str, *, drop: int) -> Column[dict[str, Any]]:
    """How often a rung that is faster by so much was found FASTER."""
    share = float(effect)
    head = plain.percent(share, 0 if share * 100 % 1 == 0 else 1)
    return printed(head, lambda stream: plain.percent(stream["power"].get(effect)), right=True, drop=drop)


def _band(stream: dict[str, Any]) -> str:
    low, high = stream["band"]
    return f"{low * 100:.1f}..{high * 100:.1f} %"


RATES = (
    printed("stream", itemgetter("name")),
    printed("false pos.", lambda stream: plain.percent(stream["false_positive_rate"], 1), right=True),
    printed("band", _band, right=True),
)


def mark(stream: dict[str, Any]) -> str:
    """ "ok", or which of the two promises a stream breaks."""
    if stream["ok"]:
        return "ok"
    low, high = stream["band"]
    return WEAK if low <= stream["false_positive_rate"] <= high else OUT
