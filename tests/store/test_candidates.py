"""Candidates that wait: found by their content, leased for a time, never lost and never judged twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.store import candidates
from aisp.store.candidates import CandidateRequest, Candidates, CandidateState, Level, Row, TooManyError, owner_here
from aisp.store.errors import ForeignDatabaseError, NewerSchemaError, StoreCorruptError

SOURCES = "5" * 64


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Candidates]:
    with Candidates(tmp_path / "candidates.db") as opened:
        yield opened


def wanted(*names: str) -> list[CandidateRequest]:
    return [CandidateRequest(f"{name}.py", {"optimized_candidate.py": f"# {name}\n".encode()}) for name in names]


def planned(table: Candidates, *names: str, batch: str = "one", level: Level = Level.QUICK, **more: int) -> list[Row]:
    return table.plan(batch, target="ch01:add", sources=SOURCES, wanted=wanted(*names), level=level, **more)


def test_the_same_work_is_planned_once_whoever_plans_it(table: Candidates) -> None:
    first = planned(table, "a", "b", "a")
    assert first[0] == first[2] != first[1]
    assert planned(table, "a", "b", "a") == first
    other = planned(table, "b", batch="two")
    assert other == [first[1]]
    assert [name for name, _ in table.rows("one")] == ["a.py", "b.py"]
    assert [row.number for _, row in table.rows("two")] == [first[1].number]
    assert planned(table, "a", level=Level.FULL)[0].number not in {row.number for row in first}
    (elsewhere,) = table.plan("one", target="ch01:add", sources="6" * 64, wanted=wanted("a"))
    (warm,) = table.plan("one", target="ch01:add", sources=SOURCES, wanted=wanted("a"), conditions="cuda")
    assert len({first[0].number, elsewhere.number, warm.number}) == 3


def test_the_sources_come_back_as_they_were(table: Candidates) -> None:
    files = {"optimized_candidate.py": b"\x00\xff", "parts/\udcff.cuh": b"", "a" * 200: b"x" * 100_000}
    (row,) = table.plan("one", target="t", sources=SOURCES, wanted=[CandidateRequest("folder", files)])
    assert table.files(row.candidate) == files
    with pytest.raises(LookupError, match="no candidate"):
        table.files("0" * 64)


def test_the_most_urgent_goes_first_then_the_oldest(table: Candidates) -> None:
    planned(table, "a", "b", "c")
    planned(table, "d", priority=5, batch="two")
    planned(table, "b", priority=9, batch="two")
    owner = owner_here()
    taken = table.lease(owner, 3)
    names = {row.number: name for name, row in [*table.rows("one"), *table.rows("two")]}
    assert [names[row.number] for row in taken] == ["b.py", "d.py", "a.py"]
    assert all(row.state is CandidateState.LEASED and row.owner == owner and row.attempts == 1 for row in taken)
    assert [names[row.number] for row in table.lease(owner, 9)] == ["c.py"]
    assert table.lease(owner, 9) == []


def test_a_lease_asks_for_what_it_can_do(table: Candidates) -> None:
    planned(table, "a")
    planned(table, "b", batch="two", level=Level.FULL)
    owner = owner_here()
    assert table.lease(owner, 9, target="ch02:other") == []
    assert table.lease(owner, 9, batch="two", level=Level.QUICK) == []
    assert len(table.lease(owner, 9, batch="two", level=Level.FULL, target="ch01:add")) == 1


def test_the_first_outcome_of_a_row_stands(table: Candidates) -> None:
    (row,) = planned(table, "a")
    owner = owner_here()
    table.lease(owner, 1)
    table.note_request("host/other/1/2/", [row.number], "somebody:else")  # who has no lease of it
    table.note_request(owner, [row.number], "add-1:add")
    table.begun(owner, [row.number], "01RUN")
    assert (table.row(row.number).asked_as, table.row(row.number).run_id) == ("add-1:add", "01RUN")
    assert table.finish(row.number, {"verdict": "faster"})
    assert not table.finish(row.number, {"verdict": "slower"}, run_id="01OTHER")
    ended = table.row(row.number)
    assert (ended.state, ended.outcome, ended.run_id) == (CandidateState.DONE, {"verdict": "faster"}, "01RUN")
    assert table.fail(row.number, owner, "too late") is CandidateState.DONE
    assert planned(table, "a")[0] == ended
    assert planned(table, "a", again=True)[0].state is CandidateState.PLANNED


def test_an_attempt_that_comes_to_nothing_is_made_again_and_then_given_up(table: Candidates) -> None:
    (row,) = planned(table, "a")
    owner = owner_here()
    for _ in range(candidates.MOST_ATTEMPTS):
        assert table.lease(owner, 1)[0].asked_as == ""  # nobody looks for what came to nothing
        table.note_request(owner, [row.number], "add-1:add")
        table.fail(row.number, owner, "the engine\x1b[31m went away")
    ended = table.row(row.number)
    assert (ended.state, ended.attempts) == (CandidateState.DEAD, candidates.MOST_ATTEMPTS)
    assert "went away" in ended.reason and "\x1b" not in ended.reason
    assert table.lease(owner, 1) == []
    table.again([row.number])
    assert table.lease(owner, 1)[0].attempts == 1
    assert table.fail(row.number, owner, "there is no such GPU", final=True) is CandidateState.DEAD


def test_who_has_lost_a_lease_cannot_give_the_row_back_but_an_outcome_counts(table: Candidates) -> None:
    (row,) = planned(table, "a")
    table.lease("host/other/1/2/", 1, for_s=-1.0)
    table.note_request("host/other/1/2/", [row.number], "add-1:add")
    assert table.requeue_expired() == candidates.Requeued(1, 0)
    (mine,) = table.lease(owner_here(), 1)
    assert mine.asked_as == "add-1:add"  # the engine may have it still
    assert table.fail(row.number, "host/other/1/2/", "late") is CandidateState.LEASED
    assert table.row(row.number).owner == owner_here()
    assert table.finish(row.number, {"verdict": "same"})


def test_a_lease_that_is_renewed_lasts(table: Candidates) -> None:
    planned(table, "a", "b")
    table.lease("host/other/1/2/", 2, for_s=-1.0)
    assert table.renew("host/other/1/2/") == 2
    assert table.requeue_expired() == candidates.Requeued(0, 0)


def test_leases_that_are_given_back_do_not_count_as_attempts(table: Candidates) -> None:
    planned(table, "a", "b")
    owner = owner_here()
    for _ in range(candidates.MOST_ATTEMPTS + 1):
        table.lease(owner, 2)
        assert table.release(owner) == 2
    assert table.counts("one")[CandidateState.PLANNED] == 2


DRIVER = """
import sys
from pathlib import Path
from aisp.store.candidates import Candidates, owner_here
table = Candidates(Path(sys.argv[1]))
for row in table.lease(owner_here(), 2):
    print(row.number, flush=True)
