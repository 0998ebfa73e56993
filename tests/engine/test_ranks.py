"""Several processes as one arm: what their reports become together, and that none is left where one fails."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from aisp.engine import ranks as ranks_module
from aisp.engine.protocol import jobs, reports
from aisp.engine.ranks import Ranks
from aisp.engine.spawner import Child, ChildGoneError, ChildTimeoutError, ForgedReportError, Ring
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing
from tests.engine.harness import EngineUnderTest, Result

BLOB = jobs.Blob(name="nowhere")
PATIENCE_S = 5.0
NEVER = object()


class Scripted:
    """A rank that says what the test wrote down: reports, errors to raise, or NEVER for silence."""

    def __init__(self, *says: object, code: int | None = 0, pid: int = 1) -> None:
        self.pid = pid
        self.ready = reports.Ready(pid=pid, torch="2", cuda="")
        self.stderr = Ring()
        self.stderr.add(b"rank %d was here" % pid)
        self.signal_sent_by_us = False
        self.alive = True
        self.code = code
        self.asked: list[jobs.AnyJob] = []
        self.cancelled = 0
        self._says = list(says)

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.AnyReport:
        self.asked.append(job)
        return await self.receive(patience_s)

    async def receive(self, patience_s: float) -> reports.AnyReport:
        said = self._says.pop(0)
        if said is NEVER:
            try:
                await asyncio.sleep(patience_s)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            raise ChildTimeoutError(f"no sign of progress for {patience_s:.0f} s")
        await asyncio.sleep(0)
        if isinstance(said, Exception):
            raise said
        return cast("reports.AnyReport", said)

    async def wait(self, patience_s: float) -> int | None:
        return self.code

    async def end(self, *, gently: bool = True) -> int | None:
        if self.alive and self.code is None:
            self.signal_sent_by_us, self.code = True, -15
        self.alive = False
        return self.code


def ranks_of(*scripted: Scripted) -> Ranks:
    return Ranks(cast("Sequence[Child]", scripted))


async def together(*said: object) -> Any:
    """What reports of rank 0, 1, ... become."""
    return await ranks_of(*(Scripted(report) for report in said)).receive(PATIENCE_S)


def samples(*times_ms: float, sets: Sequence[int] = (), **given: Any) -> reports.Samples:
    count = len(times_ms)
    known: dict[str, Any] = {
        "host_ms": [1.0] * count,
        "start_ns": [0] * count,
        "end_ns": list(range(count)),
        "discarded": [0] * count,
        "sm_clock_mhz": [math.nan] * count,
        "probe_ms": [math.nan] * count,
        "cycles": [math.nan] * count,
        "fingerprints": [float(number) for number in range(2 * count)],
        "width": 2,
    }
    known |= given
    numbers = list(sets) or [0] * count
    return reports.Samples(round=3, calls=1, sets=numbers, device_ms=list(times_ms), last=True, **known)


def done(*times_ms: float) -> reports.Done:
    packed = struct.pack(f"<{len(times_ms)}d", *times_ms)
    return reports.Done(samples=len(times_ms), sha256=hashlib.sha256(packed).hexdigest())


# -- what reports become -----------------------------------------------------------------------------------------------


async def test_a_sample_lasts_as_long_as_its_slowest_rank() -> None:
    found = await together(
        samples(
            *(1.0, 5.0), host_ms=[0.1, 0.5], start_ns=[40, 9000], end_ns=[100, 900], discarded=[0, 1],
            sm_clock_mhz=[1980.0, 1410.0],
            probe_ms=[1.1, 5.1], cycles=[2e6, math.nan],
        ),
        samples(
            *(4.0, 2.0), host_ms=[0.4, 0.2], start_ns=[1040, 7000], end_ns=[300, 700], discarded=[2, 0],
            sm_clock_mhz=[1755.0, 1980.0],
            probe_ms=[4.1, 2.1], cycles=[8e6, 4e6],
        ),
    )  # fmt: skip
    assert found.device_ms == [4.0, 5.0]
    assert found.host_ms == [0.4, 0.5]
    assert found.end_ns == [300, 900]
    assert found.discarded == [2, 1]
    assert found.sm_clock_mhz == [1755.0, 1410.0]
    assert found.probe_ms == [4.1, 5.1]
    assert found.cycles[0] == 8e6
    assert math.isnan(found.cycles[1])
    # What each of them did stands beside it, sample by sample.
    assert found.rank_ms == [[1.0, 4.0], [5.0, 2.0]]
    assert found.rank_late_us == [[0.0, 1.0], [2.0, 0.0]]
    assert found.rank_clock_mhz == [[1980.0, 1755.0], [1410.0, 1980.0]]
    assert found.start_ns == [40, 7000]


@pytest.mark.parametrize("torn", ["start_ns", "host_ms", "end_ns", "sm_clock_mhz"])
async def test_a_rank_whose_lists_are_of_different_length_is_not_believed(torn: str) -> None:
    with pytest.raises(ForgedReportError, match="rank 1 took other samples than rank 0"):
        await together(samples(1.0), samples(1.0, **{torn: [1, 2]}))


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
async def test_a_time_that_is_no_number_on_one_rank_is_none_of_the_sample(odd: float) -> None:
    found = await together(samples(1.0, 2.0), samples(3.0, odd))
    assert found.device_ms[0] == 3.0
    assert math.isnan(found.device_ms[1])


async def test_fingerprints_stand_call_by_call_and_in_each_rank_by_rank() -> None:
    found = await together(
        samples(1.0, 1.0, fingerprints=[1.0, 2.0, 3.0, 4.0]), samples(1.0, 1.0, fingerprints=[5.0, 6.0, 7.0, 8.0])
    )
    assert found.width == 4
    assert found.fingerprints == [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0]
    # The same order as that of a verified call, with which they are compared.
    executed = await together(
        reports.Executed(outputs=BLOB, fingerprint=[1.0, 2.0]), reports.Executed(outputs=BLOB, fingerprint=[5.0, 6.0])
    )
    assert executed.fingerprint == found.fingerprints[:4]


async def test_memory_and_waiting_are_those_of_the_rank_with_most() -> None:
    executed = await together(
        reports.Executed(outputs=BLOB, fingerprint=[], peak_bytes=10),
        reports.Executed(outputs=BLOB, fingerprint=[], peak_bytes=30),
    )
    assert executed.peak_bytes == 30
    prepared = await together(*(reports.Prepared(prepare_ms=ms, for_buffers=False) for ms in (900.0, 20.0)))
    assert prepared.prepare_ms == 900.0
    warmed = [
        reports.WarmedUp(
            per_call_ms=a, per_sample_ms=b, calls=12, timing="host", reference_mhz=1.0, resolution_ms=None,
            overhead_ms=None,
        )
        for a, b in ((1.0, 9.0), (2.0, 3.0))
    ]  # fmt: skip
    warm = await together(*warmed)
    assert (warm.per_call_ms, warm.per_sample_ms) == (2.0, 9.0)


async def test_memory_that_no_rank_knows_stays_unknown() -> None:
    executed = await together(*(reports.Executed(outputs=BLOB, fingerprint=[]) for _ in range(2)))
    assert executed.peak_bytes is None


async def test_facts_of_further_ranks_stand_beside_those_of_the_first() -> None:
    found = await together(
        *(reports.Inspected(sensed=[reports.Sensed(failed={"idle": why})], cost_us={"idle": 1.0}) for why in "abc")
    )
    assert [told.failed["idle"] for told in found.sensed] == ["a", "b", "c"]


async def test_every_rank_gets_the_same_job_and_loads_as_the_rank_that_it_is() -> None:
    loaded = reports.Loaded(import_ms=1.0)
    scripted = [Scripted(loaded, reports.Sustained(calls=2)) for _ in range(3)]
    ranks = ranks_of(*scripted)
    load = jobs.Load(
        folder=b"f", root=b"r", chapter="c", target_id="t", module="m", device="cpu", ranks=3, rendezvous="p"
    )
    assert await ranks.ask(load, PATIENCE_S) == loaded
    assert await ranks.ask(jobs.Sustain(case="cpu", calls=2), PATIENCE_S) == reports.Sustained(calls=2)
    assert [cast("jobs.Load", one.asked[0]).rank for one in scripted] == [0, 1, 2]
    assert {
        (cast("jobs.Load", one.asked[0]).ranks, cast("jobs.Load", one.asked[0]).rendezvous) for one in scripted
    } == {(3, "p")}
    assert [one.asked[1] for one in scripted] == [jobs.Sustain(case="cpu", calls=2)] * 3


# -- ranks that disagree -----------------------------------------------------------------------------------------------


async def test_done_holds_for_the_merged_samples_where_each_rank_sent_what_arrived() -> None:
    ranks = ranks_of(Scripted(samples(1.0, 5.0), done(1.0, 5.0)), Scripted(samples(4.0, 2.0), done(4.0, 2.0)))
    await ranks.receive(PATIENCE_S)
    assert await ranks.receive(PATIENCE_S) == done(4.0, 5.0)


@pytest.mark.parametrize("lie", [done(4.0), done(4.0, 2.5), reports.Done(samples=2, sha256="")])
async def test_a_rank_that_claims_other_samples_than_arrived_is_found(lie: reports.Done) -> None:
    ranks = ranks_of(Scripted(samples(1.0, 5.0), done(1.0, 5.0)), Scripted(samples(4.0, 2.0), lie))
    await ranks.receive(PATIENCE_S)
    with pytest.raises(ForgedReportError, match="rank 1 sent other samples than arrived"):
        await ranks.receive(PATIENCE_S)


async def test_ranks_that_answer_different_things_are_no_answer() -> None:
    with pytest.raises(ForgedReportError, match="the ranks answered Samples, Sustained"):
        await together(samples(1.0), reports.Sustained(calls=1))


@pytest.mark.parametrize("other", [samples(1.0), samples(1.0, 1.0, sets=[0, 1])])
async def test_ranks_that_took_different_samples_are_no_answer(other: reports.Samples) -> None:
    with pytest.raises(ForgedReportError, match="rank 1 took other samples than rank 0"):
        await together(samples(1.0, 1.0, sets=[0, 0]), other)


# -- a rank that fails -------------------------------------------------------------------------------------------------

FAILED = reports.Failed(job="execute", kind="user", summary="ValueError: no", traceback="")
SHORT_S = 0.05


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks_module, "AFTERWARDS_S", SHORT_S)


@pytest.mark.usefixtures("impatient")
async def test_what_one_rank_says_of_its_failure_is_told_while_the_other_still_waits() -> None:
    waiting, failing = Scripted(NEVER, pid=7), Scripted(FAILED, pid=8)
    ranks = ranks_of(waiting, failing)
    assert await ranks.receive(600.0) is FAILED
    assert waiting.cancelled == 1
    assert ranks.stderr.text() == b"rank 8 was here"


@pytest.mark.usefixtures("impatient")
async def test_a_rank_that_died_is_the_reason_and_not_what_the_others_say_about_it() -> None:
    died = ChildGoneError("the line to the process was closed")
    for order in (0, 1):
        complaining, dead = Scripted(FAILED, code=None, pid=7), Scripted(died, code=-11, pid=8)
        dead.alive = False
        ranks = ranks_of(*((complaining, dead) if order else (dead, complaining)))
        with pytest.raises(ChildGoneError, match="closed"):
            await ranks.receive(PATIENCE_S)
        assert await ranks.wait(0.0) == -11, "the other rank's being alive says nothing of the one that died"
        assert await ranks.end() == -11
        assert ranks.stderr.text() == b"rank 8 was here"
        assert not ranks.signal_sent_by_us
        assert complaining.signal_sent_by_us, "the rank that waited was ended by us"
        assert not ranks.alive


async def test_a_rank_that_gives_no_sign_is_the_one_that_is_shown() -> None:
    ranks = ranks_of(Scripted(reports.Sustained(calls=1), pid=7), Scripted(NEVER, pid=8))
    with pytest.raises(ChildTimeoutError):
        await ranks.receive(SHORT_S)
    assert ranks.stderr.text() == b"rank 8 was here"


async def test_ranks_that_end_well_have_ended_when_the_last_has() -> None:
    assert await ranks_of(Scripted(), Scripted()).wait(0.0) == 0
    assert await ranks_of(Scripted(), Scripted(code=None)).wait(0.0) is None
    assert await ranks_of(Scripted(), Scripted(code=3), Scripted(code=4)).end() == 3


# -- through the engine ------------------------------------------------------------------------------------------------

LESSON = """\
+++
title = "A mean of two ranks"
techniques = ["all-reduce"]
ranks = 2
axes = { N = 4096 }
flops = "0"
tolerance = { float32 = 1e-5 }

