"""Reading the store for commands: errors as messages, and records as the same `RunView` that the live stream
fills.

Imports the store and with it numpy; commands import this module when they need an earlier run, not before.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping

import click

from aisp.engine import paths, telling
from aisp.engine.clean import clean_line
from aisp.engine.protocol import events
from aisp.store import History
from aisp.store.errors import StoreError
from aisp.store.records import ContradictionError, RunRecord
from aisp.tui.cli import NotHereError
from aisp.tui.commands import common, quarantine
from aisp.tui.commands.follow import RunView
from aisp.tui.commands.quarantine import Mark, Marks
from aisp.tui.earlier import environment as environment


@contextlib.contextmanager
def history() -> Iterator[History]:
    """The store, open for reading; what it cannot do becomes a message with the right exit status."""
    with History(paths.database_file()) as opened:
        try:
            yield opened
        except LookupError as error:
            # KeyError and IndexError are ours to repair, not the person's.
            if type(error) is not LookupError:
                raise
            raise click.UsageError(clean_line(str(error), limit=2000)) from None
        except (StoreError, ContradictionError) as error:
            raise NotHereError(str(error)) from None
    for run_id, why in opened.damaged.items():
        common.note(f"aisp: warning: run {run_id} is damaged and left out: {clean_line(why)}")


def marks() -> Marks:
    """Every mark on a rung in the store. Raises NotHereError where it cannot be read."""
    try:
        return quarantine.read(paths.database_file())
    except sqlite3.Error as error:
        raise NotHereError(f"marks on rungs cannot be read from {paths.database_file()}: {error}") from None


def view(record: RunRecord, kept: Marks) -> RunView:
    """A stored run in the form that tables and JSON are made from. The reader has taken out the figures of rungs that
    are marked."""
    without = record.manifest.get("without")
    run = RunView(
        id=record.id,
        target=record.target,
        title=record.title,
        device=record.device,
        case=record.case,
        quick=record.quick,
        snapshot=record.snapshot,
        wall=record.wall,
        state=record.state,
        findings=telling.findings_event(record).items,
        quarantined=quarantined(record, kept),
        policy=str(record.manifest.get("validity") or "strict"),
        without=[str(check) for check in without] if isinstance(without, (list, tuple)) else [],
    )
    for arm in record.arms:
        held = run.arm(arm.rung)
        held.samples_seen = arm.sample_count
        held.known = telling.arm_event(record.id, arm)
    for other in record.comparisons:
        run.comparisons[other.rung, other.baseline] = telling.comparison_event(record.id, other)
    for step in record.steps:
        run.steps.append(
            events.Step(
                run_id=record.id,
                name=step.name,
                arm=step.arm,
                start_ns=step.start_ns,
                duration_ms=step.duration_ms,
            )
        )
    if record.state.final:
        run.finished = telling.finished_event(record)
    return run


def quarantined(record: RunRecord, kept: Marks) -> dict[str, Mark]:
    """Rungs of a run that other runs of the same code had caught, beside those that it caught itself."""
    rungs = {arm.rung for arm in record.arms}
    found = kept.of_code(record.folder, record.manifest)
    return {name: mark for name, mark in found.items() if name in rungs and mark.run_id != record.id}


def finished_view(run_id: str) -> RunView | None:
    """The stored run of that id as a view, None where it has not ended or is not there."""
    with history() as opened:
        try:
            record = opened.run(run_id)
        except LookupError:
            return None
    return view(record, marks()) if record.state.final else None


def flat(value: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A nested mapping with dotted keys; lists are numbered."""
    found: dict[str, object] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            found |= flat(item, f"{name}.")
        elif isinstance(item, (list, tuple)):
            found |= flat({str(i): part for i, part in enumerate(item)}, f"{name}.")
        else:
            found[name] = item
    return found
