"""One timer in a process of its own, asked over pipes: `python -m tests.proofs.agreement.timing_worker TIMER ...`.

It makes all callables, says {"ready": ...}, and then times the callable of each line "go INDEX", one JSON line back.
"end" ends it. Timers do not share a process, so that none inherits what another leaves behind (the profiler's hooks,
an allocator's state), and take their turns so that only one of them has work on the GPU.

NVBench runs its own loop over states: a state waits for its "go", and its numbers are known when all states are done.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

from aisp.kernels.catalog.contracts import Cache
from tests.proofs.agreement.callables import SUBJECTS, Made, Subject
from tests.proofs.agreement.common import log

TIMERS = ("aisp", "aisp_dirty", "nvbench", "do_bench", "profiler", "profiler_dirty")
LEAST_SAMPLES = 5
Answer = dict[str, Any]


class Lines:
    """The two pipes. Whatever else this process prints goes to stderr."""

    def __init__(self) -> None:
        self._in = os.fdopen(os.dup(0), encoding="utf-8")
        self._out: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def say(self, answer: Answer) -> None:
        """One line."""
        self._out.write(json.dumps(answer) + "\n")
        self._out.flush()

    def next(self) -> int | None:
        """The index of the next "go"; None at the end."""
        words = self._in.readline().split()
        return int(words[1]) if words[:1] == ["go"] else None


class InTurn(Protocol):
    """A timer that times when it is asked."""

    def prepare(self, index: int, subject: Subject) -> None:
        """Make the callable and call it until nothing is done for the first time any more."""
        ...

    def measure(self, index: int, wall_s: float) -> Answer:
        """Time the callable for so long: at least {"ms": per call, "samples": count}."""
        ...


class Ours:
    """aisp's sample, taken as the engine would: several calls in one where a call is short."""

    def __init__(self, cache: Cache) -> None:
        import torch

        self._cache = cache
        self._l2_bytes = int(torch.cuda.get_device_properties(0).L2_cache_size)
        self._ready: dict[int, tuple[Any, Any]] = {}
        self._pair_ms: float | None = None

    def prepare(self, index: int, subject: Subject) -> None:
        """See InTurn."""
        from aisp.engine import turns
        from aisp.engine.worker import timers

        if self._pair_ms is None:
            self._pair_ms = timers.pair_ms(timers.stand_ready(), self._l2_bytes, self._cache)
            log(f"event pairs read {self._pair_ms * 1e3:.2f} us beyond a kernel")
        timer = timers.CudaTimer(self._l2_bytes, cache=self._cache, pair_ms=self._pair_ms)
        call = subject.make(index)
        shot = timers.single(call)
        warmed = timer.warm_up(shot, _nothing, 100.0)
        if warmed.per_call_ms < turns.SHORT_MS:
            count = turns.calls_for(warmed.per_call_ms)
            calls = [call, *(subject.make(1000 * index + number) for number in range(1, count))]
            for each in calls:
                each()
            try:
                shot = timer.graph(calls)
            except timers.CaptureError as error:
                log(f"{subject.name}: batch, not graph: {error}")
                shot = timers.batch(calls)
            timer.warm_up(shot, _nothing, 100.0)
        self._ready[index] = timer, shot

    def measure(self, index: int, wall_s: float) -> Answer:
        """See InTurn."""
        timer, shot = self._ready[index]
        deadline = time.monotonic() + wall_s
        timer.sample(shot, _nothing)
        taken: list[Any] = []
        while len(taken) < LEAST_SAMPLES or time.monotonic() < deadline:
            taken.append(timer.sample(shot, _nothing))
        kept = [sample for sample in taken if not sample.discarded] or taken
        return {
            "ms": statistics.median(sample.device_ms for sample in kept),
            "samples": len(kept),
            "discarded": sum(bool(sample.discarded) for sample in taken),
            "sm_clock_mhz": statistics.median(sample.sm_clock_mhz for sample in kept),
            "how": f"{timer.timing}" + (f" x{shot.calls}" if shot.calls > 1 else ""),
            "overhead_ms": timer.overhead_ms,
        }


