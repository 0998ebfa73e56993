"""`aisp serve`: solutions sent in and asked for, by clients that behave and by clients that do not."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest

from aisp.engine import lock, paths
from aisp.engine.doors import api, asking
from aisp.engine.doors.serve import (
    admission,
    app,
    bodies,
    clerk,
    definitions,
    evaluations,
    feed,
    problems,
    server,
    solutions,
    tasks,
)
from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.engine.protocol import events, requests
from aisp.kernels import catalog
from aisp.kernels.catalog.formats.trace_definition import Harness
from aisp.kernels.catalog.model import Kind as Reach
from aisp.kernels.catalog.model import Target
from aisp.store.candidates import Candidates
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from aisp.store.record import Quality
from aisp.store.results import traces
from aisp.store.results.reading import OF_OUTPUTS, Reading
from tests import heard
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.kernels.formats import trace
from tests.replacing import replace
from tests.store.examples import finding, planned
from tests.store.examples import finished as ended_well
from tests.tui.app_support import keep
from tests.tui.fake_engine import MAIN, FakeEngine, aisp, isolate, make_target, start_aisp, wait_for

CANDIDATE = api.CANDIDATE
GOOD = "def go(x):\n    return x + 1\n"


def solution(source: str = GOOD, *, path: str = "pkg/main.py", dps: bool = False, **spec: Any) -> dict[str, Any]:
    """A solution of the target `mine:one`, as a client sends it."""
    return {
        "name": "mine",
        "definition": "mine:one",
        "author": "ada",
        "spec": {
            "language": "python",
            "target_hardware": ["cuda"],
            "entry_point": f"{path}::go",
            "destination_passing_style": dps,
            **spec,
        },
        "sources": [{"path": path, "content": source}],
    }


class Engine(FakeEngine):
    """Runs of candidates end as `end` says, in the store as well; those that begin while it is "hang" do not end."""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self.state = state
        self.end = "ok"
        self.rung = CANDIDATE
        self.changes: dict[str, Any] = {}

    def _play(self, run_id: str, target: str) -> None:
        if self.end == "hang":
            return
        self._runs.pop(run_id, None)
        store_end(self.state, run_id, target, self.rung, **self.changes)
        self._broadcast(heard.finished(run_id=run_id, target=target, state="ok"))

    def adopt(self, other: FakeEngine) -> None:
        """Know the runs of another one, as an engine does whose client lost it for a moment."""
        self._runs.update(other._runs)


def of_candidate(rung: str = CANDIDATE, **changes: Any) -> dict[str, Any]:
    """Arms and comparison of a run whose rung is a candidate, faster than the baseline."""
    run = ended_well(planned())
    baseline, optimized = run.arms
    arms = (baseline, replace(optimized, rung=rung, **changes))
    return {"arms": arms, "comparisons": (replace(run.comparisons[0], rung=rung),)}


def store_end(state: Path, run_id: str, target: str, rung: str = CANDIDATE, **changes: Any) -> None:
    """Keep a run of a candidate that ended well."""
    keep(state, target, id=run_id, device="cpu", **of_candidate(rung), **changes)


SUSPECT: dict[str, Any] = {
    "findings": (finding("timing.wall_clock", CANDIDATE, "suspect", "0.4 ms by events, 9 ms by the clock"),),
    "validity": Validity.SUSPECT,
    "verdict": Verdict.NONE,
}


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A state directory whose lock is held, so that no client starts an engine of its own."""
    state = isolate(monkeypatch, tmp_path)
    make_target(tmp_path / "mine", "one")
    descriptor = lock.take()
    assert descriptor is not None
    yield state
    os.close(descriptor)


