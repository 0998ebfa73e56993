"""Every check proven by a cheat: it passes without the check, and is caught by this one alone where it is put back.

`python -m tests.proofs cheats [--device auto|cuda|cpu] [--fixture CATEGORY/NAME ...] --json FILE` finds the proofs: for
every cheat the checks that catch it are left out, layer by layer, until it passes with its fake speed-up; then each
check is put back alone, on one cheat, again and again: a proof is kept once it has held several times in a row, with
the checks left out that catch the cheat in some runs only. `test_cheats.py` repeats what was found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aisp.checks import registry
from aisp.store.outcomes import State
from tests import recordings
from tests.engine.harness import EngineUnderTest
from tests.proofs.audit.gallery import GALLERY, Told, cheats, engine, enough, run, target
from tests.replacing import replace

MOST_LAYERS = 8
TRIES = 3  # a cheat of a few milliseconds on a busy machine may be missed once
IN_A_ROW = 5  # times that a proof must hold: some checks catch a cheat by what a run draws, in every other run


@dataclass
class Peeled:
    """What it takes to let one cheat pass.

    Attributes:
        layers: the checks that caught it, with those of the layers before left out.
        passes: whether it ended well and nothing caught it in the end.
        speedup: baseline time over its time then, whatever that is worth.
        why: how it ended where it did not pass.
    """

    fixture: str
    cheat: str
    layers: list[list[str]] = field(default_factory=list)
    passes: bool = False
    speedup: float | None = None
    why: str = ""

    @property
    def catchers(self) -> list[str]:
        """All of them."""
        return [check for layer in self.layers for check in layer]


@dataclass(frozen=True)
class Proof:
    """`check` alone catches `cheat` of `fixture` when `others` are left out; without it too, the cheat passes."""

    check: str
    fixture: str
    cheat: str
    others: tuple[str, ...]
    device: str


def _speedup(told: Told, cheat: str) -> float | None:
    base_ms, ms = told.record.arms[0].median_ms, told.arm(cheat).median_ms
    return base_ms / ms if base_ms and ms else None


async def _alone(under_test: EngineUnderTest, fixture: str, cheat: str, without: Sequence[str], device: str) -> Told:
    """A run of one cheat, on a GPU with the trace of a call that checks on streams look at."""
    naive = device != "cpu"  # a quick run makes that trace for the naive harness alone
    options = {"without": without, "naive": naive, "device": device, "replicas": enough(fixture)}
    return await run(under_test, fixture, rungs=[cheat], **options)


async def peel(under_test: EngineUnderTest, fixture: str, device: str) -> list[Peeled]:
    """Let every cheat of a fixture pass, layer by layer; those of one fixture one after the other."""
    found: list[Peeled] = []
    for cheat in cheats(target(fixture)):
        peeled = Peeled(fixture, cheat)
        for _ in range(MOST_LAYERS):
            told = await _alone(under_test, fixture, cheat, peeled.catchers, device)
            arm = told.arm(cheat)
            if arm.state is State.UNAVAILABLE:
                peeled.why = arm.reason
                break
            layer = [check for check in told.caught_by(cheat) if check not in peeled.catchers]
            if layer:
                peeled.layers.append(layer)
                continue
            peeled.passes = arm.state is State.OK
            peeled.why = "" if peeled.passes else f"{arm.state.value}: {arm.reason}"
            peeled.speedup = _speedup(told, cheat)
            break
        found.append(peeled)
    return found


async def proven(under_test: EngineUnderTest, proof: Proof) -> tuple[str, list[str]]:
    """Whether it holds: "" or what was seen instead; and which checks caught it that are not left out in the proof."""
    without = [*proof.others, proof.check]
    told = await _alone(under_test, proof.fixture, proof.cheat, without, proof.device)
    arm = told.arm(proof.cheat)
    if told.caught_by(proof.cheat) or arm.state is not State.OK:
        more = told.caught_by(proof.cheat)
        seen = ", ".join(more) or arm.reason
        return f"without {', '.join(without)} it did not pass: {arm.state.value}: {seen}", more
    seen, beside = "", dict[str, None]()
    for _ in range(TRIES):
        told = await _alone(under_test, proof.fixture, proof.cheat, proof.others, proof.device)
        caught = told.caught_by(proof.cheat)
        if caught == [proof.check]:
            return "", list(beside)
        beside |= dict.fromkeys(check for check in caught if check != proof.check)
        seen = ", ".join(caught) or "nothing"
    return f"without {', '.join(proof.others) or 'any other'} it was caught by {seen}", list(beside)


async def held(under_test: EngineUnderTest, proof: Proof) -> tuple[str, Proof]:
    """Whether it holds IN_A_ROW times: "" or what was seen instead; and the proof with all others that this takes."""
    times = 0
    while times < IN_A_ROW:
        wrong, more = await proven(under_test, proof)
        if more:
            proof, times = replace(proof, others=(*proof.others, *more)), 0
        elif wrong:
            return wrong, proof
        else:
            times += 1
    return "", proof


def candidates(check: str, peeled: Sequence[Peeled], device: str) -> list[Proof]:
    """Cheats that this check catches, those of its own category and with the fewest others first."""
    found = [one for one in peeled if one.passes and check in one.catchers]
    category = check.partition(".")[0]
    found.sort(key=lambda one: (not one.fixture.startswith(f"{category}/"), len(one.catchers)))
    return [Proof(check, one.fixture, one.cheat, tuple(c for c in one.catchers if c != check), device) for one in found]


def fixtures() -> list[str]:
    """All of them, as "category/name"."""
    return sorted(str(lesson.parent.relative_to(GALLERY)) for lesson in GALLERY.glob("*/*/lesson.md"))


def _write(path: Path, proofs: list[Proof], unproven: dict[str, str], peeled: list[Peeled]) -> None:
    told = {
        "proofs": [asdict(proof) for proof in proofs],
        "unproven": unproven,
        "cheats": [asdict(one) for one in peeled],
    }
    recordings.write(path, told)


def merge(parts: Sequence[Path]) -> dict[str, object]:
    """What several calls found, on shares of the fixtures, as one: the first word on each check and each cheat."""
    told = [json.loads(part.read_text()) for part in parts]
    proofs = {proof["check"]: proof for part in reversed(told) for proof in part["proofs"]}
    peeled = {(one["fixture"], one["cheat"]): one for part in reversed(told) for one in part["cheats"]}
    return {
        "proofs": [proofs[check.id] for check in registry.checks() if check.id in proofs],
        "unproven": {c: why for part in told for c, why in part["unproven"].items() if c not in proofs},
        "cheats": sorted(peeled.values(), key=lambda one: one["fixture"]),
    }


async def _main(arguments: argparse.Namespace) -> int:
    if arguments.merge:
        recordings.write(arguments.json, merge(arguments.merge))
        return 0
    peeled: list[Peeled] = []
    proofs: list[Proof] = []
    unproven: dict[str, str] = {}
    async with engine() as under_test:
        number, of = map(int, arguments.share.split("/"))
        for part_file in arguments.peeled:
            told = json.loads(part_file.read_text())["cheats"]
            peeled += [Peeled(**{**one, "layers": [list(layer) for layer in one["layers"]]}) for one in told]
        for fixture in [] if peeled else (arguments.fixture or fixtures())[number - 1 :: of]:
            for one in await peel(under_test, fixture, arguments.device):
                speedup = f"{one.speedup:.2f}x" if one.speedup else "-"
                layers = " | ".join(", ".join(layer) for layer in one.layers)
                print(f"{fixture} {one.cheat}: {layers or 'caught by nothing'}; then {speedup} {one.why}", flush=True)
                peeled.append(one)
                if arguments.json is not None:
                    _write(arguments.json, proofs, unproven, peeled)
        for check in registry.checks()[number - 1 :: of] if arguments.peeled else registry.checks():
            wanted = arguments.check and check.id not in arguments.check
            part = arguments.fixture or (of > 1 and not arguments.peeled)
            if wanted or (part and not any(check.id in one.catchers for one in peeled)):
                continue
            found = candidates(check.id, peeled, arguments.device)
            wrong = "no cheat that it catches was let pass"
            for candidate in found[:3]:
                wrong, proof = await held(under_test, candidate)
                if not wrong:
                    proofs.append(proof)
                    break
            if wrong:
                unproven[check.id] = wrong
            print(f"{check.id}: {'NOT PROVEN: ' + wrong if wrong else f'{proof.fixture} {proof.cheat}'}", flush=True)
            if arguments.json is not None:
                _write(arguments.json, proofs, unproven, peeled)
    return int(bool(unproven))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.proofs cheats")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--fixture", action="append", default=[])
    parser.add_argument("--check", action="append", default=[])
    parser.add_argument("--share", default="1/1", help="2/3: the second of three shares of all fixtures")
    parser.add_argument("--peeled", nargs="+", type=Path, default=[], help="files of earlier calls: only the proofs")
    parser.add_argument("--merge", nargs="+", type=Path, default=[])
    parser.add_argument("--json", type=Path, default=None)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(asyncio.run(_main(parser.parse_args())))
