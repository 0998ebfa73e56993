"""Running a fixture of the gallery through the ordinary engine, and proving a check by its cheat.

`python -m tests.proofs gallery timing/unsynced_streams [--without CHECK ...] [--prove CHECK]` shows what happens.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aisp.checks import registry
from aisp.engine.worker.__main__ import LEAST_CORES
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Role, Target
from aisp.store.outcomes import FindingStatus, State
from aisp.store.record import Arm, Run
from aisp.store.results.outside import outside_of
from aisp.tui.plain import number
from tests.engine.harness import EngineUnderTest
from tests.replacing import replace
from tests.store.examples import planned

GALLERY = Path(__file__).resolve().parents[3] / "checks" / "gallery"
HELD_OUT = "held_out"  # the one category that lies beside this file: no check was written for what is in it
PATIENCE_S = 200.0  # a run that is not a quick one takes 80 s on two cores, and longer beside others
USUAL_REPLICAS = 0  # as many as a run has where nobody says: one alone claims nothing, whatever a rung does

TAKES_CORES = frozenset({"environment/numa_inconsistency"})
"""Cheats that take cores which their rivals were not given. With fewer than four the engine gives all there are."""

FULL = frozenset({"compile/autotuning_variance", "statistical/cold_start_inclusion"})
"""Told from one process to the next: in a quick run there are two, and how they differ may be a neighbour's doing."""


@contextlib.asynccontextmanager
async def engine(cores: Sequence[int] = ()) -> AsyncIterator[EngineUnderTest]:
    """An engine of its own, for use outside of a test; it and all its workers on these cores, or on all."""
    with tempfile.TemporaryDirectory(prefix="aisp-gallery-") as folder:
        under_test = EngineUnderTest(Path(folder))
        with confined(cores):
            await under_test.start()
        try:
            yield under_test
        finally:
            under_test.terminate()


@contextlib.contextmanager
def confined(cores: Sequence[int]) -> Iterator[None]:
    """Processes that are started in here may use these cores only; all that this one may use where none is named."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.asynccontextmanager
async def suited(usual: EngineUnderTest, fixture: str) -> AsyncIterator[EngineUnderTest]:
    """The usual engine; on a small machine, for a cheat that takes cores, one that has a core left to be taken."""
    cores = sorted(os.sched_getaffinity(0))
    if fixture not in TAKES_CORES or not 1 < len(cores) < LEAST_CORES:
        yield usual
        return
    async with engine(cores[:-1]) as small:
        yield small


def root_of(fixture: str) -> Path:
    """The folder of the categories that "category/name" is one of."""
    return Path(__file__).resolve().parents[1] if fixture.startswith(f"{HELD_OUT}/") else GALLERY


def target(fixture: str) -> Target:
    """The target of "category/name"."""
    category, _, name = fixture.partition("/")
    root = root_of(fixture)
    loaded = catalog.load_target(root / category / name, root=root, chapter=category)
    assert isinstance(loaded, Target), "; ".join(str(problem) for problem in loaded)
    return loaded


def cheats(of: Target) -> list[str]:
    """Names of the cheats."""
    return [rung.name for rung in of.rungs if rung.role is Role.CHEAT]


@dataclass(frozen=True)
class Told:
    """A run's record, and what it says of each arm."""

    record: Run

    def caught_by(self, rung: str) -> list[str]:
        """Ids of the checks that caught this rung, or the run as a whole; of those that go by time alone, which
        withhold the verdict and accuse nobody, the ones that suspect this rung."""
        by_time = {check.id for check in registry.checks() if check.evidence is registry.Evidence.TIME}
        found = [f for f in self.record.findings if f.arm in (rung, "") and f.status is FindingStatus.CAUGHT]
        found += [
            f
            for f in self.record.findings
            if f.arm == rung and f.status is FindingStatus.SUSPECT and f.check in by_time
        ]
        return [f.check for f in found]

    def arm(self, rung: str) -> Arm:
        """The record of one arm."""
        return next(arm for arm in self.record.arms if arm.rung == rung)


async def run(
    under_test: EngineUnderTest,
    fixture: str,
    *,
    rungs: Sequence[str] = (),
    without: Sequence[str] = (),
    naive: bool = False,
    device: str = "auto",
    quick: bool | None = None,
    replicas: int = USUAL_REPLICAS,
) -> Told:
    """One run of a fixture's twin and cheats (or of the rungs named); quick by default where that can tell."""
    found = target(fixture)
    quick = fixture not in FULL if quick is None else quick
    names = list(rungs) or [rung.name for rung in found.rungs if rung.role in (Role.OPTIMIZED, Role.CHEAT)]
    options = {"rungs": names, "without": list(without), "naive": naive, "device": device, "quick": quick}
    options |= {"replicas": replicas}
    async with suited(under_test, fixture) as fit:
        try:
            result = await fit.run(root_of(fixture), found.id, patience_s=PATIENCE_S, **options)
        except AssertionError as error:
            _, refused, why = str(error).partition(" cannot run here: ")
            if not refused:
                raise
            return Told(nowhere(found, names, why.partition(";")[0]))
    return Told(result.record)


