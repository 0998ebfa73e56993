"""An engine link without an engine, and streams of events that tell whole stories.

    link = FakeLink(quick_run_events(target="ch05:collate"))
    app = Workbench(link=link)                  # the stream is applied when the app starts the link
    link.push(events.Banner(key="disk", text="the disk is full"))
    assert link.sent_of(requests.Cancel)[0].run_id == "R1"

All numbers are made from a formula, so every picture of them is the same each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.store.outcomes import Timing
from aisp.store.record import Quality
from aisp.tui.link import ModelChanged
from aisp.tui.model import AA_ARM, Model
from tests import heard

START_NS = 5_000_000_000_000  # of every story; FakeLink's clock stands 12.3 s later
NOW_NS = START_NS + 12_300_000_000
EPOCH = "01EPOCH0000000000000000000"
WALL = "2026-05-04T10:11:12Z"

Kind = TypeVar("Kind", bound=requests.Request)
Answer = events.Reply | Callable[[Any], events.Reply]


class FakeLink:
    """The interface of `tui.link.EngineLink`; records what was asked, replays what it was given.

    Args:
        script: events applied when the app starts the link.
        model: the model to fill; by default one whose clock stands still at NOW_NS.
        replies: what to answer per type of request: a Reply, or a function of the request.
        connected: False leaves the link in the state "connecting".
    """

    def __init__(
        self,
        script: Iterable[events.Event] = (),
        *,
        model: Model | None = None,
        replies: Mapping[type[requests.Request], Answer] | None = None,
        connected: bool = True,
    ) -> None:
        self.model = model if model is not None else Model(clock_ns=lambda: NOW_NS)
        self.sent: list[requests.Request] = []
        self.replies: dict[type[requests.Request], Answer] = dict(replies or {})
        self.posted: list[set[str]] = []
        self.restarts = 0
        self.reconnects: list[bool] = []
        self.engine_log: list[str] = ["engine 4711 ready", "worker 4712 warm"]
        self.engine_status: events.Status | None = status_event()
        self._script = list(script)
        self._connect = connected
        self._app: Any = None

    @property
    def state(self) -> str:
        return str(self.model.connection)

    @property
    def connected(self) -> bool:
        return self.model.connection.state == "connected"

    def start(self, app: Any) -> None:
        """Connect and apply the script."""
        self._app = app
        if self._connect:
            self._post(self.model.apply([welcome_event()]) | self.model.set_connection("connected"))
        self.push(*self._script)
        self._script.clear()

    async def stop(self) -> None:
        self._app = None

    def script(self, story: Iterable[events.Event]) -> None:
        """Add events: applied at once where the link was started, else at its start."""
        if self._app is None:
            self._script.extend(story)
        else:
            self.push(*story)

    def push(self, *arrived: events.Event) -> set[str]:
        """Let these events arrive now, in one tick."""
        names = self.model.apply(arrived)
        if not names.isdisjoint(("runs", "fuzzes")) and not any(isinstance(e, events.QueueChanged) for e in arrived):
            names |= self.model.apply([queue_event(self.model)])
        self._post(names)
        return names

    def lose(self, why: str = "the engine went away; looking for it again") -> None:
        """Lose the engine."""
        self._post(self.model.set_connection("lost", why))

    def mismatch(self, why: str = "the running engine (pid 4711) speaks protocol 2, this program 1") -> None:
        """Find an engine of another version."""
        self._post(self.model.set_connection("mismatch", why))

    def reconnect(self, *, start: bool = True) -> None:
        self.reconnects.append(start)

    async def request(self, kind: type[requests.Request], /, **fields: Any) -> events.Reply:
        """Record and answer: as configured, else with what a willing engine would say."""
        message: Any = kind(**{"seq": len(self.sent) + 1, **fields})
        self.sent.append(message)
        answer = self.replies.get(kind)
        if callable(answer):
            return answer(message)
        if answer is not None:
            return answer
        if isinstance(message, requests.StartRuns):
            return events.Reply(to=message.seq, run_ids=[f"NEW{i}" for i, _ in enumerate(message.targets)])
        if isinstance(message, requests.MeasurePeak):
            return events.Reply(to=message.seq, run_ids=["01P"])
        if isinstance(message, requests.Restore):
            return events.Reply(to=message.seq, detail="kept0123")
        return events.Reply(to=message.seq)

    def sent_of(self, kind: type[Kind]) -> list[Kind]:
        """The requests of one type, in order."""
        return [message for message in self.sent if isinstance(message, kind)]

    async def fetch_status(self) -> events.Status | None:
        status = self.engine_status
        if status is not None:
            jobs = status.queue or self.model.queue
            self._post(self.model.apply([msgspec.structs.replace(status, queue=jobs)]))
        return status

    async def fetch_log(self, lines: int = 500) -> bool:
        self._post(self.model.apply([events.EngineLog(to=0, lines=self.engine_log[-lines:])]))
        return True

    async def restart_when_idle(self) -> str:
        self.restarts += 1
        return "the engine (pid 4711) ends when its queue is empty; a new one is started then"

    def _post(self, names: set[str]) -> None:
        if names and self._app is not None:
            self.posted.append(names)
            self._app.post_message(ModelChanged(names))


# -- single events --------------------------------------------------------------------------------------


def welcome_event(epoch: str = EPOCH) -> events.Welcome:
    """The handshake's answer."""
    return events.Welcome(
        protocol=PROTOCOL,
        build="b1b2b3",
        pid=4711,
        epoch=epoch,
        next_seq=1,
        compatible=True,
        state_dir="/home/ada/.local/state/aisp",
    )


