"""A run as a JSON document, the same for the command line and for the doors."""

from __future__ import annotations

from typing import Any

import msgspec

from aisp.store.results import outcome
from aisp.store.results.reading import Reading, of_quarantine
from aisp.store.text import clean_line

SCHEMA = 2
"""Of a run as JSON; docs/commands.md says what changed with each."""


def run_json(run: Reading) -> dict[str, Any]:
    """A run for JSON: its record, the comparisons as they may be shown, what became of it and of each rung in a word,
    and what is held against its rungs.

    Names that schema 1 had for the same stand beside: `run_id`, `status`, an arm's `status` and `samples`.
    """
    record = run.record
    document: dict[str, Any] = msgspec.to_builtins(record, builtin_types=(bytes,))
    for arm, arm_record in zip(document["arms"], record.arms, strict=True):
        word = outcome.of(run, arm_record.rung).word
        arm |= {"status": arm["state"], "outcome": word, "samples": arm["sample_count"]}
        if arm_record.naive is not None:
            arm["naive"]["speedup"] = arm_record.naive.speedup
    return {
        "schema": SCHEMA,
        "run_id": record.id,
        "status": record.state.value,
        "outcome": outcome.of_run(run).word,
        **document,
        "folder": clean_line(record.folder),
        "comparisons": msgspec.to_builtins(run.comparisons),
        "policy": record.policy,
        "without": list(record.without),
        "quarantined": [of_quarantine(held).as_json() for held in run.quarantined.values()],
    }
