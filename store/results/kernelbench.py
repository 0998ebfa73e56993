"""A run as a record of KernelBench's `eval_results.json`, for tools that read those.

    {"12": [{"sample_id": 0, "compiled": true, "correctness": true, "runtime": 1.9, "runtime_stats": {...}, ...}]}

Times are means in ms, as there, over the samples that count, and -1 for none, also where they are not to be believed. A
rung that was caught is not correct: its record has no other place for it. What the format has no word for, the verdict
with its interval, the run's id and why, stands under "aisp" in the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aisp.store.results import outcome, traces
from aisp.store.results.tables import attributes

if TYPE_CHECKING:
    from aisp.store.record import Arm
    from aisp.store.results.reading import Reading

NO_TIME = -1.0
_OURS = ("run", "target", "rung", "verdict", "why", "speedup", "interval", "judged")
_PROBLEM = re.compile(r"(?:.*problem_)?(\d{1,6})(?:[_-]|\Z)")
_SAMPLE = re.compile(r"(?:.*_)?sample_(\d{1,6})\Z")

Stats = Mapping[str, float]
"""Of an arm's kept samples in ms: mean, std, min, max and num_trials."""


def document(run: Reading, stats: Mapping[str, Stats], hardware: str) -> dict[str, list[dict[str, Any]]]:
    """The run's rungs as samples of one problem: its number, or the target's id where it has none.

    Args:
        stats: by rung, of those whose figures may be shown.
        hardware: the machine, in words.
    """
    chapter, _, name = run.record.target.partition(":")
    problem, sample = _PROBLEM.match(chapter), _SAMPLE.match(name)
    first = int(sample[1]) if sample else 0
    rungs = [arm for arm in run.record.arms if not arm.twin and arm.rung != run.baseline]
    samples = [_sample(run, arm, first + index, stats, hardware) for index, arm in enumerate(rungs)]
    return {str(int(problem[1])) if problem else run.record.target: samples}


def _sample(run: Reading, arm: Arm, number: int, stats: Mapping[str, Stats], hardware: str) -> dict[str, Any]:
    ended = outcome.of(run, arm.rung)
    believed = stats if ended.outcome.believed else {}
    own, reference = (believed.get(rung, {}) for rung in (arm.rung, run.baseline))
    ours = traces.ours(run, arm, {})
    return {
        "sample_id": number,
        # What ended late or took its context along was imported, though its outputs were never judged.
        "compiled": arm.correctness.known or arm.state.late,
        "correctness": ended.outcome.right,
        "metadata": {
            "hardware": hardware,
            "device": run.record.device,
            "aisp": {name: ours[name] for name in _OURS} | attributes(arm, "state", "correctness"),
        },
        "runtime": own.get("mean", NO_TIME),
        "runtime_stats": dict(own),
        "ref_runtime": reference.get("mean", NO_TIME),
        "ref_runtime_stats": dict(reference),
    }
