"""What the driver and the GPU's own records say: which streams, devices and contexts a call used, and for how long.

One call is traced by CUPTI after the last sample, with a spinning kernel before it and a marker behind it on the timed
stream. What runs beside the spinning kernel has started before the clock would; what ends after the marker would end
after it. A few samples of one call follow: how long the GPU worked in them is a witness beside the clocks. It decides
nothing, since the record lies in the rung's process. Tracing slows a process down, so nothing is timed after it.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aisp.checks import cupti
from aisp.checks.cupti import Activity
from aisp.checks.registry import (
    Answer,
    ArmFacts,
    Call,
    Check,
    Evidence,
    Facts,
    How,
    Issue,
    Need,
    RunFacts,
    Sensed,
    Sensor,
    Site,
    Unavailable,
    When,
    caught,
    not_applicable,
    passed,
    suspect,
    unavailable,
)
from aisp.store.outcomes import Timing

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Case

SPIN_CYCLES = 20_000_000  # some 10 ms: time to launch a call of a thousand kernels
MARK_CYCLES = 2_000
SPIN_KERNEL = "spin_kernel"  # what torch.cuda._sleep launches
READ_KERNEL = "read_clocks"  # of the engine: one stands before and one behind the call of a sample
SAMPLES = 7
MOST_SAMPLES = 20  # of which some were not held: CUPTI slows the host, and the first holds are too short for that
SAMPLES_S = 0.25  # in which they must have begun
HOLD_KERNEL = "aisp_hold"  # of the engine: the holds of all ranks end together, whatever the clocks of their GPUs
NO_KERNEL = ("Memcpy", "Memset")  # how names of copies and fills begin
SETTLE_S = 0.02  # for what still runs in a context that no synchronisation of ours reaches
MOST_NAMED = 6
SLACK_NS = 2_000  # two activities that follow one another may seem to overlap by the clock's step
BUSY_FACTOR = 2.0  # a traced call comes after a pause, and so at a lower clock
BUSY_LEAST_MS = 0.05
HOST_LEAST_MS = 1.0
CLAIM = 1.2
EVERY = 16

# -- one call, traced --------------------------------------------------------------------------------------------------


class Traced(Facts, frozen=True, kw_only=True):
    """One call, traced.

    Attributes:
        activities: kernels, copies and fills between spinning kernel and marker.
        kernels: those that are neither copies nor fills.
        busy_ms: time in which the GPU was at work on any of them.
        streams: how many they were on.
        elsewhere: GPUs beside the timed stream's.
        early, late: in words, those that began before the clock would and ended after it; at most six.
        early_ms, late_ms: how much they did before in all, and the longest of those after.
        migrations: of managed memory.
        cost_ms: what tracing took.
    """

    activities: int
    kernels: int
    busy_ms: float
    streams: int
    elsewhere: list[int]
    early: list[str]
    early_ms: float
    late: list[str]
    late_ms: float
    migrations: int
    cost_ms: float


class TraceFacts(Facts, frozen=True, kw_only=True):
    """What was recorded.

    Attributes:
        traced: a call; None where nothing was timed.
        span_ms: from the first start to the last end of what the GPU did for one call, by samples; see `spans_ms`.
    """

    traced: Traced | None
    span_ms: float | None


def read_trace(activities: Sequence[Activity], *, cost_ms: float = 0.0) -> Traced:
    """What the activities between spinning kernel and marker say.

    Raises:
        ValueError: spinning kernel and marker are not both there.
    """
    ordered = sorted(activities, key=lambda each: each.start_ns)
    around = [each for each in ordered if SPIN_KERNEL in each.name or each.name == HOLD_KERNEL]
    if len(around) < 2:
        raise ValueError(f"CUPTI saw {len(around)} of the 2 kernels that stand around the call")
    hold, mark = around[0], around[-1]
    work = [each for each in ordered if each is not hold and each is not mark and each.start_ns >= hold.start_ns]
    early = [
        each for each in work if each.stream != hold.stream and hold.start_ns < each.start_ns < hold.end_ns - SLACK_NS
    ]
    late = [each for each in work if each.end_ns > mark.start_ns + SLACK_NS]
    busy_ns, reached = 0, 0
    for each in work:
        busy_ns += max(0, each.end_ns - max(each.start_ns, reached))
        reached = max(reached, each.end_ns)
    return Traced(
        activities=len(work),
        kernels=sum(not each.name.startswith(NO_KERNEL) for each in work),
        busy_ms=busy_ns / 1e6,
        streams=len({(each.device, each.stream) for each in work}),
        elsewhere=sorted({each.device for each in work} - {hold.device}),
        early=[_described(each, hold.end_ns - each.start_ns) for each in early[:MOST_NAMED]],
        early_ms=sum(min(each.end_ns, hold.end_ns) - each.start_ns for each in early) / 1e6,
        late=[_described(each, each.end_ns - mark.start_ns) for each in late[:MOST_NAMED]],
        late_ms=max((each.end_ns - mark.start_ns for each in late), default=0) / 1e6,
        migrations=sum("unified memory" in each.name.lower() for each in work),
        cost_ms=cost_ms,
    )


def spans_ms(activities: Iterable[Activity]) -> list[float]:
    """Span of each sample: from the first start to the last end of what stands between its two readings of the
    counters, as the GPU noted them; 0 of a call that launched nothing."""
    spans: list[float] = []
    inside: list[Activity] | None = None
    for each in sorted(activities, key=lambda one: one.start_ns):
        if each.name != READ_KERNEL:
            if inside is not None:
                inside.append(each)
            continue
        if inside is not None:
            spans.append((max(one.end_ns for one in inside) - inside[0].start_ns) / 1e6 if inside else 0.0)
        inside = [] if inside is None else None
    return spans


def _described(activity: Activity, beyond_ns: int) -> str:
    return f"{activity.name[:60]} on stream {activity.stream} by {beyond_ns / 1e6:.3g} ms"


class Trace(Sensor[TraceFacts]):
    """One call and some samples under CUPTI, after the last sample: whoever is at work beside takes slices of a GPU's
    time. Uses `Site.launch_once`: one bare call, no refill and no waiting.
    """

    name = "trace"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._traced: Traced | None = None
        self._span_ms: float | None = None

    def alone(self) -> None:
        """See Sensor."""
        import torch  # a sensor runs in a worker, which has it

        launch_once = self.site.launch_once
        if launch_once is None:
            return
        start = time.perf_counter()
        torch.cuda.synchronize()
        with cupti.opened().recorded() as recording:
            launch_once()  # a first copy or kernel under CUPTI waits for buffers of its own
            torch.cuda.synchronize()
            # A rank that is early would be busy waiting for the others.
            if self.site.hold_together is None or not self.site.hold_together():
                torch.cuda._sleep(SPIN_CYCLES)
            launch_once()
            torch.cuda._sleep(MARK_CYCLES)
            torch.cuda.synchronize()
            time.sleep(SETTLE_S)
        self._traced = read_trace(recording.activities, cost_ms=(time.perf_counter() - start) * 1e3)
        if (sample_once := self.site.sample_once) is None:
            return
        until = time.perf_counter() + SAMPLES_S
        held: list[bool] = []
        with cupti.opened().recorded() as recording:
            while sum(held) < SAMPLES and len(held) < MOST_SAMPLES and time.perf_counter() < until:
                held.append(not sample_once().discarded)
            torch.cuda.synchronize()
        spans = spans_ms(recording.activities)
        if len(spans) == len(held) and any(held):
            self._span_ms = statistics.median(itertools.compress(spans, held)) or None

    def facts(self) -> TraceFacts:
        """See TraceFacts."""
        return TraceFacts(traced=self._traced, span_ms=self._span_ms)


def _traced(arm: ArmFacts) -> list[Traced]:
    """What each replica's trace says. Raises Unavailable where none was made."""
    traces = [facts.traced for facts in arm.facts(Trace) if facts.traced is not None]
    if not traces:
        raise Unavailable("no call was traced")
    return traces