def _nothing() -> None:
    """No input needs to be written anew: the callables leave them as they were, or do not mind."""


class DoBench:
    """triton.testing.do_bench, asked for the median."""

    def __init__(self) -> None:
        self._calls: dict[int, Made] = {}

    def prepare(self, index: int, subject: Subject) -> None:
        """See InTurn."""
        self._calls[index] = subject.make(index)
        self.measure(index, 0.02)

    def measure(self, index: int, wall_s: float) -> Answer:
        """See InTurn."""
        from triton.testing import do_bench

        # A fifth of the time to warm up, as in its defaults of 25 and 100 ms.
        ms = do_bench(self._calls[index], warmup=200 * wall_s, rep=800 * wall_s, return_mode="median")
        return {"ms": float(ms), "samples": None}


class Profiled:
    """The profiler's kernel time."""

    def __init__(self, cache: Cache) -> None:
        from tests.proofs.agreement.profiling import Profiler

        self._profiler = Profiler(cache)
        self._calls: dict[int, Made] = {}

    def prepare(self, index: int, subject: Subject) -> None:
        """See InTurn."""
        self._calls[index] = subject.make(index)
        for _ in range(3):
            self._calls[index]()
        self._profiler.profiled([self._calls[index]], wall_s=0.0)

    def measure(self, index: int, wall_s: float) -> Answer:
        """See InTurn."""
        from tests.proofs.agreement.profiling import typical_ms

        (seen,) = self._profiler.profiled([self._calls[index]], wall_s=wall_s)
        return {
            "ms": typical_ms(seen),
            "samples": len(seen),
            "kernels": statistics.median(call.kernels for call in seen),
            "sum_ms": statistics.median(call.sum_ms for call in seen),
            "span_ms": statistics.median(call.span_ms for call in seen),
        }


def attempt(work: Callable[[], Answer]) -> Answer:
    """What it answers, or {"error": ...}: one callable that a timer cannot do must not end the sitting."""
    start = time.monotonic()
    try:
        answer = work()
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    return answer | {"wall_s": time.monotonic() - start}


def serve(lines: Lines, timer: InTurn, wall_s: float) -> None:
    """Prepare every callable, then answer until the end."""

    def prepared(index: int, subject: Subject) -> Answer:
        timer.prepare(index, subject)
        return {}

    broken = {}
    for index, subject in enumerate(SUBJECTS):
        answer = attempt(lambda index=index, subject=subject: prepared(index, subject))  # type: ignore[misc]
        if "error" in answer:
            broken[index] = answer["error"]
    lines.say({"ready": broken})
    while (wanted := lines.next()) is not None:
        if wanted in broken:
            lines.say({"index": wanted, "error": broken[wanted]})
        else:
            lines.say({"index": wanted} | attempt(lambda: timer.measure(wanted, wall_s)))
    lines.say({"results": []})