sys.stdin.read()
"""


def test_a_driver_that_is_killed_loses_nothing_and_at_last_its_row_is_dead(table: Candidates) -> None:
    """Each takes both rows and is killed; they wait again at once, until they have been tried often enough."""
    planned(table, "a", "b")
    for attempt in range(1, candidates.MOST_ATTEMPTS + 1):
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(table.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert driver.stdout is not None and driver.stdout.readline() and driver.stdout.readline()
        assert table.requeue_expired() == candidates.Requeued(0, 0)  # it lives
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
        last = attempt == candidates.MOST_ATTEMPTS
        assert table.requeue_expired() == (candidates.Requeued(0, 2) if last else candidates.Requeued(2, 0))
    for _, row in table.rows("one"):
        assert row.state is CandidateState.DEAD and "has gone" in row.reason


def test_an_owner_is_gone_only_where_that_can_be_seen() -> None:
    here = owner_here("serve")
    assert not candidates.is_gone(here)
    *_, pid, started, word = here.split("/")
    assert (pid, word) == (str(os.getpid()), "serve")
    assert candidates.is_gone(here.replace(started, "1"))  # another process had its id
    assert not candidates.is_gone(here.replace(here.split("/")[0], "another-boot"))
    assert not candidates.is_gone("somebody")


CROWD = """
import sys
from pathlib import Path
from aisp.store.candidates import Candidates, owner_here
table = Candidates(Path(sys.argv[1]))
while rows := table.lease(owner_here(), 3):
    for row in rows:
        if table.finish(row.number, {"by": sys.argv[2]}):
            print(row.number, flush=True)
"""


def test_several_drivers_share_a_batch_without_doing_a_row_twice(table: Candidates) -> None:
    rows = planned(table, *(f"c{number}" for number in range(60)))
    crowd = [
        subprocess.Popen([sys.executable, "-c", CROWD, str(table.path), str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    done = [int(line) for driver in crowd for line in driver.communicate()[0].split()]
    assert sorted(done) == [row.number for row in rows]
    assert table.counts("one")[CandidateState.DONE] == 60
    assert all(row.attempts == 1 for _, row in table.rows("one"))


def test_too_many_are_refused_whole_and_what_has_ended_makes_room(
    table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MOST_WAITING", 3)
    monkeypatch.setattr(candidates, "MOST_ENDED", 2)
    first = planned(table, "a", "b", "c")
    with pytest.raises(TooManyError, match="let some end first"):
        planned(table, "d")
    assert table.counts()[CandidateState.PLANNED] == 3
    for row in first:
        table.finish(row.number, {"verdict": "same"})
    planned(table, "d")
    assert [name for name, _ in table.rows("one")] == ["b.py", "c.py", "d.py"]
    with pytest.raises(LookupError, match="no candidate"):
        table.files(first[0].candidate)
    assert table.files(first[1].candidate)


def test_what_is_too_large_or_no_name_is_refused(table: Candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MOST_BYTES", 10)
    with pytest.raises(ValueError, match="at most 10 are taken"):
        table.plan("one", target="t", sources=SOURCES, wanted=[CandidateRequest("x", {"a.py": b"x" * 11})])
    with pytest.raises(ValueError, match="must be relative"):
        table.plan("one", target="t", sources=SOURCES, wanted=[CandidateRequest("x", {"../a.py": b"x"})])
    (row,) = table.plan("one", target="t", sources=SOURCES, wanted=[CandidateRequest("x", {"a.py": b"x"})])
    with pytest.raises(ValueError, match="an outcome of"):
        table.finish(row.number, {"text": "x" * candidates.MOST_OUTCOME_BYTES})
    with pytest.raises(LookupError, match="no row 99"):
        table.finish(99, {})


def test_a_file_of_another_program_or_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "candidates.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    with pytest.raises(ForeignDatabaseError, match="another program"):
        Candidates(path)
    path.unlink()
    Candidates(path).close()
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerSchemaError, match="99"):
        Candidates(path)
    for side in tmp_path.iterdir():
        side.unlink()
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreCorruptError, match="move it away"):
        Candidates(path)