def enough(fixture: str) -> int:
    """Replicas in which a check speaks, or does not: one, but for what is told from one process to the next."""
    return USUAL_REPLICAS if fixture in FULL else 1


def nowhere(of: Target, names: Sequence[str], why: str) -> Run:
    """In the place of a run that was refused: none of its arms could run on this machine."""
    arms = [Arm(rung, State.UNAVAILABLE, reason=why) for rung in ("baseline", *names)]
    return replace(planned(of.id), state=State.UNAVAILABLE, reason=why, arms=tuple(arms))


async def prove(under_test: EngineUnderTest, fixture: str, cheat: str, check: str, device: str = "auto") -> str:
    """That `check` catches `cheat`, and that it passes where the check is left out; "" or what went otherwise.

    Checks that stand behind one another are left out one by one until it passes; then this one alone is put back.
    """
    without: list[str] = []
    for _ in range(12):
        told = await run(under_test, fixture, rungs=[cheat], without=without, device=device, replicas=enough(fixture))
        found = told.caught_by(cheat)
        if not found:
            break
        without += found
    else:
        return f"still caught by {', '.join(found)} without {', '.join(without)}"
    arm = told.arm(cheat)
    if arm.state.value != "ok":
        return f"without {', '.join(without)} it ended {arm.state.value}: {arm.reason}"
    if check not in without:
        return f"{check} did not catch it; caught by {', '.join(without) or 'nothing'}"
    others = [name for name in without if name != check]
    told = await run(under_test, fixture, rungs=[cheat], without=others, device=device, replicas=enough(fixture))
    if told.caught_by(cheat) != [check]:
        return f"without {', '.join(others)} it was caught by {told.caught_by(cheat)}, not by {check} alone"
    return ""


def clocks(record: Run) -> list[dict[str, object]]:
    """Each arm's verdict, its times per call in ms by both clocks, and both ratios to the baseline's."""
    compared = {each.rung: each for each in record.comparisons}
    arms = {arm.rung: arm for arm in record.arms}
    rows: list[dict[str, object]] = []
    for arm in record.arms:
        verdict, quality = compared.get(arm.rung), arm.quality
        judged = outside_of(arm, arms[verdict.baseline]) if verdict is not None else None
        rows.append(
            {
                "rung": arm.rung,
                "verdict": verdict.verdict.value if verdict and verdict.verdict else arm.state.value,
                "own_ms": arm.median_ms,
                "judge_ms": quality and quality.outside_ms,
                "copies_ms": quality and quality.outside_copies_ms,
                "inside": quality and quality.inside,
                "own_ratio": verdict and verdict.speedup,
                "judge_ratio": judged and judged.ratio,
                "judge_low": judged and judged.low,
            }
        )
    return rows


def line(row: dict[str, object]) -> str:
    """One of these, for a person."""
    figures = ("own_ms", "judge_ms", "copies_ms", "own_ratio", "judge_ratio", "judge_low")
    told = ", ".join(f"{name} {number(value, 4)}" for name in figures if isinstance(value := row[name], float))
    return f"    {row['rung']:30} {row['verdict']:10} {told}{' inside: ' + str(row['inside']) if row['inside'] else ''}"


async def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs gallery")
    parser.add_argument("fixtures", nargs="+")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--prove", metavar="CHECK", default="")
    parser.add_argument("--full", action="store_true", help="not quick: several processes for each rung")
    parser.add_argument("--all", action="store_true", help="every finding, not only those against a rung")
    arguments = parser.parse_args()
    async with engine() as under_test:
        for fixture in arguments.fixtures:
            if arguments.prove:
                for cheat in cheats(target(fixture)):
                    wrong = await prove(under_test, fixture, cheat, arguments.prove, arguments.device)
                    print(f"{fixture} {cheat} {arguments.prove}: {wrong or 'proven'}", flush=True)
                continue
            options = {"without": arguments.without, "naive": True, "device": arguments.device}
            told = await run(under_test, fixture, quick=False if arguments.full else None, **options)
            print(f"{fixture}: {told.record.state.value} {told.record.validity.value} {told.record.reason}")
            for arm in told.record.arms:
                ms = f"{arm.median_ms:.4f} ms" if arm.median_ms else "-"
                naive = arm.naive
                says = f"naive {naive.speedup or 0:.2f}x accepts={naive.accepts} {naive.note}" if naive else ""
                print(f"  {arm.rung:24} {arm.state.value:12} {ms:>12}  {says} {arm.reason}")
            for row in clocks(told.record):
                print(line(row))
            for finding in told.record.findings:
                if arguments.all or finding.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT):
                    print(f"    {finding.status.value:14} {finding.check:28} {finding.arm:16} {finding.evidence}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    asyncio.run(_main())
