"""`aisp jobs` against a fake engine."""

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
    return CliRunner().invoke(cli, [*words])


def test_where_no_engine_runs_nothing_is_queued_and_nothing_is_started() -> None:
    shown = bench("jobs")
    assert (shown.exit_code, shown.stdout) == (0, "nothing is queued\n")
    assert json.loads(bench("jobs", "--json").stdout) == {"schema": 1, "jobs": []}
    ended = bench("jobs", "--cancel", "01RUN")
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
    assert head.split() == ["target", "what", "state", "device", "asked", "by", "for", "takes", "begins", "job"]
    assert first.split()[:6] == ["mine:one", "quick", "run", "running", "cpu", "command"]
    assert first.split()[-4:] == ["60", "min", "-", "01RUN"]
    assert " ".join(second.split()) == "1 mine:two quick run waiting cpu command line - 60 min in 60 min 02RUN"
    assert [(job["place"], job["run_id"], job["kind"]) for job in told] == [(0, "01RUN", "run"), (1, "02RUN", "run")]
    assert told[0]["elapsed_s"] >= 0 and told[0]["starts_in_s"] is None
    assert told[1]["elapsed_s"] is None and 3000 < told[1]["starts_in_s"] <= 3600
    assert {job["expected_s"] for job in told} == {3600.0}


def test_a_job_that_waits_is_moved_up_and_the_list_shows_it() -> None:
    with FakeEngine() as fake:
        fake._runs |= {"01RUN": "mine:one", "02RUN": "mine:two", "03RUN": "mine:three"}
        shown = bench("jobs", "--up", "03")
        again = bench("jobs", "--up", "03RUN")
        nobody = bench("jobs", "--up", "07RUN", "--json")
        asked = [request.run_id for request in fake.requests if isinstance(request, requests.MoveUp)]
    assert (shown.exit_code, asked) == (0, ["03RUN", "03RUN"])
    assert [line.split()[-1] for line in shown.stdout.splitlines()[1:]] == ["01RUN", "03RUN", "02RUN"]
    assert again.exit_code == 1
    assert again.stderr == "aisp: 03RUN was not moved up: it is the first of those that wait already\n"
    assert nobody.exit_code == 1 and len(json.loads(nobody.stdout)["jobs"]) == 3
    assert "07RUN was not moved up: no job of that name is queued or under way" in nobody.stderr


def test_without_an_engine_there_is_no_job_to_move_up() -> None:
    shown = bench("jobs", "--up", "01RUN")
    assert (shown.exit_code, shown.stdout) == (1, "nothing is queued\n")
    assert lock.holder() is None


def test_a_job_is_cancelled_by_the_beginning_of_its_id_and_others_stay() -> None:
    with FakeEngine() as fake:
        fake._runs |= {"01RUN": "mine:one", "02RUN": "mine:two"}
        shown = bench("jobs", "--cancel", "01")
        asked = [request.run_id for request in fake.requests if isinstance(request, requests.Cancel)]
        left = dict(fake._runs)
    assert (shown.exit_code, shown.stdout) == (0, "cancelled 01RUN\n")
    assert (asked, left) == (["01RUN"], {"02RUN": "mine:two"})


def test_what_names_no_one_job_is_told_and_the_rest_is_ended() -> None:
    with FakeEngine() as fake:
        fake._runs |= {"01RUN": "mine:one", "02RUN": "mine:two"}
        shown = bench("jobs", "--cancel", "0", "02RUN", "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout) == {"schema": 1, "cancelled": ["02RUN"], "missing": ["0"]}  # "0" begins both


def test_all_are_ended_only_where_that_is_asked_for() -> None:
    with FakeEngine() as fake:
        fake._runs |= {"01RUN": "mine:one", "02RUN": "mine:two"}
        assert bench("jobs", "--cancel").exit_code == bench("jobs", "--cancel", "--all", "01RUN").exit_code == 2
        assert len(fake._runs) == 2
        shown = bench("jobs", "--cancel", "--all")
        assert not fake._runs
    assert (shown.exit_code, shown.stdout) == (0, "cancelled 01RUN\ncancelled 02RUN\n")


@pytest.mark.parametrize("words", [["jobs"], ["jobs", "--cancel", "--all"]])
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