CPU = events.Device(index=-1, name="AMD EPYC 7B13")
GPU = events.Device(
    index=0, name="NVIDIA H100 80GB HBM3", uuid="GPU-1", sm=90, memory_bytes=80 << 30, driver="580.65.06"
)


def status_event(*, gpu: bool = False, queue: Sequence[events.QueueItem] = (), **changes: Any) -> events.Status:
    """A Status of an engine that has been up for two hours."""
    fields: dict[str, Any] = {
        "to": 0,
        "pid": 4711,
        "uptime_s": 7384.0,
        "rss_bytes": 61 << 20,
        "devices": [GPU, CPU] if gpu else [CPU],
        "gpu_note": "" if gpu else "NVML 12 library not found",
        "queue": list(queue),
        "watches": [],
        "warm_workers": 2,
        "clients": 1,
        "runs_done": 17,
    }
    return events.Status(**{**fields, **changes})


def queue_item(run_id: str, target: str = "ch05:collate", state: str = "planned", **changes: Any) -> events.QueueItem:
    """A row of the queue."""
    fields: dict[str, Any] = {"title": "", "quick": True, "trigger": "tui", "device": "cpu"}
    return events.QueueItem(run_id=run_id, target=target, state=state, **{**fields, **changes})


def queue_event(model: Model) -> events.QueueChanged:
    """The queue as an engine would tell it that has just these runs and fuzzes."""
    jobs = [
        queue_item(
            run.id,
            run.record.target,
            run.record.state.value,
            quick=run.record.quick,
            trigger=run.record.trigger.value,
            device=run.device,
            began_ns=run.record.start_ns,
        )
        for run in model.active_runs()
    ]
    jobs += [
        queue_item(
            fuzz.id,
            fuzz.target,
            fuzz.state.value,
            kind=fuzz.what,
            began_ns=None if fuzz.state == "planned" else START_NS,
        )
        for fuzz in model.active_fuzzes()
    ]
    return events.QueueChanged(jobs=sorted(jobs, key=lambda job: job.began_ns is None))


