"""Taking one sample. Everything that is not the call stands outside the two time stamps.

On a GPU, cold: refill the inputs, flush the L2, hold the GPU until the host has launched everything, event, calls,
event. The hold is a kernel that fills every SM for a while. So the launch cost of a call that is all kernels never
shows, and no kernel of another stream can start before the clock does. A call that waits for the GPU itself outlasts
any hold; that is noticed, and its samples say so. What an event pair reads beyond the kernels between its events is
taken off: the verifier has found it, with kernels of known length and CUPTI (some 2.5 us on an H100). Where that is not
known, and around a graph, it is what an empty pair reads (1.28 us).

Each sample has a second clock, which no event is part of: the counters of all SMs, read around the pair of events
(engine.worker.probe), less what they read around an empty pair. They give the sample's SM cycles, and a time that must
agree with that of the events.

Work that ends after the second event is not in the time, so the timer looks for it: how long the whole device stays
busy after the timed stream is done (lag), and whether Python threads go on working when the call has returned.

A call of a few microseconds is timed as a launch batch: a replayed graph of several calls between one event pair, each
on buffers of its own, so that the data of every one is cold. Where capture is impossible, or a call has more than one
kernel, they are launched one by one behind the hold (some 0.7 us more per call than in a graph, on an H100): a graph
would shorten the gaps between the kernels of a call, which are the call's own.

On a CPU: refill, monotonic clock, call, monotonic clock. The caches are as the refill left them.

Several ranks take the same samples at the same time. Their hosts meet last of all before a sample, and on GPUs so do
their kernels (engine.worker.probe): the holds of all end together. Where nothing is held the hosts wait for that
meeting instead, and go on some tens of microseconds apart.

Clocks and events are called by handles that were saved before any lesson was imported, those of torch below its Python
classes: a lesson that replaces `time.perf_counter_ns` or `torch.cuda.Event.elapsed_time` changes no number.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aisp.checks import cupti
from aisp.checks.cuda import spans_ms
from aisp.engine.worker.probe import ClockProbe, Hold, Meeting, Span, Spin, free_persisting_lines
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import Timing

if TYPE_CHECKING:
    import torch

Outputs = tuple["torch.Tensor", ...]
MAX_HOLD_MS = 100.0
HOLD_MARGIN = 1.25  # over what the host takes: calls that take longer to launch would be held now and then, by luck
LEAKED = 2  # store.record.DISCARDED: host time leaked into the sample
ROW_WORDS = 4096  # of the buffer that is read behind a flush
EMPTY_PAIRS = 25
SPINS_US = (5.0, 20.0, 60.0, 200.0)
SPINS = 9  # of each length
SPIN_HOLD_MS = 0.3
SPINS_APART_MS = 0.0006  # that lengths may disagree by: CUPTI and events step in 32 ns, and a GPU is shared
BUSY_CYCLES = 400_000  # some 0.2 ms, in which the host has long launched what follows
FEWEST_READINGS = 50
EVENT_ROUNDING_MS = 1e-5  # event times come as float32: smaller steps are rounding

# The originals, whatever a lesson makes of these names later.
_perf_counter_ns = time.perf_counter_ns
_process_time_ns = time.process_time_ns
_monotonic_ns = time.monotonic_ns
_current_frames = sys._current_frames
_thread_clock = time.pthread_getcpuclockid
_clock_ns = time.clock_gettime_ns
_get_ident = threading.get_ident
_sleep = time.sleep
_listdir = os.listdir
_open, _read, _close = os.open, os.read, os.close
_TASKS = "/proc/self/task"
CORES = len(os.sched_getaffinity(0))  # before a lesson can change that
LEFT_ENOUGH_MS = 1.0
LEFT_WAIT_NS = 10_000_000
LEFT_LINE_NS = 100_000_000  # who stands in line for a processor by then is given so long
ENDING_NS = 50_000  # of processor time that a thread takes to end, and as much for each that it ends: a pool of OpenMP


class CaptureError(Exception):
    """The calls cannot be captured into a graph, or would not be the same in one. The message is a clause."""


@dataclass(frozen=True, slots=True)
class LaunchBatch:
    """What one sample times: one call, or several calls together.

    Attributes:
        launch: makes all calls; their outputs, in order.
        calls: how many.
        kind: "single", "batch" (launched one by one) or "graph" (one replay).
        held: what the launch reads without naming it, kept alive as long: a graph knows only addresses.
    """

    launch: Callable[[], Sequence[Outputs]]
    calls: int = 1
    kind: str = "single"
    held: object = None


def single(call: Callable[[], Outputs]) -> LaunchBatch:
    """One call."""
    return LaunchBatch(lambda: (call(),))


def batch(calls: Sequence[Callable[[], Outputs]]) -> LaunchBatch:
    """Several calls, one after the other."""
    return LaunchBatch(lambda: [call() for call in calls], len(calls), "batch")


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: times per call; `discarded` is 0 or why it does not count; outputs of every call.

    Attributes:
        lag_ms: how long the whole device was busy after the timed stream was done; NaN on a CPU.
        usual_lag_ms: the lag where nothing was called, which is the cost of asking; NaN before the warm-up.
        beside_ms: processor time that other Python threads of this process took since the sample before, outside of
            timed regions; 0 for the first.
        left_ms: how much longer the calls would have lasted at least if they had waited for the threads that began in
            them, by the processor time that these went on to use; no further than LEFT_ENOUGH_MS.
        probe_ms, cycles: see store.Samples; NaN on a CPU and before the warm-up.
        start_ns: when the calls began, on a clock that all ranks share: CLOCK_MONOTONIC, or on GPUs that meet the time
            before their second meeting, which all leave at once.
    """

    device_ms: float
    host_ms: float
    end_ns: int
    discarded: int
    sm_clock_mhz: float
    outputs: Sequence[Outputs]
    lag_ms: float = math.nan
    usual_lag_ms: float = math.nan
    beside_ms: float = 0.0
    left_ms: float = 0.0
    probe_ms: float = math.nan
    cycles: float = math.nan
    start_ns: int = 0


