"""Where a person reads a run, a busy machine stands there: Trust's headline, the history, exports, a suite's tally."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine import paths
from aisp.engine.trust import listing
from aisp.store import History
from aisp.store.results.reading import Reading
from aisp.store.results.regression import row
from aisp.tui import sharing
from aisp.tui.cli import checks, suite_rows
from aisp.tui.cli.follow import result_lines
from aisp.tui.cli.suite_rows import Result
from tests.replacing import replace
from tests.store.examples import beside_others, finding, finished, planned
from tests.store.test_regression import night
from tests.tui.app_support import keep, make_link, opened, screen_text, until
from tests.tui.live_support import isolate

FIGURES = "threads waited 84% of the time, others kept 1.7 of 2 processors busy"
CHECKS = (finding("timing.wall_clock", "optimized"),)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def kept(*, loud: bool) -> str:
    """A run of the store, on a busy machine or a quiet one, by its id."""
    like = finished(planned())
    arms = (beside_others(like) if loud else like).arms
    return keep(paths.state_dir(), device="cpu", case="cpu", arms=arms, findings=CHECKS).id


@pytest.mark.parametrize("loud", [True, False])
async def test_the_headline_of_trust(loud: bool, tmp_path: Path) -> None:
    run_id = kept(loud=loud)
    async with opened(tmp_path, size=(200, 50), link=make_link(told=False)) as (app, pilot):
        app.open_screen("trust", run_id=run_id)
        said = f"valid · busy machine · 1 checks: 1 passed · {FIGURES}" if loud else "valid · 1 checks: 1 passed"
        await until(pilot, lambda: said in "\n".join(screen_text(app).splitlines()[:3]))
        assert ("busy" in screen_text(app)) is loud


@pytest.mark.parametrize("loud", [True, False])
def test_exports_and_the_line_of_a_pull_request(loud: bool) -> None:
    run_id = kept(loud=loud)
    with History(paths.database_file()) as history:
        told = sharing.read(history, run_id)
        forms = [sharing.line(told), sharing.markdown(told).splitlines()[0], sharing.checks(told), sharing.page(told)]
    for text in forms:
        assert (f"the machine was busy ({FIGURES})" in text) is loud
        assert ("busy" in text) is loud


@pytest.mark.parametrize("loud", [True, False])
def test_the_trust_part_of_a_run_in_the_history(loud: bool) -> None:
    run = finished(planned(), findings=CHECKS)
    lines = result_lines(Reading(beside_others(run) if loud else run))
    assert (f"the machine was busy ({FIGURES})" in lines) is loud
    reading = Reading(beside_others(run) if loud else run)
    last = checks.lines(checks.rows_of(listing(), reading), reading, width=None)[-1]
    assert (", busy machine: 1 passed" in last) is loud


def test_the_tally_of_a_suite_counts_the_targets() -> None:
    quiet, loud = night(25), night(25)
    loud = replace(loud, run=Reading(beside_others(loud.run.record)))

    def last(*rows: object) -> str:
        result = Result(rows=list(rows), machine={})  # type: ignore[arg-type]
        return suite_rows.lines(result, (), name="mine", quick=False, width=None)[-1]

    assert last(row("a:quiet", [quiet])) == "=> against earlier runs: 1 run for the first time"
    assert last(row("a:quiet", [quiet]), row("b:loud", [loud])) == (
        "=> against earlier runs: 2 run for the first time; 1 on a busy machine"
    )