class _Stream:
    """A torch stream in the form that other libraries take."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def serve_nvbench(lines: Lines, wall_s: float, repeats: int) -> None:
    """NVBench's cold measurement: a state per repeat and callable, each ended by its wall time."""
    import torch
    from cuda import bench  # NVBench's Python package, cuda-bench

    stream = torch.cuda.Stream()
    calls: dict[int, Made] = {}
    broken: dict[int, str] = {}
    with torch.cuda.stream(stream):
        for index, subject in enumerate(SUBJECTS):

            def prepared(index: int = index, subject: Subject = subject) -> Answer:
                calls[index] = subject.make(index)
                calls[index]()
                torch.cuda.synchronize()
                return {}

            answer = attempt(prepared)
            if "error" in answer:
                broken[index] = answer["error"]
    lines.say({"ready": broken})
    waiting: list[Answer] = []
    over = False

    def answer_last() -> None:
        while waiting:
            lines.say(waiting.pop())

    def state_of_slot(state: Any) -> None:
        nonlocal over
        answer_last()
        wanted = None if over else lines.next()
        if wanted is None:
            over = True
            state.skip("the sitting was over")
            return
        index = state.get_int64("Slot") % len(SUBJECTS)
        if index in broken or index != wanted:
            reason = broken.get(index, f"asked for {wanted} in the slot of {index}")
            state.skip(reason)
            waiting.append({"index": wanted, "error": reason})
            return

        def run() -> Answer:
            current: Any = stream  # one for all states: a library keeps memory per stream
            try:
                state.set_stream(_Stream(stream.cuda_stream))
            except (TypeError, ValueError, RuntimeError) as error:
                log(f"nvbench keeps its own stream: {error}")
                current = torch.cuda.ExternalStream(state.get_stream().addressof())
            with torch.cuda.stream(current):
                state.exec(lambda launch: calls[index]() and None, batched=False)
            return {"pending": True}

        waiting.append({"index": index} | attempt(run))

    made = bench.register(state_of_slot)
    made.add_int64_axis("Slot", list(range(repeats * len(SUBJECTS))))
    made.set_stopping_criterion("stdrel")
    made.set_criterion_param_float64("max-noise", 1e-9)  # never reached: the wall time ends a state
    made.set_criterion_param_float64("min-time", 1e9)
    made.set_timeout(wall_s)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nvbench.json"
        bench.run_all_benchmarks(["nvbench", "--devices", "0", "--quiet", "--json", str(file)])
        answer_last()
        told = json.loads(file.read_text(encoding="utf-8"))
    lines.say({"results": nvbench_results(told)})


def nvbench_results(told: Mapping[str, Any]) -> list[Answer]:
    """{"slot", "ms", "mean_ms", "samples", "sm_clock_mhz"} or {"slot", "error"} for every state of NVBench's JSON."""
    found = []
    for state in told["benchmarks"][0]["states"]:
        slot = next(int(axis["value"]) for axis in state["axis_values"] if axis["name"] == "Slot")
        values = {
            summary["tag"]: float(part["value"])
            for summary in state.get("summaries") or ()
            for part in summary.get("data", ())
            if part["name"] == "value" and part["type"] in ("float64", "int64") and part["value"] is not None
        }
        mean_s = values.get("nv/cold/time/gpu/mean")
        if state.get("is_skipped") or mean_s is None:
            found.append({"slot": slot, "error": state.get("skip_reason") or "no cold time in NVBench's results"})
            continue
        clock_hz = values.get("nv/cold/sm_clock_rate/mean")
        found.append(
            {
                "slot": slot,
                "ms": values.get("nv/cold/time/gpu/median", mean_s) * 1e3,
                "mean_ms": mean_s * 1e3,
                "is_median": "nv/cold/time/gpu/median" in values,
                "samples": int(values.get("nv/cold/sample_size", 0)),
                "sm_clock_mhz": None if clock_hz is None else clock_hz / 1e6,
            }
        )
    return found


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("timer", choices=TIMERS)
    parser.add_argument("--wall", type=float, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    given = parser.parse_args()
    lines = Lines()
    import torch

    torch.cuda.init()
    torch.manual_seed(0)
    if given.timer == "nvbench":
        serve_nvbench(lines, given.wall, given.repeats)
    else:
        kinds: dict[str, Callable[[], InTurn]] = {
            "aisp": lambda: Ours(Cache.COLD),
            "aisp_dirty": lambda: Ours(Cache.DIRTY),
            "do_bench": DoBench,
            "profiler": lambda: Profiled(Cache.COLD),
            "profiler_dirty": lambda: Profiled(Cache.DIRTY),
        }
        serve(lines, kinds[given.timer](), given.wall)
    return 0


if __name__ == "__main__":
    sys.exit(main())
