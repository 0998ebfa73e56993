"""That the machine was busy is a state of a run: one rule says so, from its record, for the line, pages and suites."""

from __future__ import annotations

import pytest

from aisp.store.record import BUSY, Quality
from aisp.store.results import busy, dashboards, suite_documents, telling
from aisp.store.results.reading import Reading
from aisp.store.results.regression import row
from tests.replacing import replace
from tests.store.examples import beside_others, finished, planned
from tests.store.test_regression import night
from tests.store.test_suite_package import a_pass

FIGURES = "threads waited 84% of the time, others kept 1.7 of 2 processors busy"


def test_a_run_is_told_by_the_arm_that_met_most() -> None:
    met = busy.of_run(beside_others(finished(planned())))
    assert met is not None
    assert (busy.figures(met), busy.sentence(met)) == (FIGURES, f"the machine was busy ({FIGURES})")
    assert busy.figures(replace(met, stolen_share=0.2)) == f"{FIGURES}, the hypervisor took 20%"
    assert busy.figures(replace(met, waited_share=None, others_cores=None)) == ""


@pytest.mark.parametrize(
    "quality",
    [None, Quality(), Quality(busy_factor=1.0), Quality(busy_factor=1 + BUSY, waited_share=0.01)],
    ids=["a GPU", "a record of before", "nobody", "as little as housekeeping"],
)
def test_a_quiet_machine_says_nothing(quality: Quality | None) -> None:
    run = finished(planned())
    quiet = replace(run, arms=tuple(replace(arm, quality=quality) for arm in run.arms))
    assert busy.of_run(quiet) is None
    assert telling.line(Reading(quiet), {}) == telling.line(Reading(run), {})
    assert busy.MACHINE not in dashboards.smaller_is_better(Reading(quiet), "a CPU")[-1]["extra"]
    assert busy.tally(0) == ""


def test_the_one_line_and_a_dashboards_row_say_it() -> None:
    run = Reading(beside_others(finished(planned())))
    assert f", floor 0.4 %, the machine was busy ({FIGURES}), run {run.id}" in telling.line(run, {})
    assert dashboards.smaller_is_better(run, "a CPU")[-1]["extra"].endswith(f"faster, {busy.MACHINE}")


def test_a_suites_documents_name_the_targets_that_ran_on_a_busy_machine() -> None:
    quiet, loud = night(25), night(25)
    loud = replace(loud, run=Reading(beside_others(loud.run.record)))
    rows = [row("ch07:quiet", [quiet]), row("ch08:loud", [loud]), row("ch09:out", [loud], left_out="not here")]
    summary = suite_documents.summary(a_pass(), rows)
    assert summary["busy"] == suite_documents.regressions(a_pass(), rows)["busy"] == ["ch08:loud"]
    assert "2 run for the first time, 1 left out; 1 on a busy machine." in suite_documents.regression_markdown(
        a_pass(), rows
    )
    assert summary["geometric_mean"]["count"] == 2  # it counts as any other
    assert "busy" not in suite_documents.regression_markdown(a_pass(), rows[:1])