[inputs]
x = "float32 [2, N] normal cpu"
[outputs]
y = "float32 [2, N]"
+++

The mean over both ranks.
"""
MEAN = """\
import os
import signal
import time

import torch.distributed as dist

calls = []


def run(x):
    {first}
    y = x / 2
    dist.all_reduce(y)
    return y
"""
REFERENCE = "def run(x):\n    return x.double().mean(0).expand(x.shape).contiguous()\n"
RUNGS = {
    "optimized": "y = x",
    "optimized_dies": "if dist.get_rank() == 1:\n        os.kill(os.getpid(), signal.SIGSEGV)",
    "optimized_raises": "if dist.get_rank() == 1:\n        raise ValueError('rank 1 has had enough')",
    "optimized_leaves": "if dist.get_rank() == 0:\n        os._exit(3)",
    # In its second call: the first may take as long as a compiler does.
    "optimized_hangs": "calls.append(1)\n    if dist.get_rank() == 1 and len(calls) == 2:\n        time.sleep(600)",
    "optimized_alone": "if dist.get_rank() == 1:\n        dist.all_reduce(x.clone())\n        return x",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "mine" / "mean"
    folder.mkdir(parents=True)
    (folder / "lesson.md").write_text(LESSON)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "baseline.py").write_text(MEAN.format(first="x = x.clone()"))
    for name, first in RUNGS.items():
        (folder / f"{name}.py").write_text(MEAN.format(first=first))
    return tmp_path / "mine"


@pytest.mark.xdist_group("engine")
@pytest.mark.timeout(180)
@pytest.mark.slow
async def test_a_run_of_two_ranks_is_timed_judged_and_stored(shared: EngineUnderTest, root: Path) -> None:
    result = await shared.run(root, "mine:mean", rungs=["optimized"], naive=True)
    record = result.record
    assert (record.state, record.correctness) == (State.OK, Correctness.CORRECT), record.reason
    for name in ("baseline", "optimized"):
        arm = result.arm(name)
        assert (arm.state, arm.timing) == (State.OK, Timing.HOST)
        assert arm.median_ms is not None and 0 < arm.median_ms < 1000
        assert arm.sample_count > 0
        ranks = arm.ranks
        assert ranks is not None and len(ranks.each) == 2
        assert sum(rank.slowest_share for rank in ranks.each) == pytest.approx(1.0)
        assert 0 <= ranks.skew_us <= ranks.skew_most_us
    with shared.history() as history:
        for name, taken in history.samples(record.id).items():
            assert taken.ranks == 2, name
            assert taken.rank_ms.max(axis=1).tolist() == taken.device_ms.tolist()
            assert (taken.rank_late_us.min(axis=1) == 0).all(), "one rank is the first"
    naive = result.arm("optimized").naive
    assert naive is not None
    assert naive.accepts, naive.note
    about = {f.check: f for f in record.findings if f.arm == "optimized" and f.check.startswith("distributed.")}
    assert {finding.status for finding in about.values()} == {FindingStatus.PASSED}, about
    assert "1 all_reduce" in about["distributed.exchange"].evidence
    assert "rank 1" in about["distributed.every_rank"].evidence
    assert [c.rung for c in record.comparisons] == ["optimized"]
    await nothing_is_left(shared)


@pytest.mark.evil
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("rung", "state", "says"),
    [
        ("optimized_dies", State.CRASHED, "optimized_dies (rank 1) died of SIGSEGV"),
        ("optimized_raises", State.USER_ERROR, "optimized_raises (rank 1): ValueError: rank 1 has had enough"),
        ("optimized_leaves", State.PREMATURE_EXIT, "optimized_leaves (rank 0) left with status 3"),
        ("optimized_hangs", State.TIMEOUT_PROGRESS, "gave no sign of progress"),
        ("optimized_alone", State.INCORRECT, "y[1, "),
    ],
)
async def test_a_rank_that_fails_ends_its_arm_and_no_other(
    shared: EngineUnderTest, root: Path, rung: str, state: State, says: str
) -> None:
    result: Result = await shared.run(root, "mine:mean", rungs=[rung])
    arm = result.arm(rung)
    assert (arm.state, says in arm.reason) == (state, True), f"{arm.state}: {arm.reason}"
    assert arm.median_ms is None
    assert result.arm("baseline").state is State.OK
    await nothing_is_left(shared)


async def nothing_is_left(engine: EngineUnderTest) -> None:
    """No process of a run, and no file in which ranks met."""
    await engine.steady()
    # Folders of processes that have ended go meanwhile: os.walk passes over what is gone.
    names = [name for _, folders, files in os.walk(engine.environment["AISP_STATE"]) for name in (*folders, *files)]
    assert [name for name in names if name.startswith(".rendezvous-")] == []
    standing_by = {process.pid for process in engine.workers()}
    assert [process.pid for process in engine.strays() if process.pid not in standing_by] == []
