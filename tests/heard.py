"""Events as an engine would tell them, made from plain words: the one builder of a run's events for tests.

    story = [
        heard.planned(run_id="R1", target="mine:one", rungs=["baseline", "optimized"]),
        heard.arm(run_id="R1", arm="optimized", state="ok", median_ms=0.4),
        heard.finished(run_id="R1", state="ok"),
    ]
    model.apply(heard.whole(story))

An end carries the whole record; `whole` puts into it what the events before it said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from aisp.engine import following
from aisp.engine.protocol import events
from aisp.store.outcomes import Correctness, FindingStatus, Limiter, State, Timing, Trigger, Validity, Verdict
from aisp.store.record import Arm, Ceiling, Comparison, Finding, Naive, RooflineBound, Run, Step, unplanned


def planned(*, run_id: str, rungs: Sequence[str] = (), folder: str | bytes = b"", **fields: Any) -> events.RunPlanned:
    """A run is planned. Its manifest has `code`, `validity` and `without`, and the replicas of a quick run."""
    manifest = {name: fields.pop(name) for name in ("code", "without", "validity", "stop_rule") if name in fields}
    pace = {name: fields.pop(name) for name in ("expected_s", "expected_processes") if name in fields}
    if fields.get("quick"):
        manifest["stop_rule"] = {"replicas": 2}
    trigger = Trigger(fields.pop("trigger", "cli"))
    arms = tuple(Arm(rung, State.PLANNED) for rung in rungs)
    run = msgspec.structs.replace(
        unplanned(run_id), folder=os.fsencode(folder), trigger=trigger, manifest=manifest, arms=arms, **fields
    )
    return events.RunPlanned(run=run, **pace)


def state(*, run_id: str, state: str, at_ns: int, process: int = 0) -> events.RunState:
    """A run moved on."""
    return events.RunState(run_id=run_id, state=State(state), at_ns=at_ns, process=process)


def step(*, run_id: str, **fields: Any) -> events.Step:
    """A step of a run."""
    return events.Step(run_id=run_id, step=Step(**fields))


def arm(*, run_id: str, arm: str, **fields: Any) -> events.ArmUpdate:
    """What is known of an arm."""
    return events.ArmUpdate(run_id=run_id, arm=arm_of(arm, **fields))


def arm_of(rung: str, *, state: str = "ok", samples: int = 0, **fields: Any) -> Arm:
    """An arm; what follows from its state or from its having a time is filled in."""
    timed = fields.get("median_ms") is not None
    sure = {"ok": "correct", "incorrect": "wrong"}.get(state, "correct" if timed else "unknown")
    fields["correctness"] = Correctness(fields.get("correctness", sure))
    fields["timing"] = Timing(fields.get("timing", "host" if timed else "none"))
    if state == "crashed":
        fields.setdefault("signal", 11)
    return Arm(rung, State(state), sample_count=samples or int(timed), **fields)


def comparison(*, run_id: str, **fields: Any) -> events.ComparisonUpdate:
    """A rung against a baseline."""
    return events.ComparisonUpdate(run_id=run_id, comparison=comparison_of(**fields))


def comparison_of(*, verdict: str, **fields: Any) -> Comparison:
    """A comparison; a verdict without an interval gets one that fits."""
    ratio = fields.get("speedup")
    if ratio is not None and verdict not in ("none", "undecided"):
        fields = {"low": ratio * 0.99, "high": ratio * 1.01} | fields
    return Comparison(verdict=Verdict(verdict), **fields)


def light(*, limiter: str = "", **fields: Any) -> RooflineBound:
    """An arm's bounds."""
    return RooflineBound(limiter=Limiter(limiter) if limiter else None, **fields)


def naive(*, speedup: float | None = None, **fields: Any) -> Naive:
    """What a naive harness says; `speedup` stands for times that come to it."""
    times = {"base_ms": speedup, "time_ms": 1.0} if speedup is not None else {}
    return Naive(**{**times, **fields})


