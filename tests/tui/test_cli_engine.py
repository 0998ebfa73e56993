"""`aisp engine` against a fake engine, in this process and in one of its own."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.engine import lock, paths
from aisp.engine.client import build_id
from aisp.engine.protocol import events, requests
from aisp.tui.cli.engine import following, tail
from aisp.tui.cli.tree import cli
from tests.tui.fake_engine import FakeEngine, isolate, spawn, start_aisp, wait_for


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes to end whatever the test does."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def engine(*words: str) -> Result:
    return CliRunner().invoke(cli, ["engine", *words])


def test_status_ends_with_1_where_none_runs() -> None:
    shown = engine()
    assert shown.exit_code == 1
    assert "no engine is running" in shown.stdout
    assert json.loads(engine("--json").stdout)["running"] is False


def test_status_shows_devices_queue_and_watches() -> None:
    with FakeEngine() as fake:
        fake._runs["01RUN"] = "mine:one"
        fake.watched["mine:two"] = "/home/ada/mine"
        shown = engine()
        jobs = CliRunner().invoke(cli, ["jobs"]).stdout
        told = json.loads(engine("--json").stdout)
    assert shown.exit_code == 0
    assert f"engine running: pid {os.getpid()}" in shown.stdout
    assert "up 1 h 02 min, 48.0 MiB, 1 warm workers" in shown.stdout
    assert "CPU: a CPU of 8 cores" in shown.stdout
    assert "no GPU: NVML 12: library not found" in shown.stdout
    row = jobs.splitlines()[1].split("\t")
    assert row[1:6] == ["mine:one", "quick run", "running", "cpu", "command line"]
    assert re.search(r"  +".join([*row[1:6], ".*", row[-1]]), shown.stdout), "it draws the list of `aisp jobs`"
    assert "watching mine:two: 3 edits, /home/ada/mine" in shown.stdout
    assert (told["running"], told["pid"], told["build"], told["same_build"]) == (True, os.getpid(), build_id(), True)
    assert told["queue"][0]["target"] == "mine:one"
    assert told["devices"][0]["index"] == -1


def test_status_says_when_the_engine_is_older_than_the_program() -> None:
    with FakeEngine() as fake:
        fake.build = "000000000000"
        assert "of another build than this program; `aisp engine --stop --when-idle`" in engine().stdout
        fake.protocol += 1
        assert "speaks protocol" in engine().stdout
        assert fake.requests == [requests.GetStatus(seq=1)]  # none to the one of another protocol


def test_start_finds_the_one_that_runs() -> None:
    with FakeEngine():
        shown = engine("--start")
        told = json.loads(engine("--start", "--json").stdout)
    assert shown.exit_code == 0
    assert f"engine already running: pid {os.getpid()}" in shown.stdout
    assert (told["started"], told["pid"], told["running"]) == (False, os.getpid(), True)


def test_stop_without_an_engine_has_reached_its_aim() -> None:
    shown = engine("--stop")
    assert (shown.exit_code, shown.stdout) == (0, "no engine was running\n")
    assert json.loads(engine("--stop", "--json").stdout) == {
        "schema": 1,
        "stopped": False,
        "pid": None,
        "forced": False,
    }


def test_stop_waits_until_the_engine_is_gone(processes: list[subprocess.Popen[str]]) -> None:
    process = spawn()
    processes.append(process)
    shown = engine("--stop", "--json")
    assert shown.exit_code == 0
    assert json.loads(shown.stdout) == {"schema": 1, "stopped": True, "pid": process.pid, "forced": False}
    assert process.wait(0.5) == 0
    assert paths.find_socket() is None


def test_stop_when_idle_asks_for_just_that() -> None:
    with FakeEngine() as fake:
        # The fake lives in this process, which does not end: leave when it was asked.
        process = start_aisp("engine", "--stop", "--when-idle")
        wait_for(lambda: bool(fake.asked(requests.Shutdown)), "the request")
        assert fake.asked(requests.Shutdown)[0].when_idle is True
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


def test_stop_reaches_an_engine_of_another_version(processes: list[subprocess.Popen[str]]) -> None:
    processes.append(spawn("other"))
    assert engine("--stop").exit_code == 0
    assert processes[0].wait(0.5) == 0


@pytest.mark.slow
def test_a_deaf_engine_is_named_and_force_kills_it(processes: list[subprocess.Popen[str]]) -> None:
    process = spawn("deaf")
    processes.append(process)
    held = lock.holder()
    assert held is not None and (held.pid, held.here) == (process.pid, True)
    asked = engine("--stop")
    assert asked.exit_code == 3
    assert f"pid {process.pid} does not answer" in asked.stderr
    assert "`aisp engine --stop --force`" in asked.stderr
    assert engine().exit_code == 3
    assert process.poll() is None
    forced = engine("--stop", "--force", "--json")
    assert json.loads(forced.stdout) == {"schema": 1, "stopped": True, "pid": process.pid, "forced": True}
    assert process.wait(0.5) == -signal.SIGKILL


def test_force_never_kills_a_process_that_does_not_hold_the_lock(processes: list[subprocess.Popen[str]]) -> None:
    bystander = subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE, text=True)
    processes.append(bystander)
    paths.lock_file().write_text(f"{bystander.pid}\n")
    with paths.lock_file().open("r") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # locked, but by us and not by the process whose number stands there
        found = lock.holder()
        assert found is not None and not found.here
        shown = engine("--stop", "--force")
    assert (shown.exit_code, shown.stdout) == (3, "")
    assert "is in use by the engine with pid" in shown.stderr and "which cannot be seen from here" in shown.stderr
    assert bystander.poll() is None


def test_force_and_when_idle_together_are_wrong_usage() -> None:
    assert engine("--stop", "--force", "--when-idle").exit_code == 2


def test_logs_of_an_engine_that_is_gone_can_be_read_and_are_cleaned() -> None:
    lines = [f"line {number}" for number in range(100)] + ["an \x1b]0;evil\x07 line", "not \udcff text"]
    paths.log_file().write_bytes("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n")
    shown = engine("--logs", "--lines", "3")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == ["line 99", "an ␛]0;evil␇ line", "not \\xff text"]
    told = [json.loads(line) for line in engine("--logs", "--lines", "2", "--json").stdout.splitlines()]
    assert told[1] == {"schema": 1, "line": "not \\xff text"}


def test_logs_before_there_is_one_end_with_1() -> None:
    shown = engine("--logs")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "there is no log yet" in shown.stderr


def test_the_tail_of_a_long_log_is_found_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{number:05d} {'x' * 90}\n" for number in range(5000)))
    assert [line[:5] for line in tail(log, 1500)] == [f"{number:05d}" for number in range(3500, 5000)]
    assert len(tail(log, 100_000)) == 5000
    assert tail(log, 0) == []


def test_following_goes_on_through_a_log_that_is_cut_or_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\n")
    lines = following(log, 4)
    with log.open("a") as more:
        more.write("one\ntwo, half")
    assert next(lines) == "one"
    with log.open("a") as more:
        more.write(" and whole\n")
    assert next(lines) == "two, half and whole"
    log.write_text("cut\n")
    assert next(lines) == "cut"
    (tmp_path / "new").write_text("replaced by a longer one\n")
    (tmp_path / "new").rename(log)
    assert next(lines) == "replaced by a longer one"


def test_logs_follow_prints_what_is_added_until_ctrl_c() -> None:
    paths.log_file().write_text("first\n")
    process = start_aisp("engine", "--logs", "--follow")
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    with paths.log_file().open("a") as log:
        log.write("second\n")
    assert process.stdout.readline() == "second\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_banners_of_the_engine_reach_the_person_who_runs(tmp_path: Path) -> None:
    from tests.tui.fake_engine import make_target

    make_target(tmp_path / "mine", "one")
    with FakeEngine() as fake:
        fake.outcomes["mine:one"] = "hang"
        process = start_aisp("run", "--targets", "mine:one", "--root", str(tmp_path / "mine"))
        wait_for(lambda: bool(fake.asked(requests.StartRuns)), "the request")
        fake.publish(events.Banner(key="disk", text="the disk is full \x1b[2J", severity="error"))
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any(line == "aisp: error: the disk is full ␛[2J\n" for line in lines)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
