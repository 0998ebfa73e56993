"""What a run's events make of its record: the same for everybody who follows it, and at its end the stored one."""

from __future__ import annotations

from aisp.engine.following import after
from aisp.store.outcomes import State
from aisp.store.record import unplanned
from tests import heard
from tests.tui.fakes import quick_run_events


def test_the_events_of_a_run_make_its_record_and_its_end_is_the_record() -> None:
    story = quick_run_events()
    run = unplanned("R1")
    for event in story[:-1]:
        if getattr(event, "run_id", ""):
            run = after(run, event)
    assert run.state is State.RUNNING
    end = story[-1].run  # type: ignore[attr-defined]
    assert (run.arms, run.comparisons, run.target) == (end.arms, end.comparisons, end.target)
    assert after(run, story[-1]) is end


def test_what_has_ended_does_not_change_and_an_end_comes_with_the_record_alone() -> None:
    run = after(unplanned("R1"), heard.state(run_id="R1", state="running", at_ns=7))
    assert (run.state, run.start_ns) == (State.RUNNING, 7)
    assert after(run, heard.state(run_id="R1", state="cancelled", at_ns=9)) is run
    ended = after(run, heard.finished(run_id="R1", state="cancelled", reason="asked for"))
    assert after(ended, heard.arm(run_id="R1", arm="a", state="running")) is ended


def test_a_run_that_is_heard_of_in_the_middle_begins_with_its_first_step() -> None:
    run = after(unplanned("R1"), heard.step(run_id="R1", name="measure", arm="", start_ns=5))
    assert (run.start_ns, [step.name for step in run.steps]) == (5, ["measure"])


def test_an_end_that_tells_of_no_arm_leaves_what_was_known_of_them() -> None:
    """A run that was cancelled before it began, or whose result could not be stored."""
    run = after(unplanned("R1"), heard.arm(run_id="R1", arm="optimized", state="running", median_ms=2.0))
    ended = after(run, heard.finished(run_id="R1", state="infra_error", reason="the disk is full"))
    assert (ended.state, ended.reason, ended.arms) == (State.INFRA_ERROR, "the disk is full", run.arms)
