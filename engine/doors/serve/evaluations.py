"""What a run says of a candidate, as the evaluation of a trace; or why it says nothing.

Statuses are those of flashinfer-bench's traces. What these have no room for stands in `correctness.extra`. A figure
that is not known is left out, and a speed-up stands there with a verdict alone.
"""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Any

from aisp.engine.doors.api import CANDIDATE
from aisp.engine.doors.asking import Answer
from aisp.kernels.catalog.formats.trace_definition import Harness
from aisp.store.outcomes import Fault
from aisp.store.results import hardware
from aisp.store.results.telling import by_own_rule
from aisp.store.results.traces import Status, performance, status_of
from aisp.store.text import clean

LOG_CHARACTERS = 4000
ALONE = "optimized"
"""The rung that a solution is in a target that is made for it alone; in others it is CANDIDATE."""


class Failure(enum.StrEnum):
    """Why a task has no evaluation."""

    NOT_HERE = "not_here"  # this machine lacks what the target needs
    CANCELLED = "cancelled"
    ENGINE_LOST = "engine_lost"  # twice
    REFUSED = "refused"  # the engine would not plan it
    CHANGED = "target_changed"  # since it was sent in
    NO_RESULT = "no_result"  # the target's own files failed


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one workload of a task: a document, or a failure and its reason.

    Attributes:
        document: the evaluation; empty for a failure.
        again: a failure that another try may not have.
    """

    document: dict[str, Any]
    failure: Failure | None = None
    reason: str = ""
    again: bool = False

    @property
    def outcome(self) -> dict[str, Any]:
        """For the table of candidates."""
        if self.failure is None:
            return {"evaluation": self.document}
        return {"failure": self.failure.value, "reason": self.reason}


def failed(failure: Failure, reason: str, *, again: bool = False) -> Ended:
    """No evaluation, and why."""
    return Ended({}, failure, reason, again)


def misspelt(told: str) -> Ended:
    """Python cannot compile it, which was found now and here."""
    wall = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return Ended(_document(Status.COMPILE_ERROR, {}, wall, told))


def of_run(answer: Answer) -> Ended:
    """What a run that has ended says of the candidate."""
    run, record = answer.reading, answer.reading.record
    rung = CANDIDATE if CANDIDATE in run.rungs else ALONE
    arm = run.arm(rung)
    faults = {record.state.fault} | ({arm.state.fault} if arm is not None else set())
    if Fault.ENGINE in faults:
        return failed(Failure.ENGINE_LOST, record.reason, again=True)
    if Fault.RECORD in faults:  # nobody knows what it said
        return failed(Failure.NO_RESULT, record.reason, again=True)
    if Fault.PERSON in faults:
        return failed(Failure.CANCELLED, record.reason)
    if Fault.MACHINE in faults:
        return failed(Failure.NOT_HERE, record.reason or (arm.reason if arm is not None else ""))
    status = status_of(run, arm, Harness.FLASHINFER) if arm is not None else None
    if arm is None or status is None:
        return failed(Failure.NO_RESULT, record.reason or "the run says nothing of the candidate")
    bar, claim, item = run.bar(rung), run.claim(rung), run.comparison(rung)
    said: list[str] = []
    for text in (bar.sentence if bar is not None else "", arm.reason, arm.detail):
        if text and all(text not in earlier for earlier in said):
            said.append(text)
    document = _document(
        status, answer.facts, record.wall, "\n".join(said), hardware.ran_on(record.device, answer.facts)
    )
    if status in (Status.PASSED, Status.INCORRECT_NUMERICAL):
        document["correctness"] = {
            "extra": {
                "run_id": record.id,
                "max_error_in_tolerances": arm.max_error,
                "verdict": claim.verdict.value,
                "why": claim.why,
                "speedup": item.speedup if item is not None else None,
                "interval": [item.low, item.high] if item is not None else None,
                "noise_floor": item.floor if item is not None else None,
                "judged": run.judged(item) or None if item is not None else None,
                "confined": hardware.confined(answer.facts) or None,
                "validity": record.validity.value,
                "by_own_rule": by_own_rule(arm) or None,
                "quick": record.quick,
            }
        }
    if status is Status.PASSED and arm.median_ms is not None:
        document["performance"] = performance(run, arm)
    return Ended(document)


def _document(status: Status, facts: Any, wall: str, log: str, ran_on: str = "") -> dict[str, Any]:
    versions = facts.get("versions")
    return {
        "status": status.value,
        "environment": {"hardware": ran_on or "none", "libs": dict(versions) if isinstance(versions, dict) else {}},
        "timestamp": wall,
        "log": clean(log, limit=LOG_CHARACTERS),
        "correctness": None,
        "performance": None,
    }