class Served:
    """`aisp serve` in a process of its own, and a client of it."""

    def __init__(self, root: Path, *words: str) -> None:
        self.process = start_aisp("serve", "--port", "0", "--json", "--root", str(root), *words)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        told = json.loads(line)
        self.url, self.token = str(told["url"]), Path(told["token_file"]).read_text().strip()
        self.client = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {self.token}"}, timeout=60, trust_env=False
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return httpx.URL(self.url).port or 0

    def evaluate(self, given: dict[str, Any] | None = None, **more: Any) -> str:
        """Send a solution in; the task's id."""
        answer = self.client.post("/evaluate", json={"solution": given or solution(), **more})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["task_id"])

    def task(self, task_id: str, timeout_s: float = 30) -> dict[str, Any]:
        """A task, at its end if that comes."""
        answer = self.client.get(f"/tasks/{task_id}", params={"timeout": timeout_s})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def close(self) -> int:
        """SIGTERM, and its exit status."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def judged(self, bodies: Mapping[str, dict[str, Any]], timeout_s: float) -> dict[str, dict[str, Any]]:
        """The task of each body, as for `evaluate`, at its end; and the end of the server."""
        try:
            sent_in = {name: self.evaluate(**body) for name, body in bodies.items()}
            return {name: self.task(task_id, timeout_s) for name, task_id in sent_in.items()}
        finally:
            assert self.close() == 0

    def kill(self) -> None:
        """kill -9."""
        self.client.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def served(state: Path, tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path / "mine")
    yield server
    if server.process.poll() is None:
        server.close()


def begun(served: Served, task_id: str, but: Collection[str] = ()) -> str:
    """The run of a task, once it has one that is not among those that are known."""
    wait_for(lambda: bool(set(served.task(task_id, 0)["run_ids"]) - set(but)), "the run")
    (run_id,) = served.task(task_id, 0)["run_ids"]
    return str(run_id)


def target_of(tmp_path: Path, **options: Any) -> Target:
    return write_target(tmp_path / "mine", {}, name="two", **options)


# -- a task, from a solution to its traces -----------------------------------------------------------------------------


def test_a_solution_becomes_a_task_that_is_asked_for_until_it_has_ended(state: Path, served: Served) -> None:
    with Engine(state) as engine:
        names = served.client.get("/definitions").json()
        assert [one["name"] for one in names] == ["mine:one"]
        (workload,) = served.client.get("/definitions/mine:one/workloads").json()
        assert served.client.get(f"/workloads/{workload['uuid']}").json() == workload
        asked = {"solution": solution(), "workload_uuids": [workload["uuid"]]}
        answer = served.client.post("/evaluate", json=asked).json()
        task = served.task(answer["task_id"])
        batch = served.client.post("/tasks/batch", json={"task_ids": [answer["task_id"]] * 2, "timeout": 0}).json()
        (started,) = engine.asked(requests.StartRuns)
        health = served.client.get("/health").json()
    assert (task["status"], task["error"], task["definition"]) == ("completed", None, "mine:one")
    assert task["solution"] == answer["normalized_solution_name"] and task["solution"].startswith("mine_")
    assert batch == [task, task]
    (trace,) = task["traces"]
    assert trace["workload"] == workload and trace["evaluation"]["status"] == "PASSED"
    assert trace["evaluation"]["performance"] == {
        "latency_ms": 0.5,
        "reference_latency_ms": 1.0,
        "speedup_factor": 2.0,
    }
    assert trace["evaluation"]["correctness"]["extra"]["run_id"] == task["run_ids"][0]
    assert (started.rungs, started.case) == ([CANDIDATE], "cpu")
    assert (health["status"], health["active_tasks"], health["total_workers"]) == ("ok", 0, 1)


def test_a_source_that_does_not_compile_costs_no_run(state: Path, served: Served) -> None:
    with Engine(state) as engine:
        task = served.task(served.evaluate(solution("def go(:\n")))
        assert engine.asked(requests.StartRuns) == []
    (trace,) = task["traces"]
    assert task["status"] == "completed" and trace["evaluation"]["status"] == "COMPILE_ERROR"
    assert "pkg/main.py:1" in trace["evaluation"]["log"]


def test_the_same_request_is_the_same_task_and_one_run(state: Path, served: Served) -> None:
    with Engine(state) as engine:
        engine.end = "hang"
        first, second = served.evaluate(), served.evaluate()
        wait_for(lambda: bool(engine.asked(requests.StartRuns)), "the run")
        assert first == second != served.evaluate(quick=True)
        wait_for(lambda: len(engine.asked(requests.StartRuns)) == 2, "the quick run")
        before = len(engine.asked(requests.GetStatus))
        assert {served.task(first, 0)["status"] for _ in range(20)} == {"running"}
        # No round trip for a task that is asked for; the second run's own question may have been on its way.
        assert len(engine.asked(requests.GetStatus)) <= before + 1
    assert [one.quick for one in engine.asked(requests.StartRuns)] == [False, True]


def test_an_id_of_the_clients_is_kept_for_its_request(state: Path, served: Served) -> None:
    with Engine(state):
        assert served.evaluate(task_id="my-task") == "my-task" == served.evaluate(task_id="my-task")
        other = {"solution": solution(GOOD + "# more\n"), "task_id": "my-task"}
        answer = served.client.post("/evaluate", json=other)
    assert answer.status_code == 409 and answer.json()["kind"] == "conflict"


def test_curl_brings_the_token_in_the_url(state: Path, served: Served) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    with Engine(state):
        where = f"http://aisp:{served.token}@127.0.0.1:{served.port}/definitions/mine:one"
        done = subprocess.run(["curl", "-s", where], capture_output=True, text=True, timeout=30, check=True)
    told = json.loads(done.stdout)
    assert told["inputs"] == {"x": {"shape": ["N"], "dtype": "float32", "description": "normal"}}
    assert "return x + 1" in told["reference"]


# -- what dies in the middle -------------------------------------------------------------------------------------------


def test_a_task_whose_engine_was_lost_is_run_once_more(state: Path, served: Served) -> None:
    with Engine(state) as engine:
        engine.end = "hang"
        task_id = served.evaluate()
        begun(served, task_id)
    assert served.task(task_id, 0)["status"] in ("pending", "running")
    with Engine(state) as engine:
        task = served.task(task_id)
        assert len(engine.asked(requests.StartRuns)) == 1
    assert task["status"] == "completed"


def test_a_task_whose_engine_was_lost_twice_is_given_up_until_it_is_sent_again(state: Path, served: Served) -> None:
    seen: list[str] = []
    for _ in range(2):
        with Engine(state) as engine:
            engine._history += [heard.state(run_id="x", state="running", at_ns=1)] * len(seen)  # another run's id
            engine.end = "hang"
            task_id = served.evaluate()
            seen.append(begun(served, task_id, seen))
    with Engine(state) as engine:
        task = served.task(task_id)
        assert (task["status"], task["failure"], task["traces"]) == ("failed", "engine_lost", None)
        assert "the engine was lost" in task["error"]
        assert engine.asked(requests.StartRuns) == []
        assert served.evaluate() == task_id
        assert served.task(task_id)["status"] == "completed"


def test_a_task_whose_times_are_suspect_fails_without_a_trace_until_it_is_sent_again(
    state: Path, served: Served
) -> None:
    with Engine(state) as engine:
        engine.changes = SUSPECT
        task = served.task(task_id := served.evaluate())
        assert (task["status"], task["failure"], task["traces"]) == ("failed", "suspect", None)
        assert "it is right" in task["error"] and "timing.wall_clock: 0.4 ms by events" in task["error"]
        engine.changes = {}
        assert served.evaluate() == task_id
        task = served.task(task_id)
        assert (task["status"], task["failure"], len(engine.asked(requests.StartRuns))) == ("completed", None, 2)


def test_a_connection_that_breaks_costs_no_second_run(state: Path, served: Served) -> None:
    with Engine(state) as first:
        first.end = "hang"
        task_id = served.evaluate()
        run_id = begun(served, task_id)
    second = Engine(state)
    second.adopt(first)
    with second:
        wait_for(lambda: bool(second.asked(requests.GetStatus)), "the server to come back")
        store_end(state, run_id, "mine:one")
        second._runs.clear()
        second.publish(heard.finished(run_id=run_id, target="mine:one", state="ok"))
        task = served.task(task_id)
        assert second.asked(requests.StartRuns) == []
    assert (task["status"], task["run_ids"]) == ("completed", [run_id])


@pytest.mark.slow
def test_what_was_under_way_when_the_server_was_killed_is_found_again(state: Path, tmp_path: Path) -> None:
    with Engine(state) as engine:
        engine.end = "hang"
        first = Served(tmp_path / "mine")
        task_id, waits = first.evaluate(), first.evaluate(solution("def go(x):\n    return 1 + x\n"))
        wait_for(lambda: all(first.task(one, 0)["run_ids"] for one in (task_id, waits)), "the runs")
        (run_id,) = first.task(task_id, 0)["run_ids"]
        third = first.evaluate(solution("def go(x):\n    return x + 1.0\n"))
        first.kill()
        engine._runs.pop(run_id)
        store_end(state, run_id, "mine:one")  # it ended while there was no server
        engine.end = "ok"
        second = Served(tmp_path / "mine")
        assert second.token == first.token
        assert second.task(task_id)["run_ids"] == [run_id]
        assert second.task(third)["status"] == "completed"
        assert second.task(waits, 0)["status"] == "running"  # the engine has it still
        assert len(engine.asked(requests.StartRuns)) == 3
        assert second.close() == 0
    with Candidates(paths.candidates_file()) as table:
        assert [row.attempts for _, row in table.rows(f"serve/{waits}")] == [1]


def test_a_client_that_leaves_while_it_waits_loses_nothing(state: Path, served: Served) -> None:
    with Engine(state) as engine:
        engine.end = "hang"
        task_id = served.evaluate()
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", served.port)) as leaving:
                head = f"GET /tasks/{task_id}?timeout=600 HTTP/1.1\r\nHost: localhost\r\n"
                leaving.sendall(f"{head}Authorization: Bearer {served.token}\r\n\r\n".encode())
        wait_for(lambda: bool(served.task(task_id, 0)["run_ids"]), "the run")  # kept, and not only asked for
        with Engine(state) as other:  # the first one's socket is gone with it
            other.adopt(engine)
        (run_id,) = served.task(task_id, 0)["run_ids"]
        store_end(state, run_id, "mine:one")
        engine._runs.clear()
        engine.publish(heard.finished(run_id=run_id, target="mine:one", state="ok"))
        assert served.task(task_id)["status"] == "completed"


# -- runs, targets and events ------------------------------------------------------------------------------------------


def test_runs_are_started_listed_and_shown_without_what_they_draw(state: Path, served: Served) -> None:
    with Engine(state) as engine:
        (target,) = served.client.get("/targets").json()["targets"]
        assert target["id"] == "mine:one" and served.client.get("/targets/one").json() == target
        answer = served.client.post("/runs", json={"target": "one", "rungs": ["optimized"], "quick": True})
        assert answer.status_code == 202 and answer.json()["joined"] is False
        (asked,) = engine.asked(requests.StartRuns)
        assert (asked.targets, asked.rungs, asked.quick) == (["mine:one"], ["optimized"], True)
        run_id = answer.json()["run_id"]
        wait_for(lambda: served.client.get(f"/runs/{run_id}").status_code == 200, "its end")
        (run,) = served.client.get("/runs", params={"target": "mine:one", "limit": 5}).json()["runs"]
        assert run["run_id"] == run_id and run["comparisons"][0]["speedup"] == 2.0
        refused = served.client.post("/runs", json={"target": "one", "rungs": ["optimised"]})
        assert refused.status_code == 400 and "optimized" in refused.json()["fix"]
        engine.refuse = "the machine is on fire"
        refused = served.client.post("/runs", json={"target": "one"})
        assert refused.status_code == 400 and refused.json()["error"] == "the machine is on fire"


def test_a_run_that_goes_on_does_not_tell_its_seed(state: Path, served: Served) -> None:
    from aisp.store import Store

    state.mkdir(exist_ok=True)
    with Store.open(state / "aisp.db") as store:
        run = planned("mine:one", seed=123456789)
        store.plan([run])
    told = served.client.get(f"/runs/{run.id}").text
    assert json.loads(told)["state"] == "planned" and "123456789" not in told


def test_events_are_streamed_as_they_happen(state: Path, served: Served) -> None:
    with Engine(state) as engine:
        wait_for(lambda: served.client.get("/health").json()["status"] == "ok", "the engine")
        with served.client.stream("GET", "/events", params={"kinds": "run_finished,banner"}) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": from now on"
            engine.publish(heard.state(run_id="01RUN", state="running", at_ns=1))  # not asked for
            engine.publish(heard.finished(run_id="01RUN", target="mine:one", state="ok"))
            found = [next(lines) for _ in range(3)]
    assert found[1] == "event: run_finished"
    told = json.loads(found[2].removeprefix("data: "))
    assert (told["run_id"], told["state"]) == ("01RUN", "ok") and "seed" not in told
    assert served.client.get("/events", params={"kinds": "fuzz_planned"}).json()["kind"] == "invalid"


async def test_a_client_that_does_not_read_its_events_is_dropped_with_the_reason() -> None:
    hears = feed.Feed()
    slow, other = hears.join((), ""), hears.join((), "01B")
    banner = events.Banner(key="disk", text="x" * 4000)
    offered = 0
    while not slow.dropped:
        hears.publish(banner)
        offered += 1
    assert offered <= feed.MOST_BYTES // 4000 + 1
    told = await slow.next()
    assert told.startswith(b"event: dropped\n") and b"read faster" in told and await slow.next() == b""
    hears.publish(heard.state(run_id="01B", state=State.RUNNING, at_ns=1))
    assert b'"01B"' in await other.next()  # it asked for that run alone
    for _ in range(feed.MOST_CLIENTS - 2):
        hears.join((), "")
    with pytest.raises(RefusalError, match="clients listen already"):
        hears.join((), "")


# -- who is let in -----------------------------------------------------------------------------------------------------


DOOR: list[tuple[dict[str, str], int]] = [
    ({}, 200),
    ({"host": "localhost:1"}, 200),
    ({"host": "[::1]:9"}, 200),
    ({"host": "evil.example"}, 403),  # a name that was made to lead here
    ({"host": "localhost.evil.example"}, 403),
    ({"host": "[::"}, 403),
    ({"host": ""}, 403),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"authorization": "Bearer nothing"}, 401),
    ({"authorization": "Basic !!!"}, 401),
    ({"authorization": ""}, 401),
]


def test_who_is_let_in(served: Served) -> None:
    for headers, status in DOOR:
        answer = served.client.get("/targets", headers=headers)
        assert answer.status_code == status, headers
        if status != 200:
            assert answer.json().keys() == {"error", "fix", "kind"}


def test_the_token_is_made_once_and_is_the_owners_alone(state: Path, served: Served) -> None:
    mode = stat.S_IMODE((state / "serve.token").stat().st_mode)
    assert mode == 0o600 and (state / "serve.token").read_text().strip() == served.token
    assert len(served.token) >= 32


def test_the_token_is_shown_on_a_terminal_alone(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from aisp.tui.cli import serve

    secret, file = server.token(), str(paths.token_file())
    for as_json in (False, True):
        serve._tell("127.0.0.1:1", secret, as_json=as_json)
        told = capsys.readouterr().out
        assert secret not in told and file in told
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    serve._tell("127.0.0.1:1", secret, as_json=False)
    assert f"http://aisp:{secret}@127.0.0.1:1" in capsys.readouterr().out


def test_only_this_machine_is_served_unless_that_is_said(state: Path, served: Served) -> None:
    refused = aisp("serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2 and "--expose" in refused.stderr
    assert aisp("serve", "--host", "example.org").returncode == 2
    taken = aisp("serve", "--port", str(served.port))
    assert taken.returncode == 3 and "in use" in taken.stderr


# -- requests that are no good -----------------------------------------------------------------------------------------


NO_GOOD: list[tuple[str, str, bytes, int]] = [
    ("POST", "/evaluate", b"", 400),
    ("POST", "/evaluate", b"[1]", 400),
    ("POST", "/evaluate", b'{"solution": {"name": 3}}', 400),
    ("POST", "/evaluate", b'{"solution": "\xff"}', 400),
    ("POST", "/evaluate", b'{"a":' * 5000 + b"1" + b"}" * 5000, 400),
    ("POST", "/evaluate", b" " * (admission.MOST_BODY_BYTES + 1), 413),
    ("POST", "/tasks/batch", b'{"task_ids": "all"}', 400),
    ("POST", "/tasks/batch", b'{"task_ids": ["nothing"]}', 404),
    ("POST", "/tasks/batch", b'{"task_ids": [], "timeout": 1e9}', 400),
    ("GET", "/tasks/nothing", b"", 404),
    ("GET", "/tasks/nothing?timeout=soon", b"", 400),
    ("GET", "/tasks/nothing?timeout=3601", b"", 400),
    ("POST", "/runs", b'{"target": "mine:two"}', 404),
    ("POST", "/runs", b'{"target": "one", "replicas": -1}', 400),
    ("GET", "/runs/nothing", b"", 404),
    ("GET", "/runs?limit=101", b"", 400),
    ("GET", "/definitions/mine:two", b"", 404),
    ("GET", "/workloads/nothing", b"", 404),
    ("GET", "/nowhere", b"", 404),
    ("DELETE", "/targets", b"", 405),
]


def test_what_is_no_good_is_told_with_what_would_work(served: Served) -> None:
    for method, path, body, status in NO_GOOD:
        answer = served.client.request(method, path, content=body)
        assert answer.status_code == status, (method, path, body[:50], answer.text)
        assert answer.json().keys() == {"error", "fix", "kind"} and all(answer.json().values())


def chunks(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"x" * (1 << 20)


def test_a_body_without_a_length_is_bounded_too(served: Served) -> None:
    answer = served.client.post("/evaluate", content=chunks(5))
    assert answer.status_code == 413 and answer.json()["kind"] == "too_large"


GARBAGE = (
    b"\x00\xff" * 500 + b"\r\n",
    b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"POST /evaluate HTTP/1.1\r\nContent-Length: 99\r\n",
)


@pytest.mark.evil
def test_a_crowd_of_clients_is_answered_or_refused_and_the_server_stays_as_it_was(state: Path, served: Served) -> None:
    import psutil

    process = psutil.Process(served.process.pid)
    with Engine(state):
        before = process.memory_info().rss

        def garbage(number: int) -> bytes:
            with socket.create_connection(("127.0.0.1", served.port), timeout=30) as one:
                one.sendall(GARBAGE[number % 3])
                if number % 3 == 2:
                    return b""  # leaves in the middle
                return b"".join(iter(lambda: one.recv(1 << 16), b""))

        def asks(number: int) -> tuple[int, dict[str, Any]]:
            kinds: list[dict[str, Any]] = [{"solution": number}, {"solution": solution()}, {"solution": None}]
            headers = {} if number % 2 else {"authorization": "Bearer of another"}
            answer = served.client.post("/evaluate", json=kinds[number % 3], headers=headers)
            return answer.status_code, answer.json()

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            raw = list(pool.map(garbage, range(150)))
            answers = list(pool.map(asks, range(300)))
        assert {one for number, one in enumerate(raw) if number % 3 != 2 and b'"kind":' not in one} == set()
        assert {status for status, _ in answers} <= {200, 400, 401, 429}
        assert all(told.keys() == {"error", "fix", "kind"} for status, told in answers if status != 200)
        assert sum(status == 200 for status, _ in answers) > 0
        assert served.client.get("/health").json()["status"] == "ok"
        assert process.memory_info().rss - before < 64 << 20
        wait_for(lambda: len(process.net_connections()) < 20, "connections to be let go of")


async def test_more_work_than_may_wait_is_refused_with_the_time_to_come_back(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from starlette.testclient import TestClient

    from aisp.engine.doors.serve import app
    from aisp.engine.doors.serve.shelf import Shelf

    monkeypatch.setattr(clerk, "MOST_OPEN", 1)
    monkeypatch.setattr(admission, "BURST", 8.0)
    monkeypatch.setattr(admission, "PER_S", 0.001)

    def ask() -> list[httpx.Response]:
        made = app.make(clerk.Clerk(Shelf([tmp_path / "mine"]), feed.Feed()), "secret")
        with Engine(state) as engine:
            engine.end = "hang"
            with TestClient(made, base_url="http://localhost", headers={"authorization": "Bearer secret"}) as client:
                texts = (GOOD, GOOD + "#\n")
                found = [client.post("/evaluate", json={"solution": solution(text)}) for text in texts]
                return found + [client.get("/definitions") for _ in range(8)]

    first, second, *others = await asyncio.to_thread(ask)
    assert first.status_code == 200 and second.status_code == 429
    assert second.json()["kind"] == "too_many" and int(second.headers["retry-after"]) >= 1
    assert others[-1].status_code == 429 and others[-1].json()["error"].startswith("more than")


def test_strangers_that_hold_every_connection_keep_nobody_out(state: Path, served: Served) -> None:
    with contextlib.ExitStack() as crowd, Engine(state):
        for _ in range(server.MOST_CONNECTIONS + 60):
            crowd.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=30))
        for _ in range(3):
            with httpx.Client(base_url=served.url, headers=served.client.headers, timeout=10, trust_env=False) as one:
                assert one.get("/health").status_code == 200
                assert one.get("/definitions").status_code == 200  # on the same connection, which is now known


async def test_bodies_that_take_long_give_way_to_the_next_and_keep_no_question_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "MOST_BODIES", 2)
    monkeypatch.setattr(admission, "FAIR_S", 0.05)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    door = admission.Admission(answer, "secret")

    async def ask(body: bytes | None, length: int) -> int:
        said: list[Any] = []

        async def receive() -> dict[str, Any]:
            return await asyncio.Future() if body is None else {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            said.append(message)

        headers = [(b"host", b"localhost"), (b"authorization", b"Bearer secret"), (b"content-length", b"%d" % length)]
        await door({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send)
        return int(said[0]["status"])

    async with asyncio.timeout(10):
        slow = [asyncio.create_task(ask(None, 100)) for _ in range(2)]
        await asyncio.sleep(0)
        assert await ask(b"", 0) == 200  # nothing to read
        assert await ask(b"x", 1) == 429
        await asyncio.sleep(0.06)
        assert await ask(b"x", 1) == 200
        assert await slow[0] == 408
        assert await ask(b"x", 1) == 200
        slow[1].cancel()


async def test_a_client_that_does_not_take_its_answer_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.routing import Route

    from aisp.engine.doors.serve.app import Streamed

    monkeypatch.setattr(admission, "SEND_S", 0.05)
    ended: list[bool] = []

    async def data() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000

    async def flood(_: Request) -> Streamed:
        return Streamed(data(), lambda: ended.append(True))

    async def receive() -> dict[str, Any]:
        return body.pop() if body else await asyncio.Future()

    async def send(message: Any) -> None:
        asked.append(message)
        if len(asked) > 3:
            await asyncio.Future()  # its buffers are full

    asked: list[Any] = []
    body: list[dict[str, Any]] = [{"type": "http.request", "body": b"", "more_body": False}]
    door = admission.Admission(Starlette(routes=[Route("/", flood)]), "secret")
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer secret")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "query_string": b"", "root_path": ""}
    async with asyncio.timeout(10):
        await door(scope, receive, send)  # type: ignore[arg-type]
    assert len(asked) == 4 and ended == [True]


# -- solutions as candidates -------------------------------------------------------------------------------------------


def sent(given: dict[str, Any]) -> bodies.Solution:
    return bodies.decode(json.dumps(given).encode(), bodies.Solution)


def made(tmp_path: Path, target: Target, given: dict[str, Any]) -> Target:
    """The target with the solution beside its rungs."""
    files = solutions.files_of(sent(given), target)
    folder = tmp_path / "made" / target.name
    for name, data in (catalog.read_sources(target) | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    found = catalog.load_target(folder, root=folder.parent, chapter="made")
    assert isinstance(found, Target), found
    return found


def called(target: Target, *inputs: Any) -> Any:
    """What the candidate returns, in a process of its own."""
    code = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); import optimized_candidate as c\n"
        "out = c.run(*(torch.tensor(eval(word)) for word in sys.argv[2:]))\nprint(out.tolist(), out.dtype)"
    )
    import sys

    words = [sys.executable, "-c", code, str(target.folder), *map(repr, inputs)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


INPUTS = 'x = "float32 [M, N] normal"\nw = "float32 [N] normal"'
OUTPUTS = 'y = "float16 [M, 2*N]"'


@pytest.mark.parametrize(
    ("parameters", "given"),
    [("x, w, y", "into"), ("y, w, x", "into, by name"), ("a, b, c", "into, in order")],
    ids=lambda one: one if "," not in one else None,
)
@pytest.mark.slow
def test_outputs_are_allocated_for_a_solution_that_writes_into_them(
    tmp_path: Path, parameters: str, given: str
) -> None:
    target = target_of(tmp_path, inputs=INPUTS, outputs=OUTPUTS, axes="{ M = 2, N = 2 }")
    first, *_, last = parameters.split(", ")
    x, y = ("x", "y") if "y" in parameters else (first, last)
    text = f"def go({parameters}):\n    {y}.fill_(7)\n    {y}[:, 0] = {x}[:, 1]\n"
    found = made(tmp_path, target, solution(text, dps=True))
    assert called(found, [[1.0, 2.0, 3.0]], [0.0, 0.0, 0.0]) == "[[2.0, 7.0, 7.0, 7.0, 7.0, 7.0]] torch.float16"


@pytest.mark.parametrize("returned", ["y", "(y,)", "[y]", "{'y': y}"])
@pytest.mark.slow
def test_a_solution_may_return_its_output_as_its_harness_takes_it(tmp_path: Path, returned: str) -> None:
    target = target_of(tmp_path)
    text = f"from .part import more\n\n\ndef go(x):\n    y = x + more\n    return {returned}\n"
    given = solution(text)
    given["sources"].append({"path": "pkg/part.py", "content": "more = 2\n"})
    assert called(made(tmp_path, target, given), [1.0]) == "[3.0] torch.float32"


def test_the_catalogue_sees_how_a_solution_reaches_the_hardware(tmp_path: Path) -> None:
    target = target_of(tmp_path)
    heads = {"": Reach.TORCH, "import triton\n": Reach.TRITON, "from cuda.core import Device\n": Reach.CUDA}
    for head, kind in heads.items():
        assert made(tmp_path, target, solution(head + GOOD)).rung(CANDIDATE).kind is kind


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (solution(path="../up.py"), "cannot name a source"),
        (solution(path="/up.py"), "cannot name a source"),
        (solution(path=".git/up.py"), "cannot name a source"),
        (solution(path="a/b/c/d/e.py"), "cannot name a source"),
        (solution(path="run.sh"), "cannot name a source"),
        (solution(path='up".py'), "cannot name a source"),
        (solution(entry_point="pkg/other.py::go"), "names no function of the sources"),
        (solution(entry_point="pkg/main.py::import"), "names no function of the sources"),
        (solution(entry_point="pkg/main.py"), "names no function of the sources"),
        (solution(language="cuda"), "the language 'cuda' is not built here"),
        ({**solution(), "sources": solution()["sources"] * 2}, "is there twice"),
    ],
)
def test_what_is_no_solution_is_refused(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    with pytest.raises(RefusalError, match=told) as refused:
        solutions.files_of(sent(given), target_of(tmp_path))
    assert refused.value.kind is Kind.INVALID and refused.value.fix


def test_outputs_whose_size_no_input_tells_are_not_allocated(tmp_path: Path) -> None:
    target = target_of(tmp_path, outputs='y = "float32 [M]"', axes="{ N = 4, M = 4 }")
    with pytest.raises(RefusalError, match="the size of M cannot be read off an input"):
        solutions.files_of(sent(solution(dps=True)), target)


def test_a_workload_is_known_by_the_same_uuid_in_every_life_of_the_server(tmp_path: Path) -> None:
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 8 }\n[[cases]]\nname = "odd"\naxes = { N = 7 }\ntimed = false\n'
    target = target_of(tmp_path, cases=cases)
    again = catalog.load_target(target.folder, root=target.root, chapter=target.chapter)
    assert isinstance(again, Target)
    for case in target.cases:
        assert definitions.case_of(again, definitions.uuid_of(target, case)) == case
    assert [case.name for case in definitions.timed_cases(target, "cpu")] == ["cpu"]
    assert [case.name for case in definitions.timed_cases(target, "cuda")] == ["default"]


# -- what a run says ---------------------------------------------------------------------------------------------------

BAD: dict[str, Any] = {"verdict": Verdict.NONE, "validity": Validity.UNKNOWN, "comparisons": (), "reason": "it is bad"}
TIMELESS: dict[str, Any] = {"median_ms": None, "low_ms": None, "high_ms": None, "sample_count": 0, "sol": None}


def evaluated(home: Path, *, arm: dict[str, Any] | None = None, **changes: Any) -> evaluations.Ended:
    parts = of_candidate(**(arm or {}))
    run = keep(home, **{**parts, **changes})
    return evaluations.of_run(asking.read(run.id, None))


@pytest.mark.parametrize(
    ("end", "correctness", "status"),
    [
        (State.INCORRECT, Correctness.WRONG, "INCORRECT_NUMERICAL"),
        (State.USER_ERROR, Correctness.UNKNOWN, "RUNTIME_ERROR"),
        (State.CRASHED, Correctness.UNKNOWN, "RUNTIME_ERROR"),
        (State.PREMATURE_EXIT, Correctness.UNKNOWN, "RUNTIME_ERROR"),
        (State.OUTPUT_LIMIT, Correctness.UNKNOWN, "RUNTIME_ERROR"),
        (State.TIMEOUT_PROGRESS, Correctness.UNKNOWN, "TIMEOUT"),
        (State.TIMEOUT_TOTAL, Correctness.UNKNOWN, "TIMEOUT"),
    ],
)
def test_how_a_candidate_failed_is_its_status(state: Path, end: State, correctness: Correctness, status: str) -> None:
    arm = {**TIMELESS, "state": end, "correctness": correctness, "timing": "none", "reason": "\x1b[31mso"}
    arm |= {"signal": 11} if end is State.CRASHED else {}
    found = evaluated(state, arm=arm, state=end, correctness=correctness, **BAD)
    assert found.document["status"] == status and found.document["performance"] is None
    assert "so" in found.document["log"] and "\x1b" not in found.document["log"]


def test_a_time_that_was_caught_is_no_performance(state: Path) -> None:
    caught = finding("timing.wall_clock", CANDIDATE, "caught", "0.4 ms by events, 9 ms by the clock")
    found = evaluated(
        state, findings=(caught,), validity=Validity.CAUGHT, verdict=Verdict.NONE, comparisons=(), reason="caught"
    )
    assert (found.document["status"], found.document["performance"]) == ("RUNTIME_ERROR", None)
    assert "0.4 ms by events" in found.document["log"]


@pytest.mark.parametrize("check", sorted(OF_OUTPUTS))
def test_outputs_of_another_form_are_wrong_as_other_values_are(state: Path, check: str) -> None:
    arm = {**TIMELESS, "state": State.INCORRECT, "correctness": Correctness.WRONG, "timing": "none", "reason": "so"}
    said = finding(check, CANDIDATE, "caught", "y has another shape")
    found = evaluated(state, arm=arm, findings=(said,), state=State.INCORRECT, correctness=Correctness.WRONG, **BAD)
    assert found.document["status"] == "INCORRECT_NUMERICAL"


def test_a_run_that_was_changed_is_tried_again_as_judge_does(state: Path) -> None:
    run = keep(state, **of_candidate())
    answer = asking.read(run.id, None)
    changed = replace(answer.reading.record, state=State.CHANGED, reason="its digest does not fit", arms=())
    found = evaluations.of_run(replace(answer, reading=Reading(changed)))
    assert (found.failure, found.again) == ("no_result", True)


def test_serve_and_the_exported_trace_call_an_end_the_same(state: Path) -> None:
    """Right and never timed, caught, and timed out: one word for each, whichever door says it."""
    caught = finding("timing.wall_clock", CANDIDATE, "caught", "0.4 ms by events, 9 ms by the clock")
    late = {**TIMELESS, "state": State.TIMEOUT_TOTAL, "correctness": Correctness.UNKNOWN, "timing": "none"}
    ends: list[dict[str, Any]] = [
        {"arm": {**TIMELESS, "timing": "none"}, **BAD},
        {"findings": (caught,), "validity": Validity.CAUGHT, **BAD, "reason": "caught"},
        {"arm": {**late, "reason": "late"}, "state": State.TIMEOUT_TOTAL, "correctness": Correctness.UNKNOWN, **BAD},
    ]
    for end in ends:
        arm = end.pop("arm", None)
        run = keep(state, **{**of_candidate(**(arm or {})), **end})
        answer = asking.read(run.id, None)
        known = answer.reading.arm(CANDIDATE)
        assert known is not None
        word = traces.status_of(answer.reading, known, Harness.FLASHINFER)
        assert evaluations.of_run(answer).document["status"] == word


def test_a_time_that_is_not_to_be_believed_is_no_pass_and_accuses_nobody(state: Path) -> None:
    found = evaluated(state, **SUSPECT)
    assert (found.failure, found.again, found.document) == ("suspect", False, {})
    assert found.reason == (
        "it is right, and its times are not to be believed: timing.wall_clock: 0.4 ms by events, 9 ms by the clock"
    )


def test_a_speedup_stands_there_with_a_verdict_alone(state: Path) -> None:
    (item,) = of_candidate()["comparisons"]
    unsure = replace(item, verdict=Verdict.UNDECIDED, note="two replicas more")
    found = evaluated(state, comparisons=(unsure,), verdict=Verdict.UNDECIDED)
    assert found.document["performance"] == {"latency_ms": 0.5, "reference_latency_ms": 1.0}
    extra = found.document["correctness"]["extra"]
    assert (extra["verdict"], extra["why"]) == ("undecided", "two replicas more") and extra["interval"]


def test_an_evaluation_and_a_run_say_where_they_were_judged_and_what_held_their_processes(state: Path) -> None:
    parts = of_candidate(quality=Quality(inside="no room"))
    run = keep(state, environment={"confined": ["files", "reading"]}, **parts)
    extra = evaluations.of_run(asking.read(run.id, None)).document["correctness"]["extra"]
    held = "confined: files, reading; not network, signals, scheduling"
    assert (extra["judged"], extra["confined"]) == (f"{CANDIDATE} judged inside (no room)", held)
    assert app._run(run.id)["confined"] == held
    known = evaluated(state).document["correctness"]["extra"]
    assert (known["judged"], known["confined"]) == (None, None)


@pytest.mark.parametrize(
    ("end", "failure", "again"),
    [
        (State.UNAVAILABLE, "not_here", False),
        (State.CANCELLED, "cancelled", False),
        (State.ENGINE_LOST, "engine_lost", True),
        (State.INFRA_ERROR, "engine_lost", True),
        (State.USER_ERROR, "no_result", False),
    ],
)
def test_a_run_that_says_nothing_of_the_candidate_is_a_failure(
    state: Path, end: State, failure: str, again: bool
) -> None:
    found = evaluated(state, state=end, correctness=Correctness.UNKNOWN, **BAD, arms=())
    assert (found.failure, found.again) == (failure, again) and found.reason


def test_a_target_that_has_changed_since_is_told(state: Path, tmp_path: Path, served: Served) -> None:
    with Engine(state) as engine:
        engine.end = "hang"
        for number in range(clerk.PER_DEVICE):
            served.evaluate(solution(f"def go(x):\n    return x + {number + 2}\n"))
        wait_for(lambda: len(engine.asked(requests.StartRuns)) == clerk.PER_DEVICE, "both runs")
        task_id = served.evaluate()  # waits in the table, and not behind others in the engine
        assert served.task(task_id, 0)["status"] == "pending"
        (tmp_path / "mine" / "one" / "baseline.py").write_text("def run(x):\n    return 1 + x\n")
        for run_id in list(engine._runs):
            store_end(state, run_id, "mine:one")
            engine._runs.pop(run_id)
            engine.publish(heard.finished(run_id=run_id, target="mine:one", state="ok"))
        task = served.task(task_id)
        assert len(engine.asked(requests.StartRuns)) == clerk.PER_DEVICE
    assert (task["status"], task["failure"]) == ("failed", "target_changed")


def test_tasks_are_rows_of_the_table_of_candidates(state: Path, tmp_path: Path) -> None:
    target = target_of(tmp_path, cases='[[cases]]\nname = "cpu"\naxes = { N = 8 }\n')
    files = solutions.files_of(sent(solution()), target)
    kept = tasks.Tasks()
    with contextlib.closing(kept):
        cases = {case.name: definitions.uuid_of(target, case) for case in target.cases}
        asked = tasks.Asked(target.id, "ab" * 32, cases, "mine_1", files, "auto", quick=True)
        task, new = kept.put(asked)
        assert new and not kept.put(asked)[1]
        assert {tasks.placed(row) for row in task.rows.values()} == {("auto", "default"), ("auto", "cpu")}
        assert kept.table.open_rows(tasks.PREFIX) == 2
        for row in task.rows.values():
            kept.table.finish(row.number, {"failure": "not_here", "reason": "needs sm_90", "workload": {}})
        assert kept.table.open_rows(tasks.PREFIX) == 0
        document = kept.find(task.id).document
    assert (document["status"], document["failure"], document["error"]) == ("failed", "not_here", "needs sm_90")


# -- definitions of a data set -----------------------------------------------------------------------------------------


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    """A data set of FlashInfer with one definition and three workloads."""
    trace.flashinfer(tmp_path / "set")
    return tmp_path / "set"


@pytest.fixture
def with_set(state: Path, tmp_path: Path, data_set: Path) -> Iterator[Served]:
    server = Served(tmp_path / "mine", "--problems", str(data_set))
    yield server
    if server.process.poll() is None:
        server.close()


UUIDS = ["44444444-aaaa", "55555555-bbbb", "66666666-cccc"]
"""Of its workloads."""


def another(folder: Path, stem: str, **changed: Any) -> None:
    """A further definition of a data set, with a workload; called as its file where `changed` has no name."""
    place, rows = folder / "definitions/norm" / f"{stem}.json", folder / "workloads/norm" / f"{stem}.jsonl"
    name = changed.setdefault("name", stem)
    place.write_text(json.dumps(trace.for_flashinfer() | changed))
    row = trace.workload("77777777-dddd", 4)
    row["axes"]["flat"] = 4 * 48
    rows.write_text(trace.lines([{"definition": name, "workload": row, "solution": None, "evaluation": None}]))


def test_a_data_set_is_listed_and_its_definition_taken_by_the_steps_of_curl(
    state: Path, with_set: Served, data_set: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    base = f"http://aisp:{with_set.token}@127.0.0.1:{with_set.port}"

    def curl(path: str, *words: str) -> Any:
        done = subprocess.run(
            ["curl", "-s", f"{base}{path}", *words], capture_output=True, text=True, timeout=60, check=True
        )
        return json.loads(done.stdout)

    asked = {"solution": trace.solution_for_flashinfer(), "workload_uuids": UUIDS[:2]}
    request = trace.written_to(data_set, asked, "request.json")
    with Engine(state) as engine:
        engine.rung = "optimized"
        names = [one["name"] for one in curl("/definitions")]
        whole = curl("/definitions/gated_norm_h32")
        workloads = curl("/definitions/gated_norm_h32/workloads")
        one = curl(f"/workloads/{UUIDS[1]}")
        answer = curl("/evaluate", "-d", f"@{request}")
        task = curl(f"/tasks/{answer['task_id']}?timeout=60")
        started = engine.asked(requests.StartRuns)
    assert names == ["mine:one", "gated_norm_h32"]
    assert whole == trace.for_flashinfer()
    assert [workload["uuid"] for workload in workloads] == UUIDS and workloads[1] == one
    assert (one["axes"], one["inputs"]["bias"]["tensor_key"]) == ({"rows": 24, "flat": 24 * 48}, "bias")
    assert (task["status"], task["error"], task["definition"]) == ("completed", None, "gated_norm_h32")
    assert task["solution"] == answer["normalized_solution_name"] and task["solution"].startswith("gated_norm_v1_")
    assert [found["workload"] for found in task["traces"]] == workloads[:2]
    for found in task["traces"]:
        assert (found["definition"], found["evaluation"]["status"]) == ("gated_norm_h32", "PASSED")
        assert found["evaluation"]["performance"]["speedup_factor"] == 2.0
        assert found["evaluation"]["correctness"]["extra"]["run_id"] in task["run_ids"]
    assert [(sent.rungs, sent.case) for sent in started] == [(["optimized"], "default"), (["optimized"], "55555555")]
    for sent in started:
        (target,) = catalog.load([Path(sent.roots[0])]).targets
        assert target.id == sent.targets[0] and target.rule is not None and "FlashInfer-Bench" in target.rule.name
        assert target.folder.is_relative_to(paths.judged_dir())


@pytest.mark.slow
def test_a_task_of_a_data_set_outlives_the_server_and_the_engine(state: Path, tmp_path: Path, data_set: Path) -> None:
    words = (tmp_path / "mine", "--problems", str(data_set), "--device", "cpu")
    first = Served(*words)  # there is no engine yet
    task_id = first.evaluate(trace.solution_for_flashinfer(), workload_uuids=UUIDS[:1])
    first.kill()
    with Engine(state) as engine:
        engine.end, engine.rung = "hang", "optimized"
        second = Served(*words)
        run_id = begun(second, task_id)
        second.kill()
        engine._runs.pop(run_id)
        store_end(state, run_id, "gated_norm_h32-1:gated_norm_v1", "optimized")
        third = Served(tmp_path / "mine")  # without the data set: what came of it is known all the same
        task = third.task(task_id)
        assert third.close() == 0
        assert len(engine.asked(requests.StartRuns)) == 1
    assert (task["status"], task["run_ids"]) == ("completed", [run_id])
    assert task["traces"][0]["evaluation"]["status"] == "PASSED"


@pytest.mark.slow
def test_a_definition_that_is_gone_or_changed_when_its_turn_comes_is_told(
    state: Path, tmp_path: Path, data_set: Path
) -> None:
    first = Served(tmp_path / "mine", "--problems", str(data_set), "--device", "cpu")
    task_id = first.evaluate(trace.solution_for_flashinfer(), workload_uuids=UUIDS[:1])
    other = first.evaluate(trace.solution_for_flashinfer(trace.RETURNING), workload_uuids=UUIDS[:1])
    assert first.close() == 0
    rows = data_set / "workloads/norm/gated_norm_h32.jsonl"
    rows.write_text(rows.read_text().replace('"value": 1e-05', '"value": 2e-05'))
    with Engine(state) as engine:
        second = Served(tmp_path / "mine", "--problems", str(data_set))
        changed = second.task(task_id)
        assert second.close() == 0
        assert engine.asked(requests.StartRuns) == []
    assert (changed["status"], changed["failure"]) == ("failed", "target_changed")
    with Candidates(paths.candidates_file()) as table:
        table.again([row.number for _, row in table.rows(f"serve/{other}")])
    with Engine(state) as engine:
        third = Served(tmp_path / "mine")
        gone = third.task(other)
        assert third.close() == 0
    assert (gone["status"], gone["failure"]) == ("failed", "target_changed") and "gated_norm_h32" in gone["error"]


def test_a_definition_that_cannot_be_opened_is_left_out_with_its_reason(
    state: Path, tmp_path: Path, data_set: Path
) -> None:
    another(data_set, "without_run", reference="def go(x):\n    return x\n")
    (data_set / "definitions/norm/no_json.json").write_text("{")
    another(data_set, "twin")
    another(data_set, "twin_again", name="twin")
    another(data_set, "two\nlines")
    another(data_set, "one", axes={})  # which a target is called, too
    another(data_set, "good")
    server = Served(tmp_path / "mine", "--problems", str(data_set))
    with Engine(state):
        names = [one["name"] for one in server.client.get("/definitions").json()]
        said = {
            name: server.client.post("/evaluate", json={"solution": trace.solution(definition=name)})
            for name in ("without_run", "no_json")
        }
        shown = server.client.get("/definitions/without_run")
        target = server.client.get("/definitions/one").json()
    assert server.close() == 0
    assert server.process.stderr is not None
    logged = server.process.stderr.readline()
    assert sorted(names) == ["gated_norm_h32", "good", "mine:one", "twin"]
    assert {answer.status_code for answer in (*said.values(), shown)} == {400}
    assert "the definition without_run cannot be opened" in said["without_run"].json()["error"]
    assert "it has no function run" in said["without_run"].json()["error"] and "not JSON" in said["no_json"].text
    assert logged.startswith("aisp: WARNING: 3 definitions of data sets are served, 5 cannot be opened: ")
    assert target["name"] == "mine:one"
    for told in ("without_run: ", "no_json: ", "twin.json has this name too", "its name is no plain line"):
        assert told in logged


def test_a_definition_that_breaks_or_loses_its_tensors_later_says_why(
    state: Path, with_set: Served, data_set: Path
) -> None:
    with Engine(state):
        (data_set / "blob/workloads/bias.safetensors").unlink()
        left = with_set.client.get("/definitions/gated_norm_h32/workloads").json()
        asked = {"solution": trace.solution_for_flashinfer(), "workload_uuids": UUIDS[1:2]}
        answer = with_set.client.post("/evaluate", json=asked)
        (data_set / "definitions/norm/gated_norm_h32.json").unlink()
        gone = with_set.client.post("/evaluate", json=asked)
    assert [workload["uuid"] for workload in left] == [UUIDS[0], UUIDS[2]]
    assert answer.status_code == 400 and "has no workload 55555555-bbbb" in answer.json()["error"]
    assert gone.status_code == 400 and "cannot be opened: it cannot be read" in gone.json()["error"]


def test_a_name_that_a_target_has_too_is_refused_at_the_start(state: Path, tmp_path: Path, data_set: Path) -> None:
    another(data_set, "one")
    done = aisp("serve", "--port", "0", "--root", str(tmp_path / "mine"), "--problems", str(data_set))
    assert done.returncode == 2 and "is called one, and so is the target mine:one" in done.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    done = aisp("serve", "--port", "0", "--root", str(tmp_path / "mine"), "--problems", str(empty))
    assert done.returncode == 2 and "holds no definitions of SOL-ExecBench and FlashInfer trace" in done.stderr


@pytest.mark.parametrize(
    ("changed", "status", "told"),
    [
        ({"definition": "nowhere"}, 400, "nowhere"),
        ({"spec": {"entry_point": "other.py::run"}}, 400, "there is no source 'other.py'"),
        ({"spec": {"language": "fortran"}}, 400, "unknown language 'fortran'"),
        ({"sources": [{"path": "../main.py", "content": ""}]}, 400, "leads out of the solution"),
        ({"spec": {"binding": 3}}, 400, "binding"),
    ],
)
def test_what_is_no_solution_of_a_definition_is_refused(
    state: Path, with_set: Served, changed: dict[str, Any], status: int, told: str
) -> None:
    given = trace.solution_for_flashinfer()
    given |= {key: {**given["spec"], **value} if key == "spec" else value for key, value in changed.items()}
    with Engine(state) as engine:
        answer = with_set.client.post("/evaluate", json={"solution": given})
        assert engine.asked(requests.StartRuns) == []
    assert answer.status_code == status and told in answer.json()["error"] and answer.json()["fix"]


def test_a_solution_of_a_definition_that_does_not_compile_costs_no_run(state: Path, with_set: Served) -> None:
    with Engine(state) as engine:
        given = trace.solution_for_flashinfer("def run(:\n")
        task = with_set.task(with_set.evaluate(given, workload_uuids=UUIDS[:1]))
        assert engine.asked(requests.StartRuns) == []
    (found,) = task["traces"]
    assert (task["status"], found["evaluation"]["status"]) == ("completed", "COMPILE_ERROR")
    assert found["workload"]["uuid"] == UUIDS[0] and "main.py:1" in found["evaluation"]["log"]


@pytest.mark.parametrize("name", ["..", "a/b\0c", "solution.py", "\U0001d49c" * 200])
def test_a_definition_and_a_solution_of_any_name_become_a_target(state: Path, tmp_path: Path, name: str) -> None:
    called = name.replace("\0", "")  # which a definition that is served has not
    trace.sol(tmp_path / "set", trace.definition(name=called))
    found = problems.read([tmp_path / "set"], [tmp_path / "mine"]).found[called]
    sent_in = msgspec.convert(trace.solution(definition=called, name=name), bodies.Solution)
    target = found.made(found.files_of(sent_in))
    assert target.folder.parent.parent == paths.judged_dir()
    with pytest.raises(RefusalError, match="name: it is blank"):
        found.files_of(replace(sent_in, name=" "))


def test_a_uuid_that_is_no_plain_word_gets_one_of_ours(state: Path, tmp_path: Path) -> None:
    rows = [trace.workload("a b", 4), trace.workload("\ud800", 8), trace.workload("c" * 300, 16)]
    trace.sol(tmp_path / "set", trace.definition(), rows)
    (found,) = problems.read([tmp_path / "set"], [tmp_path / "mine"]).found.values()
    told = [workload["uuid"] for workload in found.workloads()]
    assert len(set(told)) == 3 and all(re.fullmatch(r"[0-9a-f-]{36}", uuid) for uuid in told)
    assert told == [workload["uuid"] for workload in found.workloads("cuda")]
    msgspec.json.encode([found.workloads(), found.document(), found.summary()])


@pytest.mark.slow
def test_a_thousand_definitions_are_listed_without_torch_and_without_a_tensor(tmp_path: Path, data_set: Path) -> None:
    for number in range(1000):
        another(data_set, f"d{number}")
    make_target(tmp_path / "mine", "one")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "from aisp.engine.doors.serve import problems, server\n"
        f"found = problems.read([Path({str(data_set)!r})], [Path({str(tmp_path / 'mine')!r})])\n"
        "print(len(found.found), len(found.left_out), sum('safetensors' in name for name in opened))\n"
        "print(sum(name.endswith('.jsonl') for name in opened), {'torch', 'triton'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["1001 0 0", "1001 set()"]


# -- the page ----------------------------------------------------------------------------------------------------------

PAGE = (MAIN / "docs/serve.md").read_text("utf-8")


def test_the_page_has_every_route_and_none_that_is_not_there(state: Path, tmp_path: Path) -> None:
    from aisp.engine.doors.serve import app
    from aisp.engine.doors.serve.shelf import Shelf

    made = clerk.Clerk(Shelf(), feed.Feed())
    with contextlib.closing(made.tasks):
        routes = {(min((route.methods or set()) - {"HEAD"}), route.path) for route in app.Routes(made).all}
    told = set(re.findall(r"^\| `(GET|POST) (/\S*)`", PAGE, re.MULTILINE))
    assert told == {(method, path.replace(":path", "")) for method, path in routes}


def test_the_page_names_every_word_that_a_program_may_get() -> None:
    words = [word.value for kinds in (traces.Status, evaluations.Failure, Kind) for word in kinds]
    words.remove(traces.Status.REWARD_HACK)  # of the other format
    assert [word for word in (*words, *feed.KINDS) if f"`{word}`" not in PAGE] == []


def test_the_bounds_of_the_page_are_those_of_the_server() -> None:
    rows = re.findall(r"^\| [^|]* \| ([\d,]+) \|$", PAGE[PAGE.index("| bound |") :], re.MULTILINE)
    told = [int(text.replace(",", "")) for text in rows]
    assert told == [
        *(admission.MOST_BODY_BYTES, bodies.MOST_SOURCES, clerk.MOST_OPEN),
        *(admission.PER_S, admission.STRANGERS_PER_S, admission.MOST_AT_ONCE, server.MOST_CONNECTIONS),
        *(feed.MOST_CLIENTS, feed.MOST_BYTES, clerk.PER_DEVICE),
    ]


def test_the_example_of_the_page_is_a_request() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    asked = bodies.decode(text.encode(), bodies.Evaluate)
    target = catalog.load().find(asked.solution.definition)
    files = solutions.files_of(asked.solution, target)
    assert solutions.misspelt(files) == "" and set(files) == {f"{CANDIDATE}.py", "solution/pkg/main.py"}


# -- with an engine that measures --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_solutions_are_judged_by_the_engine(shared: EngineUnderTest, tmp_path: Path) -> None:
    target = target_of(tmp_path, cases='[[cases]]\nname = "cpu"\naxes = { N = 4096 }')
    texts = {
        "PASSED": "def go(x):\n    return x + x\n",
        "INCORRECT_NUMERICAL": "def go(x):\n    return x\n",
        "RUNTIME_ERROR": "import os\n\n\ndef go(x):\n    os._exit(0)\n",
        "COMPILE_ERROR": "def go(x)\n",
    }

    def judge() -> dict[str, dict[str, Any]]:
        given = {status: {"given": {**solution(text), "definition": target.id}} for status, text in texts.items()}
        return Served(target.root, "--quick", "--device", "cpu").judged(given, 120)

    found = await asyncio.to_thread(judge)
    for status, task in found.items():
        assert task["status"] == "completed", task
        assert [trace["evaluation"]["status"] for trace in task["traces"]] == [status], task
    (trace,) = found["PASSED"]["traces"]
    assert trace["evaluation"]["performance"]["latency_ms"] > 0


@pytest.mark.slow
async def test_solutions_of_a_data_set_are_judged_by_the_engine(
    shared: EngineUnderTest, tmp_path: Path, data_set: Path
) -> None:
    make_target(tmp_path / "mine", "one")
    answers = {
        "right": trace.RIGHT,
        "returning": trace.RETURNING,
        "wrong": trace.ANSWERS["slightly wrong"],
    }

    def judge() -> dict[str, dict[str, Any]]:
        given = {
            name: {"given": trace.solution_for_flashinfer(text), "workload_uuids": UUIDS[:2]}
            for name, text in answers.items()
        }
        words = ("--problems", str(data_set), "--quick", "--device", "cpu")
        return Served(tmp_path / "mine", *words).judged(given, 300)

    found = await asyncio.to_thread(judge)
    for name, task in found.items():
        assert task["status"] == "completed", task
        status = "INCORRECT_NUMERICAL" if name == "wrong" else "PASSED"
        assert [one["evaluation"]["status"] for one in task["traces"]] == [status] * 2, task
        assert [one["workload"]["uuid"] for one in task["traces"]] == UUIDS[:2]
        for one in task["traces"]:
            extra = one["evaluation"]["correctness"]["extra"]
            assert "FlashInfer-Bench" in extra["by_own_rule"], task
    (first, _) = found["right"]["traces"]
    assert first["evaluation"]["performance"]["latency_ms"] > 0
