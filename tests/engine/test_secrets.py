"""While a run goes on, what it draws is in no file, argument, variable or message that a rung or its child can read."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aisp.engine.protocol import events, requests
from aisp.store.commitment import COMMITMENT, HELD_OUT, NONCE, kept
from aisp.store.outcomes import State
from aisp.store.reader import History
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(240)]

CPU = '[[cases]]\nname = "cpu"\naxes = { N = 4096 }\n'
SPY = '''
import os, subprocess, sys, uuid
import msgspec
from aisp.engine.worker.channel import Channel

OUT, STATE = {out!r}, {state!r}
CHILD = """
import hashlib, os, sys, time
out, state, parent, seen = sys.argv[1], sys.argv[2], os.getppid(), set()
def keep(data):
    key = hashlib.sha256(data).hexdigest()
    if key not in seen:
        seen.add(key)
        with open(out + "/" + key, "wb") as file:
            file.write(data)
def copy(path):
    try:
        if path.startswith("/proc/") or os.path.isfile(path):
            with open(path, "rb") as file:
                keep(file.read(1 << 26))
    except OSError:
        pass
while os.getppid() == parent:
    for each in ("self", str(parent)):
        copy("/proc/" + each + "/cmdline")
        copy("/proc/" + each + "/environ")
    for folder, _, files in os.walk(state):
        for name in files:
            copy(folder + "/" + name)
    time.sleep(0.1)
"""
HEARD = open(OUT + "/heard-" + uuid.uuid4().hex, "ab", buffering=0)


def heard(job):
    HEARD.write(repr(job).encode() + msgspec.msgpack.encode(job))


frame = sys._getframe()
while frame is not None:  # the job that is under way
    for value in list(frame.f_locals.values()):
        if isinstance(value, msgspec.Struct):
            heard(value)
    frame = frame.f_back
receive = Channel.receive


def listening(self):
    job = receive(self)
    heard(job)
    return job


Channel.receive = listening
subprocess.Popen([sys.executable, "-c", CHILD, OUT, STATE])


def prepare(x):
    return lambda x: x * 2
'''


@pytest.fixture
def out() -> Iterator[Path]:
    """Where a confined process may write."""
    folder = Path(tempfile.mkdtemp(prefix="secrets-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


def forms(number: int) -> set[bytes]:
    """A number as it may stand somewhere."""
    spelled = {str(number), f"{number:x}", f"{number:X}"}
    packed = {msgspec.msgpack.encode(number), struct.pack("<q", number), struct.pack(">q", number)}
    least = number.to_bytes((number.bit_length() + 7) // 8, "big")  # as SQLite stores it
    return {text.encode() for text in spelled} | packed | {least, least[::-1]}


@pytest.mark.slow
async def test_nothing_that_a_rung_or_its_child_reads_holds_what_its_run_draws(
    shared: EngineUnderTest, tmp_path: Path, out: Path
) -> None:
    spy = SPY.format(out=str(out), state=shared.environment["AISP_STATE"])
    write_target(tmp_path / "mine", {"optimized.py": spy}, axes="{ N = 4096 }", cases=CPU)
    result = await shared.run(tmp_path / "mine", "mine:one", rungs=["optimized"], naive=True)
    record = result.record
    assert record.arm("optimized").sample_count > 0, record.reason
    assert kept(record) is True
    (planned,) = result.of(events.RunPlanned)
    assert planned.run.manifest[COMMITMENT] == record.manifest[COMMITMENT], "whoever heard the plan can check the end"
    assert record.seed is not None
    numbers = [record.seed, *record.manifest[HELD_OUT]]
    wanted = {form: number for number in numbers for form in forms(number)} | {record.manifest[NONCE].encode(): 0}
    read = {path.name: path.read_bytes() for path in out.iterdir()}
    messages = b"".join(data for name, data in read.items() if name.startswith("heard-"))
    for job in (b"Load(", b"TakeInputs(", b"Try(", b"Naive("):
        assert job in messages, "the rung hears every job of its own"
    assert any(str(out).encode() in data for name, data in read.items() if not name.startswith("heard-"))
    assert [(number, name) for name, data in read.items() for form, number in wanted.items() if form in data] == []


async def test_a_run_that_is_cancelled_before_it_begins_says_what_it_had_drawn(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    write_target(tmp_path / "mine", {}, name="one", cases=CPU)
    write_target(tmp_path / "mine", {}, name="two", cases=CPU)
    async with shared.stream() as stream:
        first, second = await stream.plan(tmp_path / "mine", "mine:one", "mine:two")
        with History(Path(shared.environment["AISP_STATE"]) / "aisp.db") as history:
            assert (history.run(second).seed, history.run(first).seed) == (None, None)
        await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=second))
        cancelled = await stream.finish(second)
        await stream.finish(first)
    assert (cancelled.state, kept(cancelled)) == (State.CANCELLED, True)
    assert kept(shared.record(second)) is True


async def test_a_fuzz_says_a_seed_that_the_engine_drew_at_its_end(shared: EngineUnderTest, tmp_path: Path) -> None:
    write_target(tmp_path / "mine", {"optimized.py": "def run(x):\n    return x * 3\n"})
    async with shared.stream() as stream:
        ask = requests.FuzzTarget(
            seq=stream.connection.next_seq(), root=str(tmp_path / "mine"), target="mine:one", rungs=["optimized"],
            device="cpu", cases=4,
        )  # fmt: skip
        (fuzz_id,) = (await stream.ask(ask)).run_ids
        end = await stream.until(events.FuzzFinished, lambda event: event.fuzz_id == fuzz_id)
        told = [event for event in stream.seen if getattr(event, "fuzz_id", "") == fuzz_id]
    (planned,) = [event for event in told if isinstance(event, events.FuzzPlanned)]
    failures = [event.failure for event in told if isinstance(event, events.FuzzFailure)]
    assert planned.seed is None
    assert {failure.seed for failure in failures} == {None, end.fuzz.seed}
    whole = [failure for failure in failures if failure.seed is not None]
    assert {failure.id for failure in whole} == {name for rung in end.fuzz.rungs for name in rung.failures}
    assert all(str(end.fuzz.seed) in failure.script for failure in whole)
    assert whole == failures[-len(whole) :], "nothing is told of a seed before all cases are judged"