class Together(Protocol):
    """The processes that take the same samples at the same time.

    Attributes:
        meeting: where their kernels meet; None where they do not.
    """

    meeting: Meeting | None

    def meet(self) -> None:
        """Wait until all are here."""
        ...

    def any(self, mine: bool) -> bool:
        """Whether one of them says so: what all must decide alike."""
        ...


class _Alone:
    """One process."""

    meeting: Meeting | None = None

    def meet(self) -> None:
        """There is nobody to wait for."""

    def any(self, mine: bool) -> bool:
        """Nobody else has a say."""
        return mine


ALONE: Together = _Alone()


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """What warming up found: time per call, and how many calls it took."""

    per_call_ms: float
    calls: int


class Timer(Protocol):
    """Takes samples of a launch batch.

    Attributes:
        timing: how the last samples were taken.
        resolution_ms: smallest step of its clock that was seen; None before the warm-up.
        overhead_ms: what is taken off samples as the last one was; None where nothing is.
        reference_mhz: highest SM clock seen under light load; NaN where unknown.
        probe_step_ms: smallest step of the SMs' timer; None where there is none.
        probe_overhead_ms: what the SMs' timer reads around nothing; None where nothing is taken off.
    """

    timing: Timing
    resolution_ms: float | None
    reference_mhz: float
    probe_step_ms: float | None
    probe_overhead_ms: float | None

    @property
    def overhead_ms(self) -> float | None: ...

    def warm_up(self, launches: LaunchBatch, refill: Callable[[], None], budget_ms: float) -> WarmedUp:
        """Sample until the time per call is steady or the budget is spent."""
        ...

    def sample(self, launches: LaunchBatch, refill: Callable[[], None]) -> Sample:
        """Take one sample: `refill`, whatever else makes ready, the others if there are any, and the calls at once."""
        ...


