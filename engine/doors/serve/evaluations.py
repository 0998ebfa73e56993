"""What a run says of a candidate, as the evaluation of a trace; or why it says nothing.

Statuses are those of flashinfer-bench's traces. What these have no room for stands in `correctness.extra`. A figure
that is not known is left out, and a speed-up stands there with a verdict alone.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aisp.engine.doors.api import CANDIDATE
from aisp.engine.doors.asking import Answer
from aisp.kernels.catalog.formats.trace_definition import Harness
from aisp.store.outcomes import Fault
from aisp.store.results import outcome, traces
from aisp.store.results.outcome import Outcome
from aisp.store.results.telling import by_own_rule
from aisp.store.results.traces import Status
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
    SUSPECT = "suspect"  # its outputs are right, and its times are not to be believed


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
    return Ended(traces.document(Status.COMPILE_ERROR, wall, clean(told, limit=LOG_CHARACTERS)))


_FAILURES: Mapping[Fault, tuple[Failure, bool]] = {
    Fault.ENGINE: (Failure.ENGINE_LOST, True),
    Fault.RECORD: (Failure.NO_RESULT, True),  # nobody knows what it said
    Fault.PERSON: (Failure.CANCELLED, False),
    Fault.MACHINE: (Failure.NOT_HERE, False),
    Fault.TARGET: (Failure.NO_RESULT, False),
    Fault.NOBODY: (Failure.NO_RESULT, False),
}
"""By whose doing it is that a run says nothing: what that is called, and whether another try may say more."""


def of_run(answer: Answer) -> Ended:
    """What a run that has ended says of the candidate."""
    run, record = answer.reading, answer.reading.record
    rung = CANDIDATE if CANDIDATE in run.rungs else ALONE
    arm, ended = run.arm(rung), outcome.of(run, rung)
    status = traces.status_of(run, arm, Harness.FLASHINFER) if arm is not None else None
    if arm is None or status is None:
        if arm is not None and ended.outcome is Outcome.SUSPECT:
            return failed(Failure.SUSPECT, traces.silence(run, arm))
        failure, again = _FAILURES[ended.fault]
        why = record.reason or (arm.reason if arm is not None else "") or "the run says nothing of the candidate"
        return failed(failure, why, again=again)
    ours = traces.ours(run, arm, answer.facts)
    extra = {
        "run_id": record.id,
        "noise_floor": ours["floor"],
        "judged": ours["judged"] or None,
        "confined": ours["confined"] or None,
        "by_own_rule": by_own_rule(arm) or None,
        "quick": record.quick,
        **{
            name: ours[name]
            for name in ("max_error_in_tolerances", "verdict", "why", "speedup", "interval", "validity")
        },
    }
    found = traces.evaluation(run, arm, status, answer.facts, extra)
    return Ended({**found, "log": clean(found["log"], limit=LOG_CHARACTERS)})
