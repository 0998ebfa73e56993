"""What the tests of trust share: a lesson, a cheat with its honest twin, and what checks said of their runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from aisp.engine import paths
from aisp.engine.protocol import events
from aisp.kernels.catalog.model import Catalog, Chapter, Kind, Role, Rung
from aisp.store import Store
from aisp.store.outcomes import Correctness, FindingStatus, State, Validity, Verdict
from aisp.store.record import Arm, Finding, Naive, Run
from aisp.tui.model import AA_ARM
from tests import heard
from tests.replacing import replace
from tests.store.examples import finished, planned, samples_of
from tests.tui.app_support import make_catalog, write_target
from tests.tui.fakes import quick_run_events

CHEAT_ID = "timing:unsynced_streams"
LESSON_ID = "ch07:transpose"
HIDDEN_WORK = "0.41 ms by events, 9.8 ms by the engine's clock: work went on after the last event"

# check, status for the cheat, evidence; every other arm passed.
TOLD: tuple[tuple[str, str, str], ...] = (
    ("output.values", "passed", "12 sets compared in full, worst 0.25 of the tolerance"),
    ("output.nonfinite", "not_applicable", "the reference has no NaN and no infinity"),
    ("timing.physics", "suspect", "faster than the measured bandwidth allows: 4.1 TB/s of 3.0 TB/s"),
    ("timing.wall_clock", "caught", HIDDEN_WORK),
    ("cuda.streams", "unavailable", "CUPTI is not installed; pip install nvidia-cuda-cupti would make it possible"),
)


def items(arms: Sequence[str], cheat: str = "cheat", told: Sequence[tuple[str, str, str]] = TOLD) -> Iterator[Finding]:
    """What each check said of each arm, in the registry's order."""
    for check, status, evidence in told:
        for arm in arms:
            of_all = status in ("unavailable", "not_applicable")
            mine = status if arm == cheat or of_all else "passed"
            yield heard.finding(check=check, arm=arm, status=mine, evidence=evidence if mine == status else "")


def cheat_run_events(
    run_id: str = "01T", *, target: str = CHEAT_ID, cheat: str = "cheat", finished: bool = True
) -> list[events.Event]:
    """A run of a twin and a cheat: a naive harness sees 9.84x of the cheat, and the checks catch it."""
    rungs = ("baseline", "optimized", cheat) if cheat != "optimized" else ("baseline", "optimized")
    story = quick_run_events(target, run_id=run_id, rungs=rungs, speedup=1.23, verdict="faster", finished=finished)
    if not finished:
        return story
    end = story.pop()
    assert isinstance(end, events.RunFinished)
    story = [
        event for event in story if not (isinstance(event, events.ComparisonUpdate) and event.comparison.rung == cheat)
    ]
    for arm, base_ms, time_ms in (("optimized", 4.2, 3.5), (cheat, 4.2, 4.2 / 9.84)):
        naive = Naive(base_ms=base_ms, time_ms=time_ms, accepts=True)
        for event in reversed(story):
            if isinstance(event, events.ArmUpdate) and event.arm.rung == arm:
                event.arm = replace(event.arm, naive=naive)
                break
    story.append(
        heard.comparison(
            run_id=run_id, rung=cheat, baseline="baseline", verdict="none", note="caught: timing.wall_clock"
        )
    )
    told = tuple(items([*rungs, AA_ARM], cheat))
    end = heard.finished(
        run_id=run_id, state="ok", validity="caught", duration_ms=end.run.duration_ms, flags=["quick"], findings=told
    )
    return heard.whole([*story, end])


def trust_catalog(root: Path) -> Catalog:
    """The small catalogue, and a target of the gallery: a cheat beside its honest twin."""
    catalog = make_catalog(root, problems=False)
    target = write_target(root, "timing", "unsynced_streams", title="Work on a stream that nobody waits for")
    (target.folder / "cheat.py").write_text("import torch\n\n\ndef run(x):\n    return side_stream(x)\n")
    cheat = Rung(
        "cheat", Role.CHEAT, Kind.TORCH, target.folder / "cheat.py", target.needs, "leaves its work on another stream"
    )
    twin = replace(target.rungs[1], summary="twin: the same stream, and waits for it")
    target = replace(
        target,
        rungs=(target.rungs[0], twin, cheat),
        files=("baseline.py", "cheat.py", "optimized.py", "reference.py"),
        lesson="# Work on a stream that nobody waits for\n\nA naive harness stops too early.\n",
        expect=None,
    )
    chapter = Chapter("timing", None, "Timing", root / "timing", "# Timing\n\nCheats against the clock.\n")
    return replace(catalog, chapters=(*catalog.chapters, chapter), targets=(*catalog.targets, target))


def stored_trust(root: Path, *, cheat: str = "optimized", wall: str = "", wrong: bool = False) -> Run:
    """Put a run of LESSON_ID into the store in which `cheat` was caught; `optimized` goes into quarantine.

    Args:
        wrong: whether the cheat had no time, but wrong values, with which the run ended.
    """
    target, code = LESSON_ID, "c0de"
    chapter, _, name = target.partition(":")
    folder = os.fsencode(root / chapter.replace("/", "_") / name)
    run = planned(target, folder=folder, device="cpu", manifest={"code": code, "without": []})
    run = replace(run, wall=wall) if wall else run
    end = finished(run)
    base, best = end.arms
    arms: tuple[Arm, ...] = (
        base,
        replace(best, naive=Naive(base_ms=1.0, time_ms=0.1, accepts=True) if cheat == "optimized" else None),
    )
    if cheat not in ("baseline", "optimized"):
        timed = replace(best, rung=cheat, median_ms=0.2, low_ms=0.19, high_ms=0.21)
        untimed = Arm(cheat, State.INCORRECT, Correctness.WRONG, reason="wrong values")
        arms = (*arms, untimed if wrong else timed)
    findings = tuple(
        Finding(item.check, item.arm, FindingStatus(item.status), item.evidence)
        for item in items([arm.rung for arm in arms], cheat)
    )
    none = replace(
        end.comparisons[0], verdict=Verdict.NONE, speedup=None, low=None, high=None, floor=None, note="caught"
    )
    end = replace(
        end,
        arms=arms,
        findings=findings,
        state=State.INCORRECT if wrong else end.state,
        correctness=Correctness.WRONG if wrong else end.correctness,
        reason=f"{cheat}: wrong values" if wrong else end.reason,
        validity=Validity.CAUGHT,
        verdict=Verdict.NONE,
        comparisons=(none,) if cheat == "optimized" else end.comparisons,
    )
    with Store.open(paths.database_file()) as store:
        store.plan([run])
        store.finish(end, {arm.rung: samples_of(50) for arm in end.arms})
    return end
