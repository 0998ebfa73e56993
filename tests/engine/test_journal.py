"""The event stream: one order for all, replayed to those who come late, and nobody who is slow holds it up."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import journal as journal_module
from aisp.engine.journal import MOST_REPLIES, ClientGoneError, Journal, Outbox
from aisp.engine.protocol import events
from aisp.engine.protocol.framing import Decoder


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path)
    yield made
    made.close()


def log_line(number: int, size: int = 0) -> events.LogLine:
    return events.LogLine(level="INFO", text=f"{number} " + "x" * size)


def decoded(data: bytes) -> list[Any]:
    return list(Decoder[events.AnyEvent](events.AnyEvent).feed(data))


def replay(journal: Journal, seq: int = 1) -> list[Any]:
    """What a client that comes late receives, piece by piece."""
    found: list[Any] = []
    while seq < journal.next_seq:
        data, following = journal.piece(seq)
        assert following > seq
        found += decoded(data)
        seq = following
    return found


def numbers(found: list[Any]) -> list[int]:
    """Every number from the first to the last, whether it came as an event or was told to be missing."""
    seen: list[int] = []
    for event in found:
        seen += range(event.first, event.last + 1) if isinstance(event, events.Gap) else [event.seq]
    return seen


async def drained(outbox: Outbox) -> list[Any]:
    """Everything that is queued for a client now."""
    found: list[Any] = []
    while True:
        try:
            found += decoded(await asyncio.wait_for(outbox.next_bytes(), 0.05))
        except TimeoutError:
            return found


# -- order and replay --------------------------------------------------------------------------------------------------


async def test_events_are_numbered_from_one_without_a_hole_in_the_order_of_publishing(journal: Journal) -> None:
    outbox = Outbox()
    journal.outboxes.add(outbox)
    for number in range(1, 501):
        assert journal.next_seq == number
        journal.publish(log_line(number))
    found = await drained(outbox)
    assert [event.seq for event in found] == list(range(1, 501))
    assert [int(event.text.split()[0]) for event in found] == list(range(1, 501))


async def test_all_clients_see_the_same_stream(journal: Journal) -> None:
    outboxes = [Outbox(), Outbox()]
    journal.outboxes.update(outboxes)
    for number in range(100):
        journal.publish(log_line(number))
    first, second = [await drained(outbox) for outbox in outboxes]
    assert first == second
    assert len(first) == 100


@pytest.mark.parametrize("start", [1, 2, 57, 999, 1000])
def test_the_past_can_be_replayed_from_any_number(journal: Journal, start: int) -> None:
    for number in range(1, 1001):
        journal.publish(log_line(number, size=number % 700))
    found = replay(journal, start)
    assert [event.seq for event in found] == list(range(start, 1001))
    assert [int(event.text.split()[0]) for event in found] == list(range(start, 1001))


def test_there_is_nothing_after_the_last_event(journal: Journal) -> None:
    assert journal.piece(1) == (b"", 1)
    journal.publish(log_line(1))
    assert journal.piece(2) == (b"", 2)
    assert journal.piece(99) == (b"", 2)


def test_a_piece_is_bounded_and_ends_at_a_frame(journal: Journal) -> None:
    for number in range(40):
        journal.publish(log_line(number, size=20_000))
    data, following = journal.piece(1)
    assert 256 * 1024 <= len(data) < 256 * 1024 + 21_000
    assert [event.seq for event in decoded(data)] == list(range(1, following))


async def test_replay_and_the_live_stream_join_without_a_hole_or_a_double(journal: Journal) -> None:
    for number in range(30):
        journal.publish(log_line(number, size=20_000))
    seq, found = 1, []
    while seq < journal.next_seq:
        data, seq = journal.piece(seq)
        found += decoded(data)
        if len(found) < 30:
            journal.publish(log_line(99))  # the present goes on
    outbox = Outbox()
    journal.outboxes.add(outbox)
    for number in range(5):
        journal.publish(log_line(number))
    found += await drained(outbox)
    assert [event.seq for event in found] == list(range(1, journal.next_seq))


# -- rotation ----------------------------------------------------------------------------------------------------------


def test_old_events_are_forgotten_file_by_file_and_the_gap_says_which(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "KEPT_BYTES", 10_000)
    for number in range(1, 501):
        journal.publish(log_line(number, size=200))
    files = sorted(tmp_path.glob("*.events"), key=lambda path: int(path.stem))
    assert len(files) == 2
    assert all(path.stat().st_size < 10_000 + 300 for path in files)
    oldest = int(files[0].stem)
    assert oldest > 300
    found = replay(journal)
    assert isinstance(found[0], events.Gap)
    assert (found[0].first, found[0].last) == (1, oldest - 1)
    assert [event.seq for event in found[1:]] == list(range(oldest, 501))
    assert [event.seq for event in replay(journal, oldest)] == list(range(oldest, 501))


def test_a_new_engine_begins_with_an_empty_journal_that_only_the_owner_can_read(tmp_path: Path) -> None:
    (tmp_path / "17.events").write_bytes(b"of an engine that died")
    (tmp_path / "keep.txt").write_text("not ours")
    journal = Journal(tmp_path)
    assert journal.next_seq == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.events", "keep.txt"]
    assert stat.S_IMODE((tmp_path / "1.events").stat().st_mode) == 0o600
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keep.txt"]


def test_closing_gives_every_descriptor_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "KEPT_BYTES", 1_000)
    before = len(list(Path("/proc/self/fd").iterdir()))
    journal = Journal(tmp_path)
    for number in range(200):
        journal.publish(log_line(number, size=100))
    journal.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# -- slow clients ------------------------------------------------------------------------------------------------------


async def test_a_client_that_never_reads_loses_the_oldest_and_is_told_exactly_which(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "CLIENT_QUEUE_BYTES", 50_000)
    slow, quick = Outbox(), Outbox()
    journal.outboxes.update({slow, quick})
    seen: list[Any] = []
    for number in range(1, 1001):
        journal.publish(log_line(number, size=500))
        if number % 50 == 0:
            seen += await drained(quick)
    assert [event.seq for event in seen] == list(range(1, 1001))  # the slow one held up nobody
    found = await drained(slow)
    assert isinstance(found[0], events.Gap)
    assert (found[0].first, found[0].last) == (1, found[1].seq - 1)
    assert [event.seq for event in found[1:]] == list(range(found[1].seq, 1001))
    assert 80 < len(found) < 100  # what fits into the queue was kept


async def test_a_client_that_reads_now_and_then_can_account_for_every_number(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "CLIENT_QUEUE_BYTES", 20_000)
    outbox = Outbox()
    journal.outboxes.add(outbox)
    found: list[Any] = []
    for number in range(1, 2001):
        journal.publish(log_line(number, size=300))
        if number % 150 == 0:
            found += decoded(await outbox.next_bytes())
    found += await drained(outbox)
    assert sum(isinstance(event, events.Gap) for event in found) >= 10
    assert numbers(found) == list(range(1, 2001))


async def test_one_event_larger_than_the_queue_still_arrives(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "CLIENT_QUEUE_BYTES", 1_000)
    outbox = Outbox()
    journal.outboxes.add(outbox)
    journal.publish(log_line(1, size=5_000))
    assert numbers(await drained(outbox)) == [1]


async def test_answers_are_never_dropped_however_many_events_there_are(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "CLIENT_QUEUE_BYTES", 1_000)
    outbox = Outbox()
    journal.outboxes.add(outbox)
    for number in range(200):
        outbox.reply(events.Reply(to=number))
        journal.publish(log_line(number, size=500))
    found = await drained(outbox)
    assert [event.to for event in found if isinstance(event, events.Reply)] == list(range(200))


async def test_a_client_that_asks_without_ever_reading_is_let_go() -> None:
    outbox = Outbox()
    for number in range(MOST_REPLIES):
        outbox.reply(events.Reply(to=number))
    with pytest.raises(ClientGoneError, match=f"{MOST_REPLIES} answers are waiting to be read"):
        outbox.reply(events.Reply(to=MOST_REPLIES))
    assert len(await drained(outbox)) == MOST_REPLIES
    outbox.reply(events.Reply(to=7))  # one that reads may go on
    assert [event.to for event in await drained(outbox)] == [7]


async def test_waiting_for_events_ends_with_the_first_one(journal: Journal) -> None:
    outbox = Outbox()
    journal.outboxes.add(outbox)
    waiting = asyncio.create_task(outbox.next_bytes())
    await asyncio.sleep(0)
    assert not waiting.done()
    journal.publish(log_line(1))
    assert numbers(decoded(await asyncio.wait_for(waiting, 5))) == [1]


# -- a full disk -------------------------------------------------------------------------------------------------------


class FullDisk:
    """Stands in for os.pwrite: between `fill` and `free`, nothing or only a part goes in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self._real = os.pwrite
        monkeypatch.setattr(os, "pwrite", self)

    def __call__(self, fd: int, data: bytes, offset: int) -> int:
        if self.room is None:
            return self._real(fd, data, offset)
        if self.room == 0:
            raise OSError(28, "No space left on device")
        return self._real(fd, data[: self.room], offset)