def finding(*, check: str, arm: str, status: str, evidence: str = "") -> Finding:
    """What a check said."""
    return Finding(check, arm, FindingStatus(status), evidence)


def ceiling(*, peak_id: str, gpu: str, position: int, count: int, **fields: Any) -> events.PeakCeiling:
    """A ceiling was measured."""
    return events.PeakCeiling(peak_id=peak_id, gpu=gpu, position=position, count=count, ceiling=Ceiling(**fields))


def finished(
    *, run_id: str, target: str = "", findings: Iterable[Finding] = (), flags: Iterable[str] = (), **fields: Any
) -> events.RunFinished:
    """A run's end, without what the events before it said: see `whole`."""
    words: dict[str, Any] = {
        "state": State(fields.pop("state")),
        "correctness": Correctness(fields.pop("correctness", "unknown")),
        "validity": Validity(fields.pop("validity", "unknown")),
        "verdict": Verdict(fields.pop("verdict", "none")),
    }
    if words["state"] is State.OK:
        words["correctness"] = Correctness.CORRECT
    if words["state"] is State.INCORRECT:
        words["correctness"] = Correctness.WRONG
    if words["state"] is not State.OK and not fields.get("reason"):
        fields["reason"] = "as the test wants it"
    if words["validity"] is Validity.CAUGHT:
        words["verdict"] = Verdict.NONE
    run = msgspec.structs.replace(
        unplanned(run_id, target), findings=tuple(findings), flags=tuple(flags), **words, **fields
    )
    return events.RunFinished(run=run)


def whole(story: Iterable[events.Event]) -> list[events.Event]:
    """The story, the record of each end whole: with its plan, arms, comparisons and steps."""
    runs: dict[str, Run] = {}
    out: list[events.Event] = []
    for event in story:
        run_id = getattr(event, "run_id", "")
        if isinstance(event, events.RunFinished):
            told = runs.get(run_id, event.run)
            event = events.RunFinished(seq=event.seq, run=told if told.state.final else ended(told, event.run))
        elif run_id and not isinstance(event, events.WatchEdit):
            runs[run_id] = following.after(runs.get(run_id) or unplanned(run_id), event)
        out.append(event)
    return out


def ended(known: Run, end: Run) -> Run:
    """The record of a run of which so much was known before its end."""
    caught = {f.arm: f.check for f in end.findings if f.status is FindingStatus.CAUGHT}

    def shown(item: Comparison) -> Comparison:
        check = next((caught[arm] for arm in (item.rung, item.baseline, "") if arm in caught), "")
        return item.without_figures(f"caught: {check}") if check else item

    def over(arm: Arm) -> Arm:
        """An arm that nothing was told of ended as its run did."""
        if arm.state.final or end.state is not State.OK:
            return arm
        return msgspec.structs.replace(arm, state=State.OK, correctness=Correctness.CORRECT)

    arms = tuple(map(over, known.arms))
    bad = next((arm for arm in arms if arm.state not in (State.OK, State.UNAVAILABLE)), None)
    if end.state is State.OK and bad is not None:
        wrong = Correctness.WRONG if bad.state is State.INCORRECT else Correctness.UNKNOWN
        why = f"{bad.rung}: {bad.reason or 'as the test wants it'}"
        end = msgspec.structs.replace(end, state=bad.state, correctness=wrong, verdict=Verdict.NONE, reason=why)
    return msgspec.structs.replace(
        known,
        arms=arms,
        steps=tuple(step for step in known.steps if step.duration_ms is not None),
        target=known.target or end.target,
        state=end.state,
        correctness=end.correctness,
        validity=end.validity,
        verdict=end.verdict,
        duration_ms=end.duration_ms,
        reason=end.reason,
        flags=end.flags,
        findings=end.findings,
        comparisons=tuple(shown(item) for item in known.comparisons),
    )
