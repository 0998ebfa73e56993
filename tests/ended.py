"""Runs for the matrix of outcomes: every state with every kind of finding, timed or not, decided or not; and those in
which what decides is another rung's, the baseline's or the whole run's doing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from aisp.store.outcomes import Correctness, Fault, State, Validity, Verdict
from aisp.store.record import Arm, Comparison, Finding, Quarantine, Run, Step
from aisp.store.results.reading import Reading
from tests.replacing import replace
from tests.store.examples import finding, finished, planned

RUNG, BASE, OTHER = "optimized", "baseline", "optimized_other"
FINDINGS = {
    "": (),
    "suspect": (("timing.wall_clock", "suspect"),),
    "caught": (("timing.wall_clock", "caught"),),
    "wrong": (("output.values", "caught"),),
    "both": (("output.values", "caught"), ("memory.aliasing", "caught")),
}
"""What checks say, by a word: nothing, a doubt, a cheat, wrong values, and wrong values of a cheat."""
TIMES = {"": None, "undecided": Verdict.UNDECIDED, "decided": Verdict.FASTER}
"""What was measured, by a word: nothing, times that decide nothing, and times that do."""


def arm_of(rung: str, state: State, *, timed: bool = True) -> Arm:
    """An arm that came to this end; `timed` is what it had by then."""
    made = finished(planned()).arms[1 if rung != BASE else 0]
    if state is State.INCORRECT:
        timed, correct = False, Correctness.WRONG
    else:
        correct = Correctness.CORRECT if timed or state is State.OK else Correctness.UNKNOWN
    bare: dict[str, Any] = {} if timed else {"median_ms": None, "low_ms": None, "high_ms": None, "sol": None}
    ended = state.final and state is not State.OK
    return replace(
        made,
        rung=rung,
        role=None,
        state=state,
        correctness=correct,
        reason=f"{rung} ended so" if ended else "",
        signal=11 if state is State.CRASHED else None,
        **bare,
    )


def ratio(rung: str, verdict: Verdict) -> Comparison:
    low, high = {Verdict.FASTER: (1.9, 2.1), Verdict.UNDECIDED: (0.9, 4.4)}[verdict]
    return Comparison(rung, BASE, verdict, 2.0, low, high, floor=0.01)


def run_of(
    state: State, arms: tuple[Arm, ...], findings: tuple[Finding, ...] = (), verdict: Verdict | None = None
) -> Run:
    """A run of these arms that came to this end, as the engine would write it."""
    statuses = {found.status for found in findings}
    barred = {found.arm for found in findings if found.status == "caught"}
    timed = [arm for arm in arms if arm.rung not in (BASE,) and arm.median_ms is not None]
    shown = [ratio(arm.rung, verdict) for arm in timed if verdict and not {arm.rung, BASE, ""} & barred]
    validity = Validity.UNKNOWN
    if state.final and any(arm.median_ms is not None for arm in arms):
        validity = Validity.SUSPECT if "suspect" in statuses else Validity.VALID
    if "caught" in statuses:
        validity = Validity.CAUGHT
    ran = [arm.correctness for arm in arms if arm.state.fault is not Fault.MACHINE]
    correct = Correctness.WRONG if Correctness.WRONG in ran or state is State.INCORRECT else Correctness.UNKNOWN
    if ran and all(found is Correctness.CORRECT for found in ran):
        correct = Correctness.CORRECT
    best = shown[0].verdict if shown and state is State.OK and validity is Validity.VALID else Verdict.NONE
    return replace(
        planned(device="cuda", case="default"),
        state=state,
        correctness=correct,
        validity=validity,
        verdict=best,
        reason="the run ended so" if state.final and state is not State.OK else "",
        arms=arms,
        comparisons=tuple(shown),
        findings=findings,
        steps=tuple(Step("measure", arm.rung, 1, 1.0) for arm in timed),
    )


def said(how: str, rung: str = RUNG) -> tuple[Finding, ...]:
    return tuple(finding(check, rung, status, "seen") for check, status in FINDINGS[how])


def of_states() -> Iterator[tuple[str, Reading]]:
    """Every state of a run whose one rung came to the same end; contradictions are left out, as the record refuses
    them."""
    for state, (how, _), (times, verdict) in itertools.product(State, FINDINGS.items(), TIMES.items()):
        if how and not state.final:
            continue  # checks are asked at the end
        if (state is State.INCORRECT) != (how in ("wrong", "both")):
            continue  # wrong outputs are an end of their own, and caught as such
        if state is State.INCORRECT and verdict:
            continue
        arm = arm_of(RUNG, state, timed=verdict is not None)
        whole = State.OK if state is State.UNAVAILABLE else state
        base = arm_of(BASE, State.OK if state.final else state, timed=verdict is not None or state.final)
        run = run_of(whole, (base, arm), said(how), verdict)
        yield " ".join(part for part in (state.name, how, times) if part), Reading(run)
    caught = run_of(State.INCORRECT, (arm_of(BASE, State.OK), arm_of(RUNG, State.INCORRECT)), said("caught"))
    yield "INCORRECT caught", Reading(caught)
    yield "INCORRECT", Reading(replace(caught, findings=(), validity=Validity.VALID))


HELD = Quarantine("ch07:one", b"", RUNG, "c0de", "01OLD", "timing.wall_clock", "seen", "")


def of_others() -> Iterator[tuple[str, Reading]]:
    """A good rung, where what decides is not its own doing."""
    good, base = arm_of(RUNG, State.OK), arm_of(BASE, State.OK)
    for state in State:
        if (state.final and state.fault is Fault.TARGET) or state.again:
            other = arm_of(OTHER, state, timed=False)
            yield f"beside one that is {state.name}", Reading(run_of(state, (base, good, other), (), Verdict.FASTER))
    for how in ("suspect", "caught", "wrong"):
        other = arm_of(OTHER, State.INCORRECT if how == "wrong" else State.OK)
        whole = State.INCORRECT if how == "wrong" else State.OK
        run = run_of(whole, (base, good, other), said(how, OTHER), Verdict.FASTER)
        yield f"beside one that is {how}", Reading(run)
        whole_run = run_of(State.OK, (base, good), said(how, "") if how != "wrong" else (), Verdict.FASTER)
        if how != "wrong":
            yield f"in a run that is {how}", Reading(whole_run)
        bad = arm_of(BASE, State.INCORRECT if how == "wrong" else State.OK)
        yield f"against a baseline that is {how}", Reading(run_of(whole, (bad, good), said(how, BASE), Verdict.FASTER))
    doubted = run_of(State.OK, (base, good), (*said("caught", BASE), *said("suspect")), Verdict.FASTER)
    yield "suspect, against a baseline that is caught", Reading(doubted)
    for state in (State.USER_ERROR, State.TIMEOUT_TOTAL, State.INFRA_ERROR):
        failed = run_of(state, (arm_of(BASE, state, timed=False), arm_of(RUNG, State.OK, timed=False)))
        yield f"against a baseline that is {state.name}", Reading(failed)
        cut = run_of(state, (arm_of(BASE, state, timed=False), arm_of(RUNG, State.CANCELLED, timed=False)))
        yield f"CANCELLED, for a baseline that is {state.name}", Reading(cut)
    nothing = (arm_of(BASE, State.UNAVAILABLE, timed=False), arm_of(RUNG, State.UNAVAILABLE, timed=False))
    yield "all UNAVAILABLE", Reading(run_of(State.UNAVAILABLE, nothing))
    yield "UNAVAILABLE, and it was not reached", Reading(run_of(State.UNAVAILABLE, ()))
    whole = run_of(State.OK, (base, good), (), Verdict.FASTER)
    yield "in quarantine", Reading(whole, {RUNG: HELD})
    yield "in quarantine for wrong values", Reading(whole, {RUNG: replace(HELD, check="output.values")})
    yield "against a baseline in quarantine", Reading(whole, {BASE: replace(HELD, rung=BASE)})
    left_out = replace(
        whole, validity=Validity.SUSPECT, verdict=Verdict.NONE, manifest={"without": ["memory.aliasing"]}
    )
    yield "without checks", Reading(left_out)


def matrix() -> list[tuple[str, Reading]]:
    """All of them, each with a name."""
    return [*of_states(), *of_others()]
