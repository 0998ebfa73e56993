"""Several processes that are one arm: the ranks of a distributed lesson, driven in step.

A target that says `ranks = 2` runs every rung in two processes with a torch.distributed group between them (NCCL on
GPUs, one each; gloo on a CPU). Every input and output has a leading dimension of that size, and each rank gets, and
gives, its slice. So the verifier sees the outputs of all ranks, the time of a sample is the slowest rank's, and a rank
that does nothing is as wrong as any other wrong output. Each rank's own time is kept beside it, with the clock of its
GPU and how much later than the first it began: they leave a barrier one after the other.

Each rank takes the same jobs at the same time, and their reports are merged into one. Where one fails, the others,
which may wait for it, are ended. The arm then ends with what happened to the rank that failed first: where one dies,
others raise errors about it, and often these errors arrive earlier.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from aisp.engine.protocol import jobs, reports
from aisp.engine.spawner import Child, ForgedReportError, Ring

AFTERWARDS_S = 0.5  # in which a failed rank's siblings may report something worse


class Ranks:
    """Stands for its processes wherever one process is expected; see engine.spawner.Child for each method."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = list(children)
        self._blamed: Child | None = None  # the rank that failed
        self._sent = [0] * len(children)
        self._digests = [hashlib.sha256() for _ in children]
        self._merged_sent = 0
        self._merged = hashlib.sha256()

    @property
    def children(self) -> list[Child]:
        """The processes, rank by rank."""
        return list(self._children)

    @property
    def blamed(self) -> int | None:
        """The rank that failed; None where none has."""
        return None if self._blamed is None else self._children.index(self._blamed)

    @property
    def pid(self) -> int:
        """PID of rank 0."""
        return self._children[0].pid

    @property
    def ready(self) -> reports.Ready | None:
        """The Ready report of rank 0."""
        return self._children[0].ready

    @property
    def oom_kills(self) -> int:
        """Kills that were counted when the first rank was taken."""
        return self._children[0].oom_kills

    @property
    def stderr(self) -> Ring:
        """Stderr of the rank that failed, else of rank 0."""
        return (self._blamed or self._children[0]).stderr

    @property
    def signal_sent_by_us(self) -> bool:
        """Whether we ended the rank that failed, or any of them where none has failed."""
        if self._blamed is not None:
            return self._blamed.signal_sent_by_us
        return any(child.signal_sent_by_us for child in self._children)

    @property
    def alive(self) -> bool:
        """Whether any of them lives."""
        return any(child.alive for child in self._children)

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.AnyReport:
        """Send the same job to every rank, and merge their reports into one."""
        return await self._together(
            [child.ask(_for_rank(job, rank), patience_s) for rank, child in enumerate(self._children)]
        )

    async def receive(self, patience_s: float) -> reports.AnyReport:
        """The next report of every rank as one."""
        return await self._together([child.receive(patience_s) for child in self._children])

    async def _together(self, answers: Sequence[Any]) -> reports.AnyReport:
        tasks = [asyncio.ensure_future(answer) for answer in answers]
        try:
            for finished in asyncio.as_completed(tasks):
                report = await finished
                if isinstance(report, reports.Failed):
                    await asyncio.wait(tasks, timeout=AFTERWARDS_S)  # they may wait for this one for ever
                    for task in tasks:
                        if task.done():
                            task.result()
                    failed = [task.done() and task.result() is report for task in tasks]
                    self._blamed = self._children[failed.index(True)]
                    return report
        except Exception:
            gone = [task.done() and not task.cancelled() and task.exception() is not None for task in tasks]
            self._blamed = self._children[gone.index(True)]
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._merge([task.result() for task in tasks])

    def _merge(self, by_rank: Sequence[Any]) -> reports.AnyReport:
        """Merge several reports of one kind: times are the slowest rank's."""
        first = by_rank[0]
        if any(type(report) is not type(first) for report in by_rank):
            raise ForgedReportError(f"the ranks answered {', '.join(type(report).__name__ for report in by_rank)}")
        match first:
            case reports.Samples():
                return self._samples(by_rank)
            case reports.Executed():
                peaks = [report.peak_bytes for report in by_rank if report.peak_bytes is not None]
                return msgspec.structs.replace(
                    first,
                    fingerprint=[number for report in by_rank for number in report.fingerprint],
                    peak_bytes=max(peaks, default=None),
                )
            case reports.Prepared():
                return msgspec.structs.replace(first, prepare_ms=max(report.prepare_ms for report in by_rank))
            case reports.WarmedUp():
                return msgspec.structs.replace(
                    first,
                    per_call_ms=max(report.per_call_ms for report in by_rank),
                    per_sample_ms=max(report.per_sample_ms for report in by_rank),
                )
            case reports.Inspected():
                return msgspec.structs.replace(first, sensed=[sensed for report in by_rank for sensed in report.sensed])
            case reports.Done():
                return self._done(by_rank)
        return first  # type: ignore[no-any-return]

    def _samples(self, by_rank: Sequence[reports.Samples]) -> reports.Samples:
        first = by_rank[0]
        for rank, report in enumerate(by_rank):
            columns = (report.device_ms, report.host_ms, report.start_ns, report.end_ns, report.sm_clock_mhz)
            if report.sets != first.sets or any(len(column) != len(first.device_ms) for column in columns):
                raise ForgedReportError(f"rank {rank} took other samples than rank 0")
            self._sent[rank] += len(report.device_ms)
            self._digests[rank].update(struct.pack(f"<{len(report.device_ms)}d", *report.device_ms))
        times = _slowest(report.device_ms for report in by_rank)
        self._merged_sent += len(times)
        self._merged.update(struct.pack(f"<{len(times)}d", *times))
        begun_ns = [min(starts) for starts in zip(*(report.start_ns for report in by_rank), strict=True)]
        width = sum(report.width for report in by_rank)
        return msgspec.structs.replace(
            first,
            device_ms=times,
            host_ms=_slowest(report.host_ms for report in by_rank),
            start_ns=begun_ns,
            end_ns=[max(ends) for ends in zip(*(report.end_ns for report in by_rank), strict=True)],
            discarded=[max(codes) for codes in zip(*(report.discarded for report in by_rank), strict=True)],
            sm_clock_mhz=[min(clocks) for clocks in zip(*(report.sm_clock_mhz for report in by_rank), strict=True)],
            # Like the times: where two clocks agree on every rank, they agree on the slowest.
            probe_ms=_slowest(report.probe_ms for report in by_rank),
            cycles=_slowest(report.cycles for report in by_rank),
            rank_ms=_by_sample(report.device_ms for report in by_rank),
            rank_late_us=_by_sample(
                [(start - first) / 1e3 for start, first in zip(report.start_ns, begun_ns, strict=True)]
                for report in by_rank
            ),
            rank_clock_mhz=_by_sample(report.sm_clock_mhz for report in by_rank),
            fingerprints=[
                number
                for call in range(len(first.sets))
                for report in by_rank
                for number in report.fingerprints[call * report.width : (call + 1) * report.width]
            ],
            width=width,
        )

    def _done(self, by_rank: Sequence[reports.Done]) -> reports.Done:
        for rank, report in enumerate(by_rank):
            if report.samples != self._sent[rank] or (
                report.samples and report.sha256 != self._digests[rank].hexdigest()
            ):
                raise ForgedReportError(f"rank {rank} sent other samples than arrived")
        return reports.Done(samples=self._merged_sent, sha256=self._merged.hexdigest())

    async def wait(self, patience_s: float) -> int | None:
        """Exit status of the rank that failed; else None where one has not ended in time, else the first bad one."""
        if self._blamed is not None:
            return await self._blamed.wait(patience_s)
        return self._status(await asyncio.gather(*(child.wait(patience_s) for child in self._children)))

    async def end(self, *, gently: bool = True) -> int | None:
        """Bring all of them to an end; as for wait."""
        return self._status(await asyncio.gather(*(child.end(gently=gently) for child in self._children)))

    def _status(self, codes: Sequence[int | None]) -> int | None:
        if None in codes:
            return None
        if self.blamed is not None:
            return codes[self.blamed]
        return next((code for code in codes if code), 0)


Process: TypeAlias = Child | Ranks
"""What an arm runs in."""


def _for_rank(job: jobs.AnyJob, rank: int) -> jobs.AnyJob:
    if isinstance(job, (jobs.Load, jobs.Naive)):
        return msgspec.structs.replace(job, rank=rank)
    return job


def _by_sample(columns: Iterable[Sequence[float]]) -> list[list[float]]:
    """What stands rank by rank, sample by sample."""
    return [list(row) for row in zip(*columns, strict=True)]


def _slowest(times: Any) -> list[float]:
    return [max(each) if all(map(math.isfinite, each)) else math.nan for each in zip(*times, strict=True)]