@pytest.mark.parametrize("room", [0, 5])
async def test_on_a_full_disk_the_live_stream_goes_on(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    disk = FullDisk(monkeypatch)
    outbox = Outbox()
    journal.outboxes.add(outbox)
    for number in range(1, 31):
        disk.room = room if 11 <= number <= 20 else None
        journal.publish(log_line(number))
    assert numbers(await drained(outbox)) == list(range(1, 31))


@pytest.mark.parametrize("room", [0, 5])
@pytest.mark.parametrize("start", [1, 11, 15, 20, 21, 30])
def test_a_latecomer_is_told_what_a_full_disk_swallowed(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, room: int, start: int
) -> None:
    disk = FullDisk(monkeypatch)
    for number in range(1, 31):
        disk.room = room if 11 <= number <= 20 else None
        journal.publish(log_line(number))
    found = replay(journal, start)
    assert numbers(found) == list(range(start, 31))
    gaps = [(event.first, event.last) for event in found if isinstance(event, events.Gap)]
    assert gaps == ([(max(start, 11), 20)] if start <= 20 else [])


def test_a_disk_that_is_full_to_the_end_swallows_the_last_events_and_says_so(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch)
    for number in range(1, 11):
        disk.room = 0 if number > 4 else None
        journal.publish(log_line(number))
    found = replay(journal)
    assert numbers(found) == list(range(1, 11))
    assert (found[-1].first, found[-1].last) == (5, 10)


def test_when_no_new_file_can_be_made_the_stream_goes_on(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "KEPT_BYTES", 1_000)

    def refuse(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    for number in range(1, 8):
        journal.publish(log_line(number, size=200))
    monkeypatch.setattr(os, "open", refuse)
    for number in range(8, 20):
        journal.publish(log_line(number, size=200))
    monkeypatch.undo()
    journal.publish(log_line(20))
    assert journal.next_seq == 21
    assert numbers(replay(journal)) == list(range(1, 21))