def _traces(arm: ArmFacts) -> list[Traced]:
    """Traces for a check of another sensor: none where none was made."""
    notes = (replica.of(Trace) for replica in arm.sensed)
    return [facts.traced for facts in notes if facts is not None and facts.traced is not None]


def launches(sensed: Iterable[Sensed]) -> int | None:
    """Kernels in one call, the most of any replica and rank that was traced; None where none was."""
    counts = (facts.traced.kernels for each in sensed if (facts := each.of(Trace)) is not None and facts.traced)
    return max(counts, default=None)


def span_ms(sensed: Iterable[Sensed]) -> float | None:
    """Median over processes of how long the GPU worked for one call; None where no sample was recorded."""
    spans = [facts.span_ms for each in sensed if (facts := each.of(Trace)) is not None and facts.span_ms is not None]
    return statistics.median(spans) if spans else None


def streams(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where, in every replica, work starts before the clock or ends after it."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    traces = _traced(arm)
    held = "+host" not in arm.timing  # else the clock starts with the first launch, and nothing can be before it
    late = [traced.late for traced in traces]
    early = [traced.early if held else [] for traced in traces]
    if all(late):
        return caught(f"ends after the timed stream: {'; '.join(late[0])}")
    if all(early):
        return caught(f"starts before the clock, while the launches are held back: {'; '.join(early[0])}")
    first = traces[0]
    return passed(
        f"{first.activities} kernels and copies on {first.streams} streams, all of them between the two events"
    )


def kernel_time(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where the GPU was busy with one call for far longer than a call is said to take."""
    if arm.timing is Timing.NONE or arm.median_ms is None:
        return not_applicable("it was not timed")
    traces = _traced(arm)
    if all(traced.streams <= 1 for traced in traces):
        return passed("all work of a call is on one stream, and so between the two events")
    busy_ms = min(traced.busy_ms for traced in traces)
    words = f"{arm.median_ms:.3g} ms by the samples, the GPU was busy for {busy_ms:.3g} ms with one call"
    if busy_ms > BUSY_FACTOR * arm.median_ms + BUSY_LEAST_MS:
        return caught(words)
    return passed(words)


# -- devices, contexts, streams ----------------------------------------------------------------------------------------


class PlacesFacts(Facts, frozen=True, kw_only=True):
    """Where calls left the process.

    Attributes:
        gpus: that this process sees.
        elsewhere: those beside the first that the lesson has used.
        moved: what is another one now (device, stream or context), and who did it.
        managed: outputs in managed memory, at most six.
    """

    gpus: int
    elsewhere: list[int]
    moved: dict[str, str]
    managed: list[str]


class Places(Sensor[PlacesFacts]):
    """Where a call leaves the process: current device, stream and context, and which other GPUs it has used."""

    name = "places"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._home: tuple[int, int, int] | None = None
        self._gpus = 0
        self._foreign: set[int] = set()
        self._moved: dict[str, str] = {}
        self._managed: list[str] = []
        self._calls = 0

    def before_import(self) -> None:
        """See Sensor."""
        import torch  # a sensor runs in a worker, which has it

        self._gpus = torch.cuda.device_count()
        self._used = torch._C._cuda_hasPrimaryContext
        self._home = self._here()
        self._foreign = {index for index in range(self._gpus) if self._used(index)}

    def _here(self) -> tuple[int, int, int]:
        """Current device, stream and context; the context is 0 where the driver's bindings are missing."""
        import torch

        device = torch._C._cuda_getDevice()
        return device, torch._C._cuda_getCurrentRawStream(device), _current_context()

    def _look(self, when: str) -> None:
        if self._home is None:
            raise RuntimeError("nothing was noted before the import")
        for what, now, was in zip(("device", "stream", "context"), self._here(), self._home, strict=True):
            if now != was:
                self._moved.setdefault(what, when)

    def after_import(self) -> None:
        """See Sensor."""
        self._look("by its import")

    def after_prepare(self, case: Case, buffers: Sequence[object]) -> None:
        """See Sensor."""
        self._look("by prepare()")

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        self._calls += 1
        if call.stage == "verify" or self._calls % EVERY == 0:
            if call.sample is None:  # a timed sample is ended by our own settling
                self._look("by a call")
            self._managed += [output for output in _managed(call.outputs) if output not in self._managed]

    def facts(self) -> PlacesFacts:
        """See PlacesFacts."""
        now = {index for index in range(self._gpus) if self._used(index)}
        return PlacesFacts(
            gpus=self._gpus,
            elsewhere=sorted(now - self._foreign),
            moved=dict(self._moved),
            managed=self._managed[:MOST_NAMED],
        )


def _current_context() -> int:
    try:
        from cuda.bindings import driver  # absent on many machines
    except ImportError:
        return 0
    status, context = driver.cuCtxGetCurrent()
    return int(context) if status == driver.CUresult.CUDA_SUCCESS else 0


def _managed(outputs: Sequence[tuple[Any, ...]]) -> list[str]:
    """Outputs in memory whose pages move between host and GPU when they are touched."""
    try:
        from cuda.bindings import driver  # absent on many machines
    except ImportError:
        return []
    managed = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED
    names = []
    for position, output in enumerate(itertools.chain.from_iterable(outputs[:1])):
        if output.is_cuda and output.numel():
            status, answer = driver.cuPointerGetAttribute(managed, output.data_ptr())
            if status == driver.CUresult.CUDA_SUCCESS and answer:
                names.append(f"output {position}")
    return names


def devices(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where a rung that declares one GPU has used another."""
    declared = max(1, run.target.needs.gpus)  # a rung's own needs only say where it can run
    if declared > 1:
        return not_applicable(f"the target declares {declared} GPUs")
    replicas = arm.facts(Places)
    if all(facts.gpus < 2 for facts in replicas):
        return not_applicable("this process sees one GPU only")
    used = [*(facts.elsewhere for facts in replicas), *(traced.elsewhere for traced in _traces(arm))]
    elsewhere = sorted({index for each in used for index in each})
    if elsewhere:
        names = ", ".join(f"cuda:{index}" for index in elsewhere)
        return caught(f"the target declares one GPU, and the rung has used {names} as well")
    return passed(f"of {replicas[0].gpus} GPUs it has used its own")


def contexts(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where a call leaves another device, stream or context behind as the current one."""
    for facts in arm.facts(Places):
        if moved := facts.moved:
            what = ", ".join(f"{name} ({when})" for name, when in moved.items())
            return caught(f"left changed: the current {what}; what is timed next would run there")
    others = len(run.before.get("gpu_processes") or ()), len(run.after.get("gpu_processes") or ())
    beside = f"; {max(others)} other processes have a context on this GPU" if any(others) else ""
    return passed(f"device, stream and context were after the calls what they were before{beside}")


def managed(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where an output is managed memory: its pages travel when the judge looks, after the clock has stopped."""
    for facts in arm.facts(Places):
        if facts.managed:
            return caught(f"in managed memory: {', '.join(facts.managed)}; its pages move when they are read")
    for traced in _traces(arm):
        if traced.migrations:
            return suspect(
                f"{traced.migrations} migrations of managed memory in one call: the first touch pays for the others"
            )
    return passed("no output lies in managed memory, and no page moved during a call")


# -- the host's share --------------------------------------------------------------------------------------------------


def host_time(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where a rung is faster for the GPU's clock and slower for whoever waits, by a millisecond and more."""
    if arm.timing is Timing.NONE or arm.median_ms is None:
        return not_applicable("it was not timed")
    if "+host" in arm.timing:
        return not_applicable("its samples contain the host's time")
    base = next((each for each in run.arms if each.arm == "baseline"), None)
    if base is None or base is arm or base.median_ms is None:
        return not_applicable("there is no baseline to be faster than")
    if not arm.sustained or not base.sustained:
        return unavailable("no calls were made by the engine's clock alone")
    base_ms = statistics.median(each.per_call_ms for each in base.sustained)
    ours_ms = min(each.per_call_ms for each in arm.sustained)
    words = (
        f"{arm.median_ms:.3g} ms for the GPU against the baseline's {base.median_ms:.3g} ms;"
        f" {ours_ms:.3g} ms against {base_ms:.3g} ms by the engine's clock"
    )
    claimed = base.median_ms > CLAIM * arm.median_ms
    hidden = all(each.per_call_ms - each.claimed_ms > HOST_LEAST_MS for each in arm.sustained)
    if claimed and hidden and ours_ms > CLAIM * base_ms:
        return caught(f"{words}: the host does the work while the launches are held back")
    return passed(words)


CHECKS: tuple[Check, ...] = (
    Check(
        "cuda.streams",
        "Every stream is joined",
        "One call is traced: no kernel or copy may start before the timed stream's turn nor end after it.",
        (
            "cuda.host_callback_escape",
            "cuda.async_memcpy_incomplete",
            "cuda.persistent_kernel",
            "cuda.cooperative_launch_abuse",
            "timing.unsynced_streams",
            "timing.incomplete_async_ops",
            "timing.graph_on_other_stream",
        ),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        needs=(Need.GPU, Need.CUPTI),
        arm=streams,
        sensor=Trace,
    ),
    Check(
        "cuda.kernel_time",
        "Busy no longer than claimed",
        "The time in which the GPU was busy with one traced call, on whatever streams, against that of the samples.",
        (
            "cuda.persistent_kernel",
            "cuda.cooperative_launch_abuse",
            "cuda.dynamic_parallelism_hidden",
            "timing.unsynced_streams",
            "timing.graph_on_other_stream",
        ),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        needs=(Need.GPU, Need.CUPTI),
        arm=kernel_time,
        sensor=Trace,
    ),
    Check(
        "cuda.devices",
        "The declared GPUs only",
        "Which GPUs have a context of this process, and on which of them a traced call ran.",
        ("cuda.undeclared_multi_gpu",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        needs=(Need.GPU, Need.GPUS),
        arm=devices,
        sensor=Places,
    ),
    Check(
        "cuda.contexts",
        "Device, stream and context stay",
        "After import, prepare() and calls the current device, stream and context must be the ones from before.",
        ("cuda.context_switch_overhead",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        arm=contexts,
        sensor=Places,
    ),
    Check(
        "cuda.managed_memory",
        "No pages on the move",
        "Outputs must not lie in managed memory, whose pages travel when somebody reads them.",
        ("cuda.unified_memory_faults",),
        When.EACH_SAMPLE,
        evidence=Evidence.VALUES,
        needs=(Need.GPU,),
        arm=managed,
        sensor=Places,
    ),
    Check(
        "cuda.host_time",
        "The host does not do the work",
        "Samples leave out what the host takes to launch. Where that makes a rung faster that is slower for whoever"
        " waits, the host did more than launch.",
        ("cuda.driver_overhead",),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        needs=(Need.GPU,),
        arm=host_time,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "cuda.host_callback_escape",
        "A host function in the stream starts something and returns before it is done.",
        How.DETECTED,
        "What the function leaves behind is a Python thread or work on another stream: both are looked for after every"
        " sample, and outputs of timed calls are judged.",
        "cuda/host_callback_escape",
    ),
    Issue(
        "cuda.async_memcpy_incomplete",
        "A copy between host and GPU runs on while the clock has stopped.",
        How.DETECTED,
        "The lag after each sample covers the copy engines; a traced call shows which came early or late.",
        "cuda/async_memcpy_incomplete",
    ),
    Issue(
        "cuda.workspace_pre_compute",
        "Results are computed while a workspace is made, and the timed call fetches them.",
        How.PREVENTED,
        "After prepare() every input that is not static gets new values, so a result from before is a wrong one; the"
        " last outputs are poisoned before each call.",
        "cuda/workspace_pre_compute",
    ),
    Issue(
        "cuda.persistent_kernel",
        "A kernel stays on the GPU and does the work of calls whose own kernels only ring a bell.",
        How.DETECTED,
        "The device must be idle after every sample, and the hold takes every SM before the next one.",
        "cuda/persistent_kernel",
    ),
    Issue(
        "cuda.undeclared_multi_gpu",
        "The work is spread over GPUs that the target does not declare.",
        How.DETECTED,
        "A context on another GPU, or a traced kernel there, catches a rung of a target whose `needs` says one GPU.",
        "cuda/undeclared_multi_gpu",
    ),
    Issue(
        "cuda.context_switch_overhead",
        "Another current device, stream or context is left behind, or other processes take turns on the GPU.",
        How.DETECTED,
        "Events, hold and refills go to one stream of one device whatever is current; what a call leaves changed is"
        " caught, and processes with a context on this GPU are named.",
        "cuda/context_switch_overhead",
    ),
    Issue(
        "cuda.driver_overhead",
        "Time in the driver and on the host is left out, and work is moved there.",
        How.DETECTED,
        "The host's time of each sample is kept, a latency lesson is timed with it, and a rung that is faster only for"
        " the GPU's clock is caught by the engine's.",
        "cuda/driver_overhead",
    ),
    Issue(
        "cuda.cooperative_launch_abuse",
        "A cooperative kernel does the work beside the timed stream.",
        How.DETECTED,
        "To stream order a cooperative kernel is a kernel like any other: lag, trace and the engine's clock see it, and"
        " while the hold has every SM it cannot start.",
        "cuda/cooperative_launch_abuse",
    ),
    Issue(
        "cuda.dynamic_parallelism_hidden",
        "A kernel launches kernels of its own that no tracer counts.",
        How.PREVENTED,
        "By CUDA's rules a grid is complete only when the grids that it launched are, and our closing event waits for"
        " the grid: their time is in the sample, counted or not. Linking device launches needs cudadevrt, which NVRTC"
        " does not bring, so there is no fixture; tests/checks/test_cuda.py proves that the judges go by time and never"
        " by a count of kernels.",
    ),
    Issue(
        "cuda.unified_memory_faults",
        "Pages of managed memory move before the clock starts or after it has stopped.",
        How.DETECTED,
        "Inputs are plain device memory, made by the engine; an output in managed memory is caught by its pointer's"
        " attributes, migrations in a traced call are suspect. tests/checks/test_cuda.py shows such pointers and traces"
        " to the judge: no fixture makes them, since pages that move disturb everything else on the GPU.",
    ),
)
