"""A run as Trace lines of FlashInfer-Bench or SOL-ExecBench, for tools that read those.

    {"definition": "rmsnorm_d128", "workload": {"uuid": ..., "axes": {...}, "inputs": {...}}, "solution": "fast_v1",
     "evaluation": {"status": "PASSED", "environment": {...}, "correctness": {...}, "performance": {...}, ...}}

A line for each rung beside the baseline, but for one whose times are suspect: PASSED claims a time. Of a target that
was made of a definition, definition, workload and solution are its own, read from the sources that ran; of any other
they are the target, the case and the rung. `latency_ms` is our median, and `speedup_factor` is there with a verdict of
FASTER or SLOWER alone. Both formats take NaN for errors: ours is in units of the tolerance, and stands with all else
of ours (the verdict, its interval, what was caught) in `correctness.extra`. Where they allow no correctness, for a run
that ended in an error, the reason stands in the log.
"""

from __future__ import annotations

import ast
import contextlib
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisp.kernels.catalog.formats.trace_definition import Harness
from aisp.kernels.catalog.formats.trace_target import SOLUTION, WORKLOADS
from aisp.kernels.catalog.parsing import REFUSALS, parsed
from aisp.store.outcomes import FindingStatus
from aisp.store.results import hardware, numbers, outcome
from aisp.store.results.dashboards import NothingError
from aisp.store.results.outcome import Outcome

if TYPE_CHECKING:
    from aisp.store.record import Arm
    from aisp.store.results.reading import Reading

UNKNOWN_ERROR = "NaN"
"""How both formats write an error that is no number."""


class Status(enum.StrEnum):
    """How an evaluation ended, as they call it, and as `aisp serve` does."""

    PASSED = "PASSED"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"  # of what was never run
    TIMEOUT = "TIMEOUT"
    REWARD_HACK = "REWARD_HACK"  # SOL-ExecBench alone


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, as the format names it.

    Attributes:
        workload: as the definition's own file has it.
        solutions: what their authors call them, by rung; one that is none is called as it is.
    """

    harness: Harness
    definition: str
    workload: Mapping[str, Any] = field(default_factory=dict)
    solutions: Mapping[str, str] = field(default_factory=dict)


def asked(run: Reading, sources: Mapping[str, bytes]) -> Asked:
    """What a run was about, from the sources that ran."""
    record = run.record
    found = _literals(sources.get(f"{WORKLOADS}.py", b""))
    told, rows = found.get("TRACE"), found.get("WORKLOADS")
    axes = record.manifest.get("axes")
    sizes = {str(name): size for name, size in axes.items()} if isinstance(axes, Mapping) else {}
    own = {"uuid": f"{record.target}/{record.case or 'default'}", "axes": sizes, "inputs": {}}
    if not (isinstance(told, dict) and {"dialect", "definition"} <= told.keys() and isinstance(rows, list) and rows):
        return Asked(Harness.FLASHINFER, record.target, own)
    row = next((row for row in rows if row.get("case") == record.case), rows[0])
    if record.case == "cpu" and sizes and _others(row, sizes):
        row = {"workload": own}  # a smaller one than any of the definition's
    called = {arm.rung: _literals(sources.get(f"{arm.rung}.py", b"")).get(SOLUTION) for arm in record.arms}
    solutions = {rung: name for rung, name in called.items() if isinstance(name, str) and name}
    return Asked(Harness(told["dialect"]), str(told["definition"]), row["workload"], solutions)


def _others(row: Mapping[str, Any], sizes: Mapping[str, Any]) -> bool:
    return any(sizes.get(name) != size for name, size in row["workload"]["axes"].items() if name in sizes)


def _literals(source: bytes) -> dict[str, Any]:
    """What a module's own assignments bind to literals, by name; empty where it cannot be read."""
    found: dict[str, Any] = {}
    try:
        tree = parsed(source)
    except REFUSALS:
        return {}
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(*REFUSALS, TypeError):
                found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def lines(run: Reading, about: Asked, facts: Mapping[str, object]) -> list[dict[str, Any]]:
    """The Trace lines of a run that has ended. Raises NothingError where there are none.

    Args:
        facts: what it ran on; empty where that was not kept.
    """
    rungs = [arm for arm in run.record.arms if not arm.twin and arm.rung != run.baseline]
    found = [
        (arm, status)
        for arm in rungs
        if (status := status_of(run, arm, about.harness)) is not None
        and (status is not Status.PASSED or arm.median_ms is not None)  # neither format has a pass without a time
    ]
    if not found:
        why = "; ".join(f"{arm.rung}: {silence(run, arm) or f'{arm.state.value}, and no time'}" for arm in rungs)
        raise NothingError(why or run.record.reason or "no rung stands beside the baseline")
    return [
        {
            "definition": about.definition,
            "workload": dict(about.workload),
            "solution": about.solutions.get(arm.rung, arm.rung),
            "evaluation": _with_errors(evaluation(run, arm, status, facts, {"aisp": ours(run, arm, facts)})),
        }
        for arm, status in found
    ]


