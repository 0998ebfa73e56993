"""Turns a run's events into its record, step by step, until the record itself comes with its end; and into its pace."""

from __future__ import annotations

import msgspec

from aisp.engine.protocol import events
from aisp.store.outcomes import State
from aisp.store.record import Run
from aisp.store.results.progress import Pace


def after(run: Run, event: events.Event) -> Run:
    """The run as it is known after one of its events. A run that has ended does not change any more.

    Raises:
        ContradictionError: the event cannot be true of this run.
    """
    if run.state.final:
        return run
    match event:
        case events.RunPlanned():
            return event.run
        case events.RunFinished() if event.run.arms:
            return event.run
        case events.RunFinished():  # it never began, or could not be stored: what was known of it is all there is
            progress = {"arms": run.arms, "comparisons": run.comparisons, "steps": run.steps}
            return msgspec.structs.replace(event.run, **progress)
        case events.RunState() if not event.state.final:  # an end comes with the record
            start_ns = event.at_ns if run.start_ns is None and event.state is not State.PLANNED else run.start_ns
            return msgspec.structs.replace(run, state=event.state, start_ns=start_ns)
        case events.Step():
            begun = run if run.start_ns is not None else msgspec.structs.replace(run, start_ns=event.step.start_ns)
            return begun.with_step(event.step)
        case events.ArmUpdate():
            return run.with_arm(event.arm)
        case events.ComparisonUpdate():
            return run.with_comparison(event.comparison)
    return run


def pace(run_pace: Pace, event: events.Event) -> None:
    """Note in a run's pace what one of its events says of its time."""
    match event:
        case events.RunPlanned():
            run_pace.expected_s, run_pace.expected_processes = event.expected_s, event.expected_processes
        case events.RunState() if event.process:
            run_pace.begun_ns.setdefault(event.process, event.at_ns)