class Beside:
    """Threads of this process that work while the call does not.

    Of the threads that live on between calls only those that run Python count, because native threads of OpenMP spin
    for a while when nothing is left to do. All threads that begin during a call count: one that is about to end does so
    at once.
    """

    def __init__(self) -> None:
        self._clocks: dict[int, int] = {}  # of Python threads, by their number
        self._after: dict[int, int] = {}
        self._threads: frozenset[str] = frozenset()  # all threads, as the kernel numbers them

    def look(self) -> dict[int, int]:
        """Processor time in ns of every Python thread but this one."""
        alive = tuple(_current_frames())  # the numbers alone: the frames would keep this one and all outputs alive
        if len(alive) == 1:
            return {}
        times_ns: dict[int, int] = {}
        own = _get_ident()
        for ident in alive:
            if ident == own:
                continue
            try:
                if ident not in self._clocks:
                    self._clocks[ident] = _thread_clock(ident)
                times_ns[ident] = _clock_ns(self._clocks[ident])
            except OSError:  # it ended, and its number may be given to another one
                self._clocks.pop(ident, None)
        return times_ns

    def before(self) -> float:
        """Note the threads before the calls. Returns the time in ms that threads took since `after`."""
        self._threads = _threads()
        now = self.look()
        return sum(max(0, ns - self._after.get(ident, ns)) for ident, ns in now.items()) / 1e6

    def after(self) -> float:
        """By how many ms threads that began during the calls outlast them: see Sample.left_ms."""
        used_ms = 0.0
        # By number and not by count: one thread may have ended while another began.
        if begun := _threads() - self._threads:
            start_ns = {name: ns for name in begun if (ns := _used_ns(name)) is not None}
            began_ns = _monotonic_ns()
            while start_ns and used_ms < LEFT_ENOUGH_MS:
                _sleep(1e-4)  # they may need the interpreter to come to an end
                waited_ns = _monotonic_ns() - began_ns
                if waited_ns > LEFT_LINE_NS or (waited_ns > LEFT_WAIT_NS and not all(map(_in_line, start_ns))):
                    used_ms = LEFT_ENOUGH_MS  # asleep or at work: a thread that was about to end is gone by now
                    break
                used_ns = {name: ns for name in start_ns if (ns := _used_ns(name)) is not None}
                went_on_ns = sorted(ns - start_ns[name] for name, ns in used_ns.items())
                if went_on_ns:  # one of them ends all the others
                    went_on_ns[-1] -= ENDING_NS * (min(len(begun), CORES) - 1)
                went_on_ns = [max(0, ns - ENDING_NS) for ns in went_on_ns]
                # The call would have lasted so much longer had it waited: of all threads together no less than the
                # longest, and than their share of the cores.
                used_ms = max(used_ms, max(went_on_ns, default=0) / 1e6, sum(went_on_ns) / CORES / 1e6)
                start_ns = {name: start_ns[name] for name in used_ns}
        self._after = self.look()
        return used_ms


def _threads() -> frozenset[str]:
    """The numbers of this process's threads; none where there is no /proc."""
    try:
        return frozenset(_listdir(_TASKS))
    except OSError:
        return frozenset()


def _used_ns(thread: str) -> int | None:
    """Processor time of a thread; None when it has ended."""
    try:
        # The kernel's name for the clock of one thread: its number inverted, then 110 for "per thread, as scheduled".
        return _clock_ns((~int(thread) << 3) | 6)
    except OSError:
        return None


def _in_line(thread: str) -> bool:
    """Whether a thread runs, stands in line for a processor or has ended, and does not sleep."""
    try:
        file = _open(f"{_TASKS}/{thread}/stat", os.O_RDONLY)
    except OSError:
        return True
    try:
        return _read(file, 512).rpartition(b")")[2].split()[0] == b"R"
    except OSError:
        return True
    finally:
        _close(file)


class HostTimer:
    """CPU targets.

    Args:
        together: the ranks of which this process is one.
    """

    timing = Timing.HOST
    overhead_ms: float | None = None
    reference_mhz = math.nan
    probe_step_ms: float | None = None
    probe_overhead_ms: float | None = None

    def __init__(self, together: Together = ALONE) -> None:
        self._together = together
        self.resolution_ms: float | None = _smallest_step([_perf_counter_ns() / 1e6 for _ in range(1000)], 0.0)
        self._beside = Beside()

    def warm_up(self, launches: LaunchBatch, refill: Callable[[], None], budget_ms: float) -> WarmedUp:
        """See Timer."""
        return _until_steady(lambda: self.sample(launches, refill).device_ms, budget_ms, self._together)

    def sample(self, launches: LaunchBatch, refill: Callable[[], None]) -> Sample:
        """See Timer. `host_ms` is the CPU time of the whole process, all threads together."""
        refill()
        beside_ms = self._beside.before()
        self._together.meet()
        start_ns = _monotonic_ns()
        cpu_start = _process_time_ns()
        start = _perf_counter_ns()
        outputs = launches.launch()
        end = _perf_counter_ns()
        cpu_end = _process_time_ns()
        left_ms = self._beside.after()
        # A clock that does not advance is the engine's to refuse, not ours to mend.
        elapsed_ms = (end - start) / 1e6 / launches.calls
        cpu_ms = (cpu_end - cpu_start) / 1e6 / launches.calls
        return Sample(
            elapsed_ms,
            cpu_ms,
            _monotonic_ns(),
            0,
            math.nan,
            outputs,
            beside_ms=beside_ms,
            left_ms=left_ms,
            start_ns=start_ns,
        )