def planned_event(run_id: str, target: str, *, rungs: Sequence[str], **changes: Any) -> events.RunPlanned:
    """A run is planned."""
    fields: dict[str, Any] = {
        "run_id": run_id,
        "target": target,
        "title": "Collate a batch without copying it twice",
        "folder": "/home/ada/kernels/ch05_data/collate",
        "device": "cpu",
        "case": "cpu",
        "quick": True,
        "trigger": "tui",
        "rungs": list(rungs),
        "snapshot": "a1" * 32,
        "wall": WALL,
        "epoch": EPOCH,
    }
    return heard.planned(**{**fields, **changes})


def wave(count: int, median_ms: float, *, phase: int = 0) -> list[float]:
    """`count` times around `median_ms`: a slow swing, a small jitter and a spike now and then."""
    return [
        median_ms
        * (1 + 0.012 * math.sin((i + phase) / 7) + 0.003 * (((i + phase) * 37) % 11 - 5) / 5)
        * (1.6 if (i + phase) % 97 == 96 else 1.0)
        for i in range(count)
    ]


def batch_event(
    run_id: str,
    arm: str,
    start_ns: int,
    median_ms: float,
    *,
    count: int = 40,
    replica: int = 0,
    round: int = 0,
    timing: Timing | str = "host",
    period_ns: int = 0,
    discarded: Sequence[int] = (),
    sm_clock_mhz: Sequence[float] = (),
) -> events.SampleBatch:
    """One batch of samples, `period_ns` apart (by default as long as they took); clocks are unknown where not given."""
    times = wave(count, median_ms, phase=round * count)
    end_ns, ends = start_ns, []
    for device_ms in times:
        end_ns += period_ns or int(device_ms * 1e6)
        ends.append(end_ns)
    return events.SampleBatch(
        run_id=run_id,
        arm=arm,
        replica=replica,
        round=round,
        timing=Timing(timing),
        device_ms=times,
        end_ns=ends,
        discarded=list(discarded) or [0] * count,
        sm_clock_mhz=list(sm_clock_mhz) or [math.nan] * count,
    )


