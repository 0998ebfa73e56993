"""`aisp bench jobs` and `aisp bench cancel` against a fake engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.engine import lock
from aisp.engine.protocol import requests
from aisp.tui.cli.tree import cli
from tests.tui.fake_engine import FakeEngine, isolate, spawn


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *words])


def test_where_no_engine_runs_nothing_is_queued_and_nothing_is_started() -> None:
    shown = bench("jobs")
    assert (shown.exit_code, shown.stdout) == (0, "nothing is queued\n")
    assert json.loads(bench("jobs", "--json").stdout) == {"schema": 1, "jobs": []}
    ended = bench("cancel", "01RUN")
    assert (ended.exit_code, ended.stdout) == (1, "nothing was cancelled\n")
    assert "no job '01RUN' is queued or under way" in ended.stderr
    assert lock.holder() is None


def test_jobs_are_listed_in_the_order_in_which_they_are_carried_out() -> None:
    with FakeEngine() as fake:
        fake._runs |= {"01RUN": "mine:one", "02RUN": "mine:two"}
        shown = bench("jobs")
        told = json.loads(bench("jobs", "--json").stdout)["jobs"]
    assert shown.exit_code == 0
    head, first, second = shown.stdout.splitlines()
    assert head.split() == ["target", "what", "state", "device", "from", "for", "takes", "some", "job"]
    assert first.split() == ["0", "mine:one", "quick", "run", "running", "cpu", "cli", "1.0", "s", "12.0", "s", "01RUN"]
    assert second.split()[:2] == ["1", "mine:two"]
    assert [(job["place"], job["run_id"], job["kind"]) for job in told] == [(0, "01RUN", "run"), (1, "02RUN", "run")]
    assert (told[0]["elapsed_s"], told[0]["expected_s"]) == (1.0, 12.0)


def test_a_job_is_cancelled_by_the_beginning_of_its_id_and_others_stay() -> None:
    with FakeEngine() as fake:
        fake._runs |= {"01RUN": "mine:one", "02RUN": "mine:two"}
        shown = bench("cancel", "01")
        asked = [request.run_id for request in fake.requests if isinstance(request, requests.Cancel)]
        left = dict(fake._runs)
    assert (shown.exit_code, shown.stdout) == (0, "cancelled 01RUN\n")
    assert (asked, left) == (["01RUN"], {"02RUN": "mine:two"})


def test_what_names_no_one_job_is_told_and_the_rest_is_ended() -> None:
    with FakeEngine() as fake:
        fake._runs |= {"01RUN": "mine:one", "02RUN": "mine:two"}
        shown = bench("cancel", "0", "02RUN", "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout) == {"schema": 1, "cancelled": ["02RUN"], "missing": ["0"]}  # "0" begins both


def test_all_are_ended_only_where_that_is_asked_for() -> None:
    with FakeEngine() as fake:
        fake._runs |= {"01RUN": "mine:one", "02RUN": "mine:two"}
        assert bench("cancel").exit_code == bench("cancel", "--all", "01RUN").exit_code == 2
        assert len(fake._runs) == 2
        shown = bench("cancel", "--all")
        assert not fake._runs
    assert (shown.exit_code, shown.stdout) == (0, "cancelled 01RUN\ncancelled 02RUN\n")


@pytest.mark.parametrize("words", [["jobs"], ["cancel", "--all"]])
def test_an_engine_that_does_not_answer_is_not_taken_for_none(words: list[str]) -> None:
    process = spawn("deaf")
    try:
        shown = bench(*words)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert (shown.exit_code, shown.stdout) == (3, "")
    assert f"(pid {process.pid}) and cannot be reached" in shown.stderr