def _with_errors(found: dict[str, Any]) -> dict[str, Any]:
    """With the errors that both formats require, which are none of ours."""
    if found["correctness"]:
        errors = {"max_relative_error": UNKNOWN_ERROR, "max_absolute_error": UNKNOWN_ERROR}
        found["correctness"] = errors | found["correctness"]
    return found


def status_of(run: Reading, arm: Arm, harness: Harness) -> Status | None:
    """How a rung ended, in the words of the format; None where these would say what is not known."""
    ended = outcome.of(run, arm.rung)
    if ended.cheated and harness is Harness.SOL:
        return Status.REWARD_HACK
    if ended.outcome is Outcome.FAILED and ended.state.timed_out:
        return Status.TIMEOUT
    return Status.PASSED if ended.outcome.believed else _STATUSES.get(ended.outcome)


def silence(run: Reading, arm: Arm) -> str:
    """Why nothing is said of a rung in the words of the format; "" where nothing was told."""
    ended = outcome.of(run, arm.rung)
    return f"{ended.words}: {outcome.doubt(run, ended)}" if ended.outcome is Outcome.SUSPECT else arm.reason


_STATUSES = {
    Outcome.WRONG: Status.INCORRECT_NUMERICAL,
    Outcome.CAUGHT: Status.RUNTIME_ERROR,
    Outcome.FAILED: Status.RUNTIME_ERROR,
}


def document(status: Status, wall: str, log: str, machine: str = "none", libs: Mapping[str, str] | None = None) -> Any:
    """An evaluation that says no more than how it ended."""
    return {
        "status": status.value,
        "environment": {"hardware": machine, "libs": libs or {}},
        "timestamp": wall or "unknown",
        "log": log,
        "correctness": None,
        "performance": None,
    }


def evaluation(run: Reading, arm: Arm, status: Status, facts: Mapping[str, object], extra: Mapping[str, Any]) -> Any:
    """What became of a rung, as both formats have it.

    Args:
        extra: what they have no field for.
    """
    record, bar, versions = run.record, run.bar(arm.rung), facts.get("versions")
    libs = {str(name): str(value) for name, value in versions.items()} if isinstance(versions, Mapping) else {}
    if facts.get("cuda"):
        libs["cuda"] = str(facts["cuda"])
    lines = [f"run {run.id} of aisp, {arm.rung}"]
    for text in (bar.sentence if bar is not None else "", arm.reason, arm.detail):
        lines += [text] if text and all(text not in earlier for earlier in lines) else []
    found = document(
        status, record.wall, "\n".join(lines), hardware.ran_on(record.device, facts) or record.device, libs
    )
    if status in (Status.PASSED, Status.INCORRECT_NUMERICAL):
        found["correctness"] = {"extra": dict(extra)}
    if status is Status.PASSED and arm.median_ms is not None:
        found["performance"] = _performance(run, arm, arm.median_ms)
    return found


def _performance(run: Reading, arm: Arm, median_ms: float) -> dict[str, float]:
    """What both formats say of the times of a rung that passed."""
    found = {"latency_ms": median_ms}
    base = run.arm(run.baseline)
    if base is not None and base.median_ms is not None and run.bar(base.rung) is None:
        found["reference_latency_ms"] = base.median_ms
    ended = outcome.of(run, arm.rung)
    if ended.item is not None and ended.item.speedup and ended.outcome in (Outcome.FASTER, Outcome.SLOWER):
        found["speedup_factor"] = ended.item.speedup
    return found


def ours(run: Reading, arm: Arm, facts: Mapping[str, object]) -> dict[str, Any]:
    """What the formats have no field for."""
    record, ended = run.record, outcome.of(run, arm.rung)
    item = ended.item if ended.outcome.compared else None
    shown = run.bar(arm.rung) is None and ended.outcome is not Outcome.SUSPECT
    why = item.note if item is not None else run.why(arm.rung)
    return {
        "run": run.id,
        "target": record.target,
        "rung": arm.rung,
        "case": record.case,
        "device": record.device,
        "mode": run.mode,
        "verdict": ended.verdict.value,
        "why": why or arm.reason,
        "speedup": item.speedup if item is not None else None,
        "interval": [item.low, item.high] if item is not None and item.low is not None else None,
        "floor": item.floor if item is not None else None,
        "judged": run.judged(item) if item is not None else "",
        "confined": hardware.confined(facts),
        "latency_interval_ms": [arm.low_ms, arm.high_ms] if shown and arm.low_ms is not None else None,
        "samples": arm.sample_count,
        "timing": arm.timing.value,
        "validity": record.validity.value,
        "max_error_in_tolerances": arm.max_error if numbers.known(arm.max_error) else None,
        "own_rule": None if arm.rule is None else {"name": arm.rule.name, "right": arm.rule.right},
        "findings": [
            f"{one.check}: {one.status.value}"
            for one in record.findings
            if one.arm in (arm.rung, "") and one.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT)
        ],
    }