class TorchHandles:
    """The functions of torch that a sample needs, as they were before any lesson was imported.

    They are those of the C extension: their Python wrappers can be given another body, these cannot. Events go to one
    stream, the default one of one device, whatever stream or device a lesson makes the current one.
    """

    def __init__(self, torch: Any) -> None:
        event = torch._C._CudaEventBase
        self.event = event
        self.zero = torch.Tensor.zero_
        self.greatest = torch._C._VariableFunctions.amax
        self.query = event.query
        self.elapsed_ms = event.elapsed_time
        self.wait = event.synchronize
        self._record = event.record
        self._sleep = torch._C._cuda_sleep
        self._synchronize = torch._C._cuda_synchronize
        self._set_device = torch._C._cuda_setDevice
        self._set_stream = torch._C._cuda_setStream
        self._in_use = torch._C._cuda_hasPrimaryContext  # of a device
        self.device = torch.cuda.current_device()
        self.stream = torch.cuda.default_stream(self.device)
        self._others = [index for index in range(torch.cuda.device_count()) if index != self.device]

    def settle(self) -> None:
        """Make our device and stream the current ones."""
        self._set_device(self.device)
        self._set_stream(
            stream_id=self.stream.stream_id,
            device_index=self.stream.device_index,
            device_type=self.stream.device_type,
        )

    def record(self, event: Any) -> None:
        """Enqueue an event on our stream."""
        self._record(event, self.stream)

    def sleep(self, cycles: int) -> None:
        """One thread that spins on the current stream."""
        self._sleep(cycles)

    def synchronize(self) -> None:
        """Wait for all streams of our device, and of every other that this process has used."""
        for index in self._others:
            if self._in_use(index):
                self._set_device(index)
                self._synchronize()
        self._set_device(self.device)
        self._synchronize()


@dataclass(frozen=True, slots=True)
class SavedHandles:
    """Everything on a GPU that a lesson could tamper with, saved before there is a lesson."""

    torch: TorchHandles
    probe: ClockProbe
    hold: Hold


_saved: SavedHandles | None = None


def stand_ready(*, anew: bool = False) -> SavedHandles:
    """Save the handles of this process, once. Call it before a lesson is imported. Needs a GPU.

    Args:
        anew: another GPU has become the current one.
    """
    global _saved
    if _saved is None or anew:
        import torch  # a process without a GPU never needs it here

        if anew:
            torch.cuda.graph.default_capture_stream = None  # captures would go to the GPU that was
        _saved = SavedHandles(TorchHandles(torch), ClockProbe(), Hold())
        with contextlib.suppress(CaptureError):  # reported when a rung is captured
            node_count(capture(torch.zeros(1, device="cuda").zero_)[0])  # the first of a process takes some 25 ms
    return _saved