def telemetry_event(start_ns: int, count: int, *, first: int = 0, gpu: int = 0) -> events.TelemetryBatch:
    """`count` readings at 20 Hz of a GPU that warms up and hits its power cap from the 40th reading on."""
    numbers = range(first, first + count)
    return events.TelemetryBatch(
        gpu=gpu,
        at_ns=[start_ns + i * 50_000_000 for i in numbers],
        sm_clock_mhz=[1980.0 if i < 40 else 1755.0 for i in numbers],
        memory_clock_mhz=[2619.0 for _ in numbers],
        temperature_c=[41.0 + i // 8 for i in numbers],
        power_w=[min(700.0, 310.0 + 12 * i) for i in numbers],
        throttle=[0 if i < 40 else 0x4 for i in numbers],
    )


# -- stories --------------------------------------------------------------------------------------------


def numbered(story: Iterable[events.Event], first: int = 1) -> list[events.Event]:
    """The story with the sequence numbers that an engine would give."""
    out = []
    for seq, event in enumerate(story, first):
        event.seq = seq
        out.append(event)
    return out


def _step(run_id: str, name: str, arm: str, at_ms: float, duration_ms: float, base_ns: int) -> list[events.Event]:
    start_ns = base_ns + int(at_ms * 1e6)
    return [
        heard.step(run_id=run_id, name=name, arm=arm, start_ns=start_ns),
        heard.step(run_id=run_id, name=name, arm=arm, start_ns=start_ns, duration_ms=duration_ms),
    ]


def quick_run_events(
    target: str = "ch05:collate",
    *,
    run_id: str = "R1",
    speedup: float = 2.31,
    baseline_ms: float = 4.2,
    verdict: str = "faster",
    rungs: Sequence[str] = ("baseline", "optimized"),
    rounds: int = 3,
    finished: bool = True,
    base_ns: int = START_NS,
    trigger: str = "tui",
    quick: bool = True,
    snapshot: str = "a1" * 32,
    **planned: Any,
) -> list[events.Event]:
    """A whole run on the CPU: planned, warmed, verified, measured in `rounds`, with a verdict.

    The second rung is `speedup` times as fast as the baseline, each further one a tenth slower than that.
    """
    arms = [*rungs, AA_ARM]
    median = {rungs[0]: baseline_ms, AA_ARM: baseline_ms * 1.001}
    median |= {rung: baseline_ms / speedup * (1 + 0.1 * i) for i, rung in enumerate(rungs[1:])}
    story: list[events.Event] = [
        planned_event(run_id, target, rungs=arms, trigger=trigger, quick=quick, snapshot=snapshot, **planned),
        heard.state(run_id=run_id, state="starting", at_ns=base_ns),
        *_step(run_id, "warm worker", "", 0, 2.4, base_ns),
        heard.state(run_id=run_id, state="running", at_ns=base_ns + 3_000_000),
    ]
    for i, arm in enumerate(rungs):
        story += _step(run_id, "compile", arm, 3 + 40 * i, 12.5, base_ns)
        story += _step(run_id, "verify", arm, 16 + 40 * i, 21.0, base_ns)
        story += _step(run_id, "warm-up", arm, 37 + 40 * i, 5.5, base_ns)
        story.append(
            heard.arm(
                run_id=run_id,
                arm=arm,
                state="running",
                correctness="correct",
                timing="host",
                max_error=0.25 * i,
            )
        )
    measure_ns = base_ns + 150_000_000
    story.append(heard.step(run_id=run_id, name="measure", arm="", start_ns=measure_ns))
    at_ns, count = measure_ns, 0
    for round in range(rounds):
        for arm in arms:
            batch = batch_event(run_id, arm, at_ns, median[arm], round=round)
            at_ns = batch.end_ns[-1] + 2_000_000
            story.append(batch)
        count += 40
        for arm in arms:
            story.append(
                heard.arm(
                    run_id=run_id,
                    arm=arm,
                    state="running",
                    correctness="correct",
                    timing="host",
                    median_ms=median[arm],
                    low_ms=median[arm] * 0.99,
                    high_ms=median[arm] * 1.01,
                    samples=count,
                    max_error=0.25,
                    sol=None,
                )
            )
    if not finished:
        return story
    story.append(
        heard.step(run_id=run_id, name="measure", arm="", start_ns=measure_ns, duration_ms=(at_ns - measure_ns) / 1e6)
    )
    story += _step(run_id, "verdict", "", (at_ns - base_ns) / 1e6, 3.1, base_ns)
    for arm in arms:
        story.append(
            heard.arm(
                run_id=run_id,
                arm=arm,
                state="ok",
                correctness="correct",
                timing="host",
                median_ms=median[arm],
                low_ms=median[arm] * 0.99,
                high_ms=median[arm] * 1.01,
                samples=count,
                max_error=0.25,
                sol=None,
            )
        )
    for rung in rungs[1:]:
        ratio = baseline_ms / median[rung]
        story.append(
            heard.comparison(
                run_id=run_id,
                rung=rung,
                baseline=rungs[0],
                verdict=verdict,
                speedup=ratio,
                low=ratio * 0.987,
                high=ratio * 1.017,
                floor=0.005,
                note="4 more replicas would decide it" if verdict == "undecided" else "",
            )
        )
    story.append(
        heard.finished(
            run_id=run_id,
            target=target,
            state="ok",
            correctness="correct",
            validity="valid",
            verdict=verdict,
            duration_ms=(at_ns - base_ns) / 1e6 + 3.1,
            flags=["quick"] if quick else [],
        )
    )
    return heard.whole(story)


FULL_RULE = {"replicas": 5, "looks": [{"replicas": 2, "level": 0.02}, {"replicas": 3, "level": 0.03}]}


def run_under_way(
    run_id: str = "R1",
    *,
    expected_s: float | None = None,
    expected_processes: int = 0,
    begun_s: Sequence[float] = (0.0,),
) -> list[events.Event]:
    """A full run on the CPU that measures: each of its processes has begun at one of these seconds."""
    pace = {"expected_s": expected_s, "expected_processes": expected_processes, "stop_rule": FULL_RULE}
    story = quick_run_events(run_id=run_id, quick=False, finished=False, **pace)
    begun = [
        heard.state(run_id=run_id, state="running", at_ns=START_NS + int(at_s * 1e9), process=number)
        for number, at_s in enumerate(begun_s, 1)
    ]
    return [*story, *begun]


TRACEBACK = """optimized.py:14 in run
    return tl.dot(a, b, acc)
triton.CompilationError: at 14:11: Both operands must be of the same type. Got fp16 and bf16"""


def failing_run_events(
    target: str = "ch05:collate",
    *,
    run_id: str = "R1",
    state: str = "user_error",
    reason: str = "optimized.py line 14 does not compile: both operands must be of the same type",
    detail: str = TRACEBACK,
    base_ns: int = START_NS,
    **planned: Any,
) -> list[events.Event]:
    """A run whose optimized rung fails to compile (or, with state "incorrect", gives wrong answers)."""
    wrong = state == "incorrect"
    story: list[events.Event] = [
        planned_event(run_id, target, rungs=["baseline", "optimized", AA_ARM], **planned),
        heard.state(run_id=run_id, state="running", at_ns=base_ns),
        *_step(run_id, "warm worker", "", 0, 2.4, base_ns),
        *_step(run_id, "compile", "baseline", 3, 12.5, base_ns),
        heard.arm(run_id=run_id, arm="baseline", state="running", correctness="correct", max_error=0.1),
        *_step(run_id, "compile", "optimized", 20, 48.0, base_ns),
        events.Output(run_id=run_id, arm="optimized", stream="stderr", lines=["compiling for sm_90", "  tile 128x64"]),
        heard.arm(
            run_id=run_id,
            arm="optimized",
            state=state,
            correctness="wrong" if wrong else "unknown",
            max_error=412.0 if wrong else None,
            reason=reason,
            detail=detail,
        ),
        heard.arm(
            run_id=run_id,
            arm="baseline",
            state="cancelled",
            correctness="correct",
            max_error=0.1,
            reason="ended with optimized",
        ),
        heard.comparison(run_id=run_id, rung="optimized", baseline="baseline", verdict="none", note=reason),
        heard.finished(
            run_id=run_id,
            target=target,
            state=state,
            correctness="wrong" if wrong else "unknown",
            validity="unknown",
            verdict="none",
            duration_ms=71.5,
            reason=reason,
        ),
    ]
    return heard.whole(story)


def sample_clock_mhz(round: int, sample: int) -> float:
    """What the GPU's counters said during a sample of `gpu_run_events`: low in those that are set aside."""
    if round == 2 and sample < 3:
        return 1380.0
    return (1980.0 if round < 2 else 1755.0) - 5.0 * (sample % 3)


GPU_LIGHT = {"baseline": 0.161, "optimized": 0.161, "optimized_swizzled": 0.161, AA_ARM: 0.161}


def gpu_arm_facts(arm: str) -> dict[str, Any]:
    """How the arms of `gpu_run_events` were timed, and what their samples say."""
    scores = {"optimized": 0.91, "optimized_swizzled": 0.96}
    return {
        "calls": 1,
        "sm_clock_mhz": 1755.0 if arm == "optimized_swizzled" else 1975.0,
        "light": heard.light(
            spec_ms=0.1502, clock_ms=0.1502, measured_ms=GPU_LIGHT[arm], limiter="bytes", score=scores.get(arm)
        ),
        "quality": Quality(
            drift=0.021 if arm == "baseline" else 0.001,
            autocorrelation=0.1,
            low_mode_ms=0.168 if arm == "optimized_swizzled" else None,
            high_mode_ms=0.183 if arm == "optimized_swizzled" else None,
            high_share=0.2 if arm == "optimized_swizzled" else None,
            throttled_share=0.015,
            resolution_ms=3.2e-5,
            overhead_ms=1.28e-3,
        ),
    }


CLOCKS_NOTE = (
    "the clocks differed: 1975 MHz for baseline, 1755 MHz for optimized_swizzled; "
    "in cycles it is faster beyond the floor too"
)


def peak_events(*, peak_id: str = "01P", finished: bool = True, reason: str = "", count: int = 6) -> list[events.Event]:
    """A measurement of the ceilings of an H100, one of which could not be taken."""
    rows: list[tuple[str, float | None, str, int | None, str]] = [
        ("launch empty", 1.28e-6, "s", None, ""),
        ("dram read", 3.02e12, "bytes/s", 4 << 30, ""),
        ("dram copy", 2.81e12, "bytes/s", 4 << 30, ""),
        ("bf16 dense", 688e12, "flop/s", None, "8192 x 8192 x 8192, random normal data"),
        ("fp32 dense", 51e12, "flop/s", None, ""),
        ("peer copy", None, "bytes/s", None, "there is one GPU here, and a copy between peers takes two"),
    ]
    story: list[events.Event] = [
        heard.ceiling(
            peak_id=peak_id,
            gpu=GPU.name,
            position=position,
            count=len(rows),
            name=name,
            value=value,
            unit=unit,
            sm_clock_mhz=1605.0 if name == "bf16 dense" else 1980.0,
            memory_clock_mhz=2619.0,
            footprint_bytes=footprint,
            note=note,
        )
        for position, (name, value, unit, footprint, note) in enumerate(rows[:count], 1)
    ]
    if finished:
        story.append(events.PeakFinished(peak_id=peak_id, gpu=GPU.name, reason=reason))
    return story


def gpu_run_events(
    target: str = "ch07:transpose",
    *,
    run_id: str = "G1",
    finished: bool = True,
    rounds: int = 4,
    base_ns: int = START_NS,
) -> list[events.Event]:
    """A full run on a GPU with clocks at 20 Hz; the power cap bites after two seconds."""
    rungs = ("baseline", "optimized", "optimized_swizzled")
    arms = [*rungs, AA_ARM]
    median = {"baseline": 0.412, "optimized": 0.187, "optimized_swizzled": 0.171, AA_ARM: 0.4122}
    sol = {"baseline": 0.39, "optimized": 0.86, "optimized_swizzled": 0.94, AA_ARM: 0.39}
    story: list[events.Event] = [
        planned_event(
            run_id,
            target,
            rungs=arms,
            device="cuda",
            case="default",
            quick=False,
            title="A transpose that reads and writes whole cache lines",
        ),
        heard.state(run_id=run_id, state="running", at_ns=base_ns),
        *_step(run_id, "warm worker", "", 0, 1.8, base_ns),
    ]
    for i, arm in enumerate(rungs):
        story += _step(run_id, "compile", arm, 5 + 300 * i, 210.0, base_ns)
        story += _step(run_id, "verify", arm, 220 + 300 * i, 60.0, base_ns)
    measure_ns = base_ns + 1_000_000_000
    story.append(heard.step(run_id=run_id, name="measure", arm="", start_ns=measure_ns))
    for round in range(rounds):
        for i, arm in enumerate(arms):
            story.append(
                batch_event(
                    run_id,
                    arm,
                    measure_ns + round * 1_000_000_000 + i * 250_000_000,
                    median[arm],
                    round=round,
                    count=50,
                    timing="cold",
                    period_ns=5_000_000,
                    discarded=[1 if round == 2 and k < 3 else 0 for k in range(50)],
                    sm_clock_mhz=[sample_clock_mhz(round, k) for k in range(50)],
                )
            )
        story.append(telemetry_event(measure_ns, 20, first=20 * round))
        for arm in arms:
            story.append(
                heard.arm(
                    run_id=run_id,
                    arm=arm,
                    state="running",
                    correctness="correct",
                    timing="cold",
                    **gpu_arm_facts(arm),
                    median_ms=median[arm],
                    low_ms=median[arm] * 0.995,
                    high_ms=median[arm] * 1.005,
                    samples=50 * (round + 1),
                    sol=sol[arm],
                    max_error=0.0,
                )
            )
    if not finished:
        return story
    story.append(heard.step(run_id=run_id, name="measure", arm="", start_ns=measure_ns, duration_ms=rounds * 1000.0))
    for arm in arms:
        story.append(
            heard.arm(
                run_id=run_id,
                arm=arm,
                state="ok",
                correctness="correct",
                timing="cold",
                **gpu_arm_facts(arm),
                median_ms=median[arm],
                low_ms=median[arm] * 0.995,
                high_ms=median[arm] * 1.005,
                samples=50 * rounds,
                sol=sol[arm],
                max_error=0.0,
            )
        )
    for rung in rungs[1:]:
        ratio = median["baseline"] / median[rung]
        story.append(
            heard.comparison(
                run_id=run_id,
                rung=rung,
                baseline="baseline",
                verdict="faster",
                speedup=ratio,
                low=ratio * 0.99,
                high=ratio * 1.01,
                floor=0.003,
                cycles=ratio * 0.97,
                cycles_low=ratio * 0.96,
                cycles_high=ratio * 0.98,
                p_value=0.0005,
                note=CLOCKS_NOTE if rung == "optimized_swizzled" else "",
            )
        )
    story.append(
        heard.finished(
            run_id=run_id,
            target=target,
            state="ok",
            correctness="correct",
            validity="valid",
            verdict="faster",
            duration_ms=1000.0 + rounds * 1000.0,
            flags=["clocks=unlocked"],
        )
    )
    return heard.whole(story)


def watch_events(
    target: str = "ch05:collate", *, folder: str = "/home/ada/kernels/ch05_data/collate"
) -> list[events.Event]:
    """A watch with five edits: its start, a gain, a syntax error, a wrong answer, the best, a loss."""
    story: list[events.Event] = [events.WatchChanged(target=target, folder=folder, active=True)]

    def edit(number: int, run_id: str, error: str = "") -> None:
        story.append(
            events.WatchEdit(
                target=target,
                number=number,
                snapshot=f"{number:02x}" * 32,
                files=[] if number == 0 else ["optimized.py"] if number != 4 else ["optimized.py", "tile.cu"],
                run_id=run_id,
                error=error,
                wall=f"2026-05-04T10:1{number}:05Z",
                save_ns=START_NS + number * 60_000_000_000,
            )
        )

    def run(number: int, speedup: float) -> None:
        story.extend(
            quick_run_events(
                target,
                run_id=f"W{number}",
                speedup=speedup,
                trigger="watch",
                rounds=1,
                base_ns=START_NS + number * 60_000_000_000,
                snapshot=f"{number:02x}" * 32,
                verdict="faster" if speedup > 1.02 else "same",
            )
        )

    edit(0, "W0")
    run(0, 1.0)
    edit(1, "W1")
    run(1, 1.5)
    edit(2, "", "optimized.py line 9: '(' was never closed")
    edit(3, "W3")
    story.extend(
        failing_run_events(
            target,
            run_id="W3",
            state="incorrect",
            reason="optimized: y[0, 17] is 3.25, expected 1.5 (412 tolerances)",
            detail="y: 17 of 4096 elements differ\n  [0, 17]  got 3.25  expected 1.5",
            trigger="watch",
            base_ns=START_NS + 3 * 60_000_000_000,
            snapshot="03" * 32,
        )
    )
    edit(4, "W4")
    run(4, 2.31)
    edit(5, "W5")
    run(5, 2.05)
    return story
