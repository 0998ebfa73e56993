"""`python -m tests.proofs NAME [ARGUMENTS]`: run one of the programs that measure aisp or attack it."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

PROGRAMS = {
    "bench": ("tests.proofs.bench", "how fast the app, the engine and the store are (docs/speed.md)"),
    "evil": ("tests.proofs.evil", "the fault matrix; which scene notices a protection taken out (docs/reliability.md)"),
    "chaos": ("tests.proofs.chaos", "processes killed at random points; a long life of one engine"),
    "fleet": ("tests.proofs.fleet", "many candidates over Ray, the command killed on the way (docs/fleet.md)"),
    "fuzz": ("tests.proofs.fuzz", "hostile frames on the line, nonsense in lessons"),
    "oracle": ("tests.proofs.oracle", "how often the comparator errs, by policy (docs/oracle_proof.md)"),
    "gallery": ("tests.proofs.audit.gallery", "one cheat of the gallery, with its checks or without some"),
    "cheats": ("tests.proofs.audit.cheats", "every check proven by the cheat that it alone catches"),
    "honest": ("tests.proofs.audit.honest", "shipped lessons again and again: what is held against honest rungs"),
    "held_out": ("tests.proofs.held_out", "cheats that no check was written for"),
    "unusual": ("tests.proofs.honest", "honest rungs that look like cheats: what is held against them"),
    "busy": ("tests.proofs.audit.busy", "verdicts beside processes that burn the processors"),
    "audit": ("tests.proofs.audit.report", "take in what those four left (docs/audit.md)"),
    "timers": ("tests.proofs.agreement.timers", "the same callables by several timers; needs a GPU"),
    "aa": ("tests.proofs.agreement.aa", "identical kernels compared: how often is one called faster; needs a GPU"),
    "slowed": ("tests.proofs.agreement.slowed", "kernels slowed by a known part: what is found; needs a GPU"),
    "bent": ("tests.proofs.agreement.bent", "rungs that bend their own clock by a known part: what it gains them"),
    "cost": ("tests.proofs.agreement.cost", "a verified comparison beside bare ones; needs a GPU"),
    "spread": ("tests.proofs.agreement.spread", "replicas in forked and in started processes"),
    "agreement": ("tests.proofs.agreement.report", "take in what those five left (docs/measurement.md)"),
    "nightly": ("tests.proofs.nightly", "nights of a suite of unchanged code, and of planted slowdowns: what is told"),
    "formats": ("tests.proofs.formats", "checkouts of problems of others: how many are listed, how many opened"),
    "many": ("tests.proofs.many", "many candidates of one target, a part of them broken, the driver killed on the way"),
    "ranks": (
        "tests.proofs.ranks",
        "a rank killed at random moments; equal rungs of several ranks, compared",
    ),
    "pages": ("tests.proofs.pages", "write the pages of docs/ that are made from code or recordings"),
}


def main(arguments: Sequence[str]) -> int:
    """Run the program that the first argument names, in this process, with the rest as its own; 2 where there is none.

    What the program itself ends with leaves as its SystemExit.
    """
    name = arguments[0] if arguments else ""
    if name not in PROGRAMS:
        problem = f"no program {name!r}; " if name and not name.startswith("-") else ""
        width = max(map(len, PROGRAMS))
        lines = [f"  {known:<{width}}  {summary}" for known, (_, summary) in PROGRAMS.items()]
        text = "\n".join([f"{problem}python -m tests.proofs NAME [ARGUMENTS], NAME one of", *lines])
        print(text, file=sys.stderr if problem or not name else sys.stdout)
        return 0 if name in ("-h", "--help") else 2
    module, _ = PROGRAMS[name]
    sys.argv = [f"python -m tests.proofs {name}", *arguments[1:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
