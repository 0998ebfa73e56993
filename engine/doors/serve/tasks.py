"""Tasks: what one `POST /evaluate` asked for, as rows of the table of candidates.

A task is a batch of that table, with a row for each workload. Its id follows from its content unless the client chose
one, so that the same request, sent again by a client that heard no answer, is the same task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aisp.engine import paths
from aisp.engine.doors.serve.evaluations import Failure
from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.store import identity
from aisp.store.candidates import CandidateRequest, Candidates, CandidateState, Level, Row, TakenError, TooManyError

PREFIX = "serve/"
"""Of the batches that are tasks."""
_OWN_ID = "send the same request, leave task_id out, or choose an id of its own"


@dataclass(frozen=True, slots=True)
class Task:
    """One task as it stands.

    Attributes:
        solution: the solution's name, made unique.
        rows: by the uuid of the workload.
    """

    id: str
    solution: str
    rows: Mapping[str, Row]

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return all(row.state.ended for row in self.rows.values())

    @property
    def definition(self) -> str:
        """Its name."""
        return next(iter(self.rows.values())).target

    @property
    def document(self) -> dict[str, Any]:
        """For the client."""
        failures = [failure for row in self.rows.values() if (failure := _failure(row)) is not None]
        traces = [self._trace(row) for row in self.rows.values() if row.outcome and "evaluation" in row.outcome]
        begun = any(row.state is not CandidateState.PLANNED for row in self.rows.values())
        status = "running" if begun else "pending"
        if self.ended:
            status = "failed" if failures else "completed"
        return {
            "task_id": self.id,
            "status": status,
            "definition": self.definition,
            "solution": self.solution,
            "traces": traces or None,
            "error": "; ".join(dict.fromkeys(reason for _, reason in failures)) or None,
            "failure": failures[0][0].value if failures else None,
            "run_ids": [row.run_id for row in self.rows.values() if row.run_id],
        }

    def _trace(self, row: Row) -> dict[str, Any]:
        assert row.outcome is not None
        told = {"definition": row.target, "solution": self.solution}
        return told | {"workload": row.outcome["workload"], "evaluation": row.outcome["evaluation"]}


def _failure(row: Row) -> tuple[Failure, str] | None:
    if row.state is CandidateState.DEAD:
        return Failure.ENGINE_LOST, row.reason
    if row.outcome and "failure" in row.outcome:
        return Failure(row.outcome["failure"]), str(row.outcome["reason"])
    return None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be evaluated.

    Attributes:
        definition: its name.
        sources: a hash of what it is made of.
        cases: the uuid of each workload by the name of its case.
        solution: the solution's name, made unique.
        files: of the candidate.
        task_id: as the client chose it; None where it did not.
    """

    definition: str
    sources: str
    cases: Mapping[str, str]
    solution: str
    files: Mapping[str, bytes]
    device: str
    quick: bool
    task_id: str | None = None


class Tasks:
    """All tasks, in the table of candidates. Every call is a transaction of some milliseconds; safe from any thread.

    Raises StoreError where the file cannot be used.
    """

    def __init__(self) -> None:
        self.table = Candidates(paths.candidates_file())

    def close(self) -> None:
        """Let go of the file."""
        self.table.close()

    def find(self, task_id: str) -> Task:
        """Raises RefusalError for none of that id."""
        rows = self.table.rows(PREFIX + task_id)
        if not rows:
            raise RefusalError(
                Kind.UNKNOWN, f"no task {task_id}", "POST /evaluate makes one; one that ended long ago may be gone"
            )
        names = [name.partition(" ") for name, _ in rows]
        by_uuid = {uuid: row for (uuid, _, _), (_, row) in zip(names, rows, strict=True)}
        return Task(task_id, names[0][2], by_uuid)

    def put(self, asked: Asked) -> tuple[Task, bool]:
        """The task of a request, and whether it is a new one. One that was given up, or that is suspect, waits anew.

        Raises:
            RefusalError: the client's task id has another content, or too many wait.
        """
        names = {case: f"{uuid} {asked.solution}" for case, uuid in asked.cases.items()}
        level = Level.QUICK if asked.quick else Level.FULL
        task_id = asked.task_id or identity.of_words(
            asked.definition, asked.sources, level, asked.device, *sorted(names.values())
        )
        known = self.table.rows(PREFIX + task_id)
        if known:
            if {name for name, _ in known} != set(names.values()) or not all(
                self._answers(row, asked, level) for _, row in known
            ):
                raise RefusalError(Kind.CONFLICT, f"the task {task_id} is of another request", _OWN_ID)
            ends = {row.number: end[0] for _, row in known if (end := _failure(row)) is not None}
            anew = [number for number, end in ends.items() if end in (Failure.ENGINE_LOST, Failure.SUSPECT)]
            self.table.again(anew)
            return self.find(task_id), bool(anew)
        try:
            for case in asked.cases:
                self.table.plan(
                    PREFIX + task_id,
                    target=asked.definition,
                    sources=asked.sources,
                    wanted=[CandidateRequest(names[case], asked.files)],
                    level=level,
                    conditions=conditions(asked.device, case),
                )
        except TakenError as error:
            fix = "change a comment in its sources"
            raise RefusalError(Kind.CONFLICT, str(error), fix) from None
        except TooManyError as error:
            raise RefusalError(Kind.TOO_MANY, str(error), "let some end first", retry_s=60) from None
        except ValueError as error:
            raise RefusalError(Kind.TOO_LARGE, str(error), "send less") from None
        return self.find(task_id), True

    def _answers(self, row: Row, asked: Asked, level: Level) -> bool:
        """Whether what becomes of a row is what is asked for, by the contents themselves: its id proves nothing. Where
        the client chose the id, the definition and the server may have changed since."""
        same = asked.task_id is not None or (row.sources, placed(row)[0]) == (asked.sources, asked.device)
        return (
            same
            and (row.target, row.level) == (asked.definition, level)
            and self.table.files(row.candidate) == asked.files
        )


def conditions(device: str, case: str) -> str:
    """What the row of a workload says of how it is run."""
    return f"{PREFIX} {device} {case}"


def placed(row: Row) -> tuple[str, str]:
    """Device and case of a row."""
    _, device, case = row.conditions.split(" ", 2)
    return device, case
