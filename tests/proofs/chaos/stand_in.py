"""A worker without torch: `python -m tests.proofs.chaos.stand_in CHANNEL_FD ENGINE_PID`, in place of `engine.worker`.

It is tied to the engine, sealed and asked as a worker is, and answers every job of an arm and of a verifier; what it
times is a short loop of Python, and whatever it is shown is right. It is ready within 0.1 s and costs 20 MB, where
torch takes two seconds of a core and 226 MB: the engine, its store and its journal are the same.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from aisp.checks.registry import TaskFacts
from aisp.engine.confinement import Place
from aisp.engine.protocol import jobs, reports
from aisp.engine.worker import tensors
from aisp.engine.worker.__main__ import settle_on_cores, tie_to
from aisp.engine.worker.channel import Channel, packed
from aisp.store.outcomes import Timing, TolerancePolicy

WORK = 200  # turns of the loop that is timed: some microseconds
GPU_NAME = "NVIDIA H100 80GB HBM3"
FINGERPRINT = [1.0, 2.0, 3.0]
BATCHES = 4  # that a turn's samples come in
HELD = "# held until there is "  # a rung that ends so is prepared when that file is there


def call_ms() -> float:
    """One call, by the clock that workers use."""
    start = time.perf_counter_ns()
    for _ in range(WORK):
        pass
    return max(time.perf_counter_ns() - start, 1) / 1e6


def fill(blob: jobs.Blob) -> jobs.Blob:
    """Put a few bytes into a shared file of the engine's, as tensors would be."""
    os.pwrite(tensors.descriptor(blob.name), b"\x2a" * 4096, 0)
    return blob


class StandIn:
    """The roles of arm and verifier in one."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sent = 0
        self._verifies = False
        self._digest = hashlib.sha256()
        self._held = ""

    def serve(self) -> int:
        """Answer until there are no more jobs; the exit status."""
        while (job := self._channel.receive()) is not None:
            if isinstance(job, jobs.Measure):
                self._measure(job)
                continue
            self._channel.send(self._answer(job))
            if isinstance(job, jobs.Finish):
                return 0
        return 0

    def _answer(self, job: jobs.AnyJob) -> reports.AnyReport:
        match job:
            case jobs.TellImports():
                return reports.ImportsTold(path=[], files=[])
            case jobs.Load():
                source = Path(os.fsdecode(job.folder)) / f"{job.module}.py"
                self._held = source.read_text("utf-8", "replace").partition(HELD)[2].strip()
                return reports.Loaded(import_ms=0.1)
            case jobs.Pose():
                return reports.Posed(blob=fill(job.blob))
            case jobs.Expect():
                self._verifies = True
                return reports.Expected(nbytes=4096)
            case jobs.Judge():
                policy = TolerancePolicy.STATED
                return reports.Judged(policy=policy, right=True, finding="nothing", detail="", max_error=0.0)
            case jobs.TakeInputs():
                return reports.Taken(nbytes=4096)
            case jobs.Prepare():
                while self._held and not os.path.exists(self._held):  # noqa: PTH110
                    time.sleep(0.005)
                return reports.Prepared(prepare_ms=0.1, for_buffers=False)
            case jobs.Execute():
                return reports.Executed(outputs=fill(job.outputs), fingerprint=FINGERPRINT)
            case jobs.Try():
                return reports.Tried(outputs=fill(job.outputs), took_ms=0.1)
            case jobs.WarmUp():
                ms = min(call_ms() for _ in range(10))
                return reports.WarmedUp(
                    per_call_ms=ms,
                    per_sample_ms=2 * ms,
                    calls=10,
                    timing=Timing.HOST.value,
                    reference_mhz=math.nan,
                    resolution_ms=1e-6,
                    overhead_ms=0.0,
                )
            case jobs.Sustain():
                for _ in range(job.calls):
                    call_ms()
                return reports.Sustained(calls=job.calls)
            case jobs.ServeBatches():
                return reports.BatchesServed()
            case jobs.Trace():
                return reports.Traced()
            case jobs.ReadPairs():
                return reports.PairsRead(pair_ms=None, note="a stand-in has no events")
            case jobs.TimeBatches():
                return reports.BatchesTimed(inside="a stand-in makes no calls")
            case jobs.FetchLast():
                return reports.LastOutputs(outputs=fill(job.outputs), set_index=0)
            case jobs.Inspect() if self._verifies:
                return reports.TaskInspected(facts=packed(TaskFacts()))
            case jobs.Inspect():
                return reports.Inspected(sensed=[reports.Sensed()])  # it has no sensors: its runs are suspect
            case jobs.Finish():
                return reports.Done(samples=self._sent, sha256=self._digest.hexdigest())
            case _:
                name = type(job).__name__
                return reports.Failed(job=name, kind="ours", summary=f"a stand-in serves no {name}", traceback="")

    def _measure(self, job: jobs.Measure) -> None:
        size = math.ceil(len(job.sets) / BATCHES)
        for start in range(0, len(job.sets), size):
            sets = job.sets[start : start + size]
            times = [call_ms() for _ in sets]
            self._sent += len(times)
            self._digest.update(struct.pack(f"<{len(times)}d", *times))
            batch = reports.Samples(
                round=job.round,
                calls=1,
                sets=sets,
                device_ms=times,
                host_ms=times,
                end_ns=[time.monotonic_ns()] * len(times),
                discarded=[0] * len(times),
                sm_clock_mhz=[math.nan] * len(times),
                probe_ms=[math.nan] * len(times),
                cycles=[math.nan] * len(times),
                fingerprints=FINGERPRINT * len(times),
                width=len(FINGERPRINT),
                last=start + size >= len(job.sets),
                start_ns=[time.monotonic_ns()] * len(times),
            )
            self._channel.send(batch)


def live(channel_fd: int, engine_pid: int, place: Place, settled: Callable[[], object]) -> int:
    """Stand by, then serve; see engine.worker.__main__.live."""
    tie_to(engine_pid)
    settled()
    cores = sorted(os.sched_getaffinity(0))
    channel = Channel(channel_fd)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
    gpu = visible if visible.startswith("GPU-") else ""  # where the engine says which, it has one
    ready = reports.Ready(
        pid=os.getpid(),
        torch="none",
        cuda="",
        gpu_name=GPU_NAME if gpu else "",
        gpu_uuid=gpu,
        cores=cores,
        note="a stand-in",
    )
    channel.send(ready)
    return StandIn(channel).serve()


def main() -> int:
    """See the module."""
    channel_fd, engine_pid, word = sys.argv[1:]
    place = Place.decoded(word)
    return live(int(channel_fd), int(engine_pid), place, lambda: settle_on_cores(place.cores))


if __name__ == "__main__":
    sys.exit(main())