class Flush:
    """Leaves nothing of its inputs in the L2 for a call.

    Args:
        handles: functions of torch.
        l2_bytes: size of the cache.
    """

    def __init__(self, handles: TorchHandles, l2_bytes: int) -> None:
        import torch

        self._torch = handles
        rows = -(-max(2 * l2_bytes, 64 << 20) // (4 * ROW_WORDS))
        self._lines = torch.empty(rows * ROW_WORDS, dtype=torch.int32, device="cuda")
        # Read behind that, by row: a block has a row to itself, so that nothing but its result is written.
        self._clean = torch.zeros((rows, ROW_WORDS), dtype=torch.int32, device="cuda")
        self._seen = torch.zeros((rows,), dtype=torch.int32, device="cuda")

    def launch(self, cache: Cache) -> None:
        """Nothing for WARM; for COLD what it wrote itself is written back as well."""
        if cache is not Cache.WARM:
            free_persisting_lines()
            self._torch.zero(self._lines)
        if cache is Cache.COLD:
            self._torch.greatest(self._clean, 1, out=self._seen)


class CudaTimer:
    """GPU targets.

    Args:
        l2_bytes: size of the cache to flush.
        latency: never hold the stream: what the host takes to launch is what the lesson is about.
        cache: what the L2 holds before a sample: COLD and DIRTY flush it, WARM runs the same launches, untimed.
        handles: this process's by default.
        together: the ranks of which this process is one.
        pair_ms: what an event pair reads beyond the kernels between its events; None where nobody knows.
    """

    def __init__(
        self,
        l2_bytes: int,
        *,
        latency: bool = False,
        cache: Cache = Cache.COLD,
        handles: SavedHandles | None = None,
        together: Together = ALONE,
        pair_ms: float | None = None,
    ) -> None:
        self._together = together
        saved = handles or stand_ready()
        self._torch, self._probe, self._hold = saved.torch, saved.probe, saved.hold
        self._beside = Beside()
        self._cache = cache
        self._torch.settle()
        self._flush = Flush(self._torch, l2_bytes)
        self._start = self._torch.event(enable_timing=True)
        self._end = self._torch.event(enable_timing=True)
        self._done = self._torch.event(enable_timing=True)
        self._usual_lag_ms = math.nan
        self._held = not latency
        self._hold_ms = 0.3
        self._readings_ms: deque[float] = deque(maxlen=200)
        self.resolution_ms: float | None = None
        self._pair_ms, self._empty_ms = pair_ms, 0.0
        self._kind = "single"
        self.reference_mhz = math.nan
        self.probe_step_ms = self._probe.step_ms
        self._around_nothing = self._around_busy = Span()
        self._around_held: bool | None = None  # whether the stream was held when that was read; None before
        self._empty_lag_ms = math.nan
        self.timing = self._timing("single")
        self._cycles_per_ms = self._calibrate()

    @property
    def handles(self) -> TorchHandles:
        """The functions of torch that it was made with."""
        return self._torch

    @property
    def overhead_ms(self) -> float | None:
        """See Timer: of calls that are launched one by one what a pair reads beyond them, of a graph what it reads
        around nothing."""
        if not (self._held and self._empty_ms):
            return None
        return self._empty_ms if self._pair_ms is None or self._kind == "graph" else self._pair_ms

    @property
    def hold(self) -> Hold | None:
        """What keeps the device until the calls are launched; None where they are not held."""
        return self._hold if self._held and not self._hold.note else None

    def _timing(self, kind: str) -> Timing:
        if not self._held:
            return Timing(f"{self._cache}+host")
        return Timing(self._cache if kind == "single" else f"{self._cache} {kind}")

    def _calibrate(self) -> float:
        """Spin cycles in a millisecond at the clock that runs now, which is also the clock under light load."""
        saved, cycles = self._torch, 2_000_000
        saved.settle()
        saved.sleep(cycles)
        self._probe.before()
        saved.record(self._start)
        saved.sleep(cycles)
        saved.record(self._end)
        self._probe.after()
        saved.synchronize()
        mhz = self._probe.read().mhz
        if not mhz <= self.reference_mhz:  # either may be NaN
            self.reference_mhz = mhz
        return cycles / max(float(saved.elapsed_ms(self._start, self._end)), 1e-3)

    def graph(self, calls: Sequence[Callable[[], Outputs]]) -> LaunchBatch:
        """Several calls as one graph. Their outputs lie at the same addresses after every replay.

        Raises:
            CaptureError: a call does what cannot be captured (waits for the GPU, launches a graph of its own), or is
                more than one kernel.
        """
        captured, outputs = capture(lambda: [call() for call in calls])
        nodes = node_count(captured)
        if nodes > len(calls):
            raise CaptureError(f"a call is {nodes / len(calls):.0f} kernels, and a graph would shorten their gaps")

        def replay() -> Sequence[Outputs]:
            captured.replay()
            return outputs

        return LaunchBatch(replay, len(calls), "graph", held=tuple(calls))

    def warm_up(self, launches: LaunchBatch, refill: Callable[[], None], budget_ms: float) -> WarmedUp:
        """See Timer. Also finds how long the stream must be held, and whether the call waits for the GPU."""
        self.sample(launches, refill)
        leaks = 0
        for _ in range(8 if self._held else 0):
            sample = self.sample(launches, refill)
            launching_ms = sample.host_ms * launches.calls
            if not self._together.any(bool(sample.discarded) or launching_ms * HOLD_MARGIN > MAX_HOLD_MS):
                leaks = 0
                break
            leaks += 1
            self._hold_ms = min(MAX_HOLD_MS, max(2 * self._hold_ms, 2 * launching_ms))
        if leaks >= 8:
            self._held = False
        self.read_empty_pairs()
        self._usual_lag_ms = self._empty_lag_ms
        result = _until_steady(lambda: self.sample(launches, refill).device_ms, budget_ms, self._together)
        if self._held:
            typical_ms = min(self.sample(launches, refill).host_ms for _ in range(3)) * launches.calls
            self._hold_ms = min(MAX_HOLD_MS, 3 * typical_ms + 0.1)
        self._cycles_per_ms = self._calibrate()
        if len(self._readings_ms) >= FEWEST_READINGS:  # a few long samples lie far apart, and say nothing of the clock
            self.resolution_ms = _smallest_step(self._readings_ms, EVENT_ROUNDING_MS) or self.resolution_ms
        return result

    def hold_together(self) -> bool:
        """Enqueue a hold, as long as one may be, that ends for all ranks at once; whether there is one: not for a
        process alone."""
        if self._together.meeting is None:
            return False
        self._together.meet()
        return self._hold.launch(MAX_HOLD_MS, self._together.meeting)

    def read_empty_pairs(self) -> None:
        """Find what all clocks read where nothing is called, and again where the stream is no longer held as it was."""
        if self._around_held is self._held:
            return
        self._around_held = self._held
        empty = LaunchBatch(lambda: ())
        pairs = [self._pair(empty) for _ in range(EMPTY_PAIRS)]
        self._empty_lag_ms = sorted(pair.lag_ms for pair in pairs)[EMPTY_PAIRS // 2]
        readings_ms = sorted(pair.ms for pair in pairs)
        event_ms = readings_ms[EMPTY_PAIRS // 2]
        if self._held:
            self._empty_ms = event_ms
            self.resolution_ms = _smallest_step(readings_ms, EVENT_ROUNDING_MS)
        around = self._around_busy = _least(pair.span for pair in pairs)
        if not self._held:
            # Nothing is taken off the events here, so what an empty pair reads by them stays in both clocks.
            stays_ms = min(max(event_ms, 0.0), max(around.ms, 0.0))
            around = Span(around.ms - stays_ms, around.cycles - stays_ms * pairs[-1].span.mhz * 1e3)
            self._around_busy = self._read_busy_pairs(around)
        self._around_nothing = around
        self.probe_overhead_ms = None if math.isnan(around.ms) else around.ms

    def _read_busy_pairs(self, most: Span) -> Span:
        """What the probes read around work that is not done when the host is: the second reading follows at once.

        The work counts its own cycles, so that no event is asked for its length. Never more than around nothing.
        """

        def spin() -> Sequence[Outputs]:
            self._torch.sleep(BUSY_CYCLES)
            return ()

        spans = [self._pair(LaunchBatch(spin)).span for _ in range(EMPTY_PAIRS)]
        least = _least(Span(s.ms - BUSY_CYCLES / (s.mhz * 1e3), s.cycles - BUSY_CYCLES) for s in spans)
        return Span(min(max(least.ms, 0.0), most.ms), min(max(least.cycles, 0.0), most.cycles))

    def sample(self, launches: LaunchBatch, refill: Callable[[], None]) -> Sample:
        """See Timer."""
        self._torch.settle()
        refill()
        if self._cache is Cache.WARM:
            launches.launch()
        self._flush.launch(self._cache)
        beside_ms = self._beside.before()
        pair, self._kind = self._pair(launches), launches.kind
        self._readings_ms.append(pair.ms)
        net_ms = pair.ms
        if (over_ms := self.overhead_ms) is not None and pair.ms > 0:  # else it is the engine's to refuse
            net_ms = max(pair.ms - over_ms, self.resolution_ms or EVENT_ROUNDING_MS)
        if pair.leaked:
            self._hold_ms = min(MAX_HOLD_MS, self._hold_ms * 1.5)
        self.timing = self._timing(launches.kind)
        span = self._without_readings(pair)
        return Sample(
            net_ms / launches.calls,
            pair.host_ms / launches.calls,
            _monotonic_ns(),
            LEAKED if pair.leaked else 0,
            pair.span.mhz,
            pair.outputs,
            lag_ms=pair.lag_ms,
            usual_lag_ms=self._usual_lag_ms,
            beside_ms=beside_ms,
            left_ms=pair.left_ms,
            probe_ms=span.ms / launches.calls,
            cycles=_at_least_one(span.cycles) / launches.calls,
            start_ns=pair.start_ns,
        )

    def _without_readings(self, pair: _Pair) -> Span:
        """What the SMs read of a pair, less what they read around nothing.

        Where the stream is not held and the GPU had nothing left to do, it also waited for the host between a reading
        and its event: for what the two clocks differ by, and no longer than the host says that it launched the two, or
        took for it around nothing.
        """
        span, around = pair.span, self._around_busy
        if (over_ms := self.overhead_ms) is not None:  # what is off the events is off the readings around them
            beyond_ms = over_ms - self._empty_ms
            around = Span(around.ms + beyond_ms, around.cycles + beyond_ms * span.mhz * 1e3)
        if not pair.busy:
            most_ms = max(self._around_nothing.ms - around.ms, pair.launching_ms)
            waited_ms = min(max(span.ms - around.ms - pair.ms, 0.0), most_ms)
            around = Span(around.ms + waited_ms, around.cycles + waited_ms * span.mhz * 1e3)
        return Span(span.ms - around.ms, span.cycles - around.cycles, span.mhz)

    def _pair(self, launches: LaunchBatch) -> _Pair:
        saved, meeting = self._torch, self._together.meeting
        if not self._held:
            saved.synchronize()  # else the flush would hide the first launches
        self._together.meet()  # last of all, so that ranks begin together
        if not self._held and meeting is not None:
            meeting.part()
            saved.synchronize()
        start_ns = _monotonic_ns()
        if self._held and not self._hold.launch(self._hold_ms, meeting):
            saved.sleep(int(self._hold_ms * self._cycles_per_ms))
        first = _perf_counter_ns()
        self._probe.before()
        saved.record(self._start)
        before = _perf_counter_ns()
        outputs = launches.launch()
        after = _perf_counter_ns()
        saved.record(self._end)
        saved.settle()  # the call may have left another stream or device
        self._probe.after()
        host_ms, launching_ms = (after - before) / 1e6, (before - first + _perf_counter_ns() - after) / 1e6
        # The start event has passed although the host has only now finished launching: the hold was too short.
        leaked = self._held and bool(saved.query(self._start))
        busy = self._held or not saved.query(self._end)
        if meeting is not None:
            meeting.part()
        saved.record(self._done)
        saved.wait(self._done)
        done = _perf_counter_ns()
        saved.synchronize()
        lag_ms = (_perf_counter_ns() - done) / 1e6
        left_ms = self._beside.after()
        ms, span = float(saved.elapsed_ms(self._start, self._end)), self._probe.read()
        if meeting is not None:
            start_ns = -round(float(saved.elapsed_ms(self._start, self._done)) * 1e6)
        return _Pair(ms, host_ms, launching_ms, leaked, busy, lag_ms, left_ms, outputs, span, start_ns)


@dataclass(frozen=True, slots=True)
class _Pair:
    """What one pair of events says: their time in ms, the host's, whether the hold was too short; see Sample.

    `launching_ms`: how long the host took to launch the two readings and to record their events.
    `busy`: the GPU had not come to the second event when the host had launched all, the reading behind it included.
    """

    ms: float
    host_ms: float
    launching_ms: float
    leaked: bool
    busy: bool
    lag_ms: float
    left_ms: float
    outputs: Sequence[Outputs]
    span: Span
    start_ns: int


def pair_ms(handles: SavedHandles, l2_bytes: int, cache: Cache = Cache.COLD) -> float:
    """What an event pair reads, behind a hold, beyond the kernel between its events.

    Kernels that spin for known times are timed by events, then the same ones by CUPTI, which would lengthen the pairs.
    They come behind the flush of a sample, since a launch reads what it needs through the L2, too.

    Args:
        handles: of this process.
        l2_bytes: size of the cache to flush.
        cache: what the L2 holds before a sample.

    Raises:
        RuntimeError: CUPTI or the kernel cannot be had, or kernels of different lengths do not agree.
    """
    saved = handles.torch
    start, end = saved.event(enable_timing=True), saved.event(enable_timing=True)
    spin, flush = Spin(), Flush(saved, l2_bytes)

    def pair(us: float) -> float:
        flush.launch(cache)
        if not handles.hold.launch(SPIN_HOLD_MS):
            raise RuntimeError("there is no hold")
        handles.probe.before()
        saved.record(start)
        spin.launch(us)
        saved.record(end)
        handles.probe.after()
        saved.synchronize()
        return float(saved.elapsed_ms(start, end))

    saved.settle()
    pair(SPINS_US[0])
    read_ms = [sorted(pair(us) for _ in range(SPINS))[SPINS // 2] for us in SPINS_US]
    with cupti.opened().recorded() as recording:
        for us in SPINS_US:
            for _ in range(SPINS):
                pair(us)
    spans = spans_ms(recording.activities)
    if len(spans) != SPINS * len(SPINS_US):
        raise RuntimeError(f"CUPTI saw {len(spans)} of {SPINS * len(SPINS_US)} kernels")
    took_ms = [sorted(spans[first : first + SPINS])[SPINS // 2] for first in range(0, len(spans), SPINS)]
    beyond = sorted(read - took for read, took in zip(read_ms, took_ms, strict=True))
    if not 0 < beyond[0] <= beyond[-1] < beyond[0] + SPINS_APART_MS:
        raise RuntimeError(f"pairs read {beyond[0] * 1e3:.2f} to {beyond[-1] * 1e3:.2f} us more than kernels take")
    return sum(beyond) / len(beyond)


def _least(spans: Iterable[Span]) -> Span:
    """The least time and the least cycles: whatever comes in between only lengthens a reading."""
    readings = [span for span in spans if not math.isnan(span.ms)]
    if not readings:
        return Span()
    return Span(min(span.ms for span in readings), min(span.cycles for span in readings))


def _at_least_one(cycles: float) -> float:
    """The cycles, at least one, so that a call that does nothing can be compared. Unknown ones stay unknown."""
    return cycles if math.isnan(cycles) else max(cycles, 1.0)


Captured = TypeVar("Captured")


def capture(calls: Callable[[], Captured]) -> tuple[torch.cuda.CUDAGraph, Captured]:
    """What the calls launch, as a graph, and what they returned. Raises CaptureError, see CudaTimer.graph."""
    import torch

    captured = torch.cuda.CUDAGraph(keep_graph=True)
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(captured):
            returned = calls()
    except Exception as error:
        # Whatever the calls raise: only that they cannot be captured follows from it.
        torch.cuda.synchronize()
        words = " ".join(str(error).split())[:200]
        raise CaptureError(f"it cannot be captured ({type(error).__name__}: {words})") from error
    return captured, returned


def node_count(captured: torch.cuda.CUDAGraph) -> int:
    """How many kernels, copies and fills a captured graph has."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise CaptureError(f"its graph cannot be looked into ({error})") from error
    status, *_, count = driver.cuGraphGetNodes(driver.CUgraph(captured.raw_cuda_graph()))
    if status != driver.CUresult.CUDA_SUCCESS:
        raise CaptureError(f"its graph cannot be looked into ({status.name})")
    return int(count)


def _smallest_step(readings_ms: Iterable[float], rounding_ms: float) -> float | None:
    """Smallest difference between two readings that is more than rounding; None where there is none."""
    ordered = sorted(set(readings_ms))
    steps = [b - a for a, b in itertools.pairwise(ordered) if b - a > rounding_ms]
    return min(steps, default=None)


def _until_steady(once: Callable[[], float], budget_ms: float, together: Together = ALONE) -> WarmedUp:
    """Call until the medians of two successive groups of five differ by under 3 %, or the budget is spent; ranks until
    it is so for one of them."""
    deadline_ns = _monotonic_ns() + int(budget_ms * 1e6)
    times: list[float] = []
    steady = False
    while not times or not together.any(steady or _monotonic_ns() > deadline_ns):
        times.append(once())
        if len(times) >= 10 and len(times) % 5 == 0:
            new, old = sorted(times[-5:])[2], sorted(times[-10:-5])[2]
            steady = abs(new - old) < 0.03 * old
    tail = sorted(times[-5:])
    return WarmedUp(tail[len(tail) // 2], len(times))
