"""An engine without torch: speaks the real protocol on the real socket and plays scripted runs.

In a test, as a context manager with its loop in a thread:

    with FakeEngine() as engine:
        engine.outcomes["mine:one"] = "wrong"
        ...
    engine.requests        # what the clients asked

As a process of its own, which holds the engine's lock and can be stopped and killed:

    process = spawn()      # python -m tests.tui.fake_engine
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aisp.checks.oracle.schema import Case, Strategy
from aisp.engine import paths
from aisp.engine.client import build_id
from aisp.engine.protocol import PROTOCOL, events, requests
from aisp.engine.protocol.framing import Decoder, Encoder
from aisp.store import Store, new_ulid
from aisp.store.outcomes import (
    SUPERSEDED,
    CaseVerdict,
    Correctness,
    FuzzVerdict,
    State,
    Timing,
    Trigger,
    Validity,
    Verdict,
)
from aisp.store.record import Arm, Comparison, Failure, Fuzz, NaiveOpinion, Quality, Run, RungFuzz, Tally
from aisp.store.samples import Samples, Telemetry
from tests import heard
from tests.replacing import replace

MAIN = Path(__file__).parents[2]

LESSON = """+++
title      = "{title}"
techniques = ["fusion"]
goal       = "speed"
axes       = {{ N = 64 }}
flops      = "N"
tolerance  = {{ float32 = 1e-5 }}
expect     = {{ speedup = [1.5, 3.0], on = "{on}", why = "one pass instead of two" }}

[inputs]
x = "float32 [N] normal"
[outputs]
y = "float32 [N]"

[[cases]]
name = "cpu"
axes = {{ N = 16 }}
+++

# {title}
"""


def make_target(root: Path, name: str, *, title: str = "Two passes made one", on: str = "CPU") -> Path:
    """A folder with a target that the catalogue accepts; its id is `<name of root>:<name>`."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "lesson.md").write_text(LESSON.format(title=title, on=on), encoding="utf-8")
    for file in ("reference", "baseline", "optimized", "wrong_sign"):
        (folder / f"{file}.py").write_text("import torch\n\n\ndef run(x):\n    return x + 1\n")
    return folder


def isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state directory of the test's own, and none of the person's terminal settings; returns the directory."""
    state = tmp_path / "state"
    monkeypatch.setenv("AISP_STATE", str(state))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "config"))
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "SSH_CONNECTION",
        "SSH_TTY",
        "TMUX",
        "AISP_DEBUG",
        "COLUMNS",
        "PYTHONUNBUFFERED",
    ):
        monkeypatch.delenv(name, raising=False)
    return state


def aisp(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `aisp` in a process of its own, without a terminal."""
    return subprocess.run(
        [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **{"cwd": MAIN, **options},
    )


def start_aisp(*words: str, **options: Any) -> subprocess.Popen[str]:
    """The same, left running."""
    return subprocess.Popen(
        [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", *words],
        cwd=MAIN,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )


def hear(process: subprocess.Popen[str], text: str) -> list[str]:
    """The lines that a command tells, up to one with this text. One that ends before fails the test, which would else
    read on for ever."""
    assert process.stderr is not None
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        line = process.stderr.readline()
        assert line, f"it ended and never told {text!r}: {lines}"
        lines.append(line.rstrip("\n"))
    return lines


def wait_for(true: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
    """Wait until something is so; a test that waits in vain says for what."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


# What a GPU adds to an arm and a comparison: outcome "gpu". The rung ran at a lower clock than the baseline.
GPU_ARMS: dict[str, dict[str, Any]] = {
    "baseline": {
        "timing": "cold",
        "calls": 1,
        "sm_clock_mhz": 1980.0,
        "light": heard.light(spec_ms=0.2, clock_ms=0.2, measured_ms=0.248, limiter="bytes"),
        "quality": Quality(
            drift=0.001, autocorrelation=0.1, throttled_share=0.0, resolution_ms=3.2e-5, overhead_ms=1.28e-3
        ),
    },
    "optimized": {
        "timing": "cold graph",
        "calls": 16,
        "sm_clock_mhz": 1755.0,
        "light": heard.light(spec_ms=0.2, clock_ms=0.21, measured_ms=0.248, limiter="bytes", score=0.784),
        "quality": Quality(
            drift=0.023,
            autocorrelation=0.62,
            low_mode_ms=0.39,
            high_mode_ms=0.45,
            high_share=0.31,
            throttled_share=0.04,
            resolution_ms=3.2e-5,
            overhead_ms=1.28e-3,
        ),
    },
}
GPU_CYCLES: dict[str, Any] = {"cycles": 2.25, "cycles_low": 2.2, "cycles_high": 2.3, "note": "clocks differed"}

# What a measurement of ceilings finds; one of them cannot be measured here.
CEILINGS: list[dict[str, Any]] = [
    {
        "name": "dram read",
        "value": 3.02e12,
        "unit": "bytes/s",
        "sm_clock_mhz": 1980.0,
        "memory_clock_mhz": 2619.0,
        "footprint_bytes": 2**30,
    },
    {"name": "bf16 dense", "value": 7.2e14, "unit": "flop/s", "sm_clock_mhz": 1575.0, "memory_clock_mhz": 2619.0},
    {"name": "launch graph node", "value": 1.5e-6, "unit": "s", "sm_clock_mhz": 1980.0},
    {"name": "nvlink read", "value": None, "unit": "bytes/s", "note": "there is no peer"},
]


def scripted(run_id: str, outcome: str, rungs: list[str]) -> Iterator[events.Event]:
    """The events of a run between its plan and its end, the end included, but for "hang"."""
    now = time.monotonic_ns()
    yield heard.state(run_id=run_id, state="running", at_ns=now)
    if outcome == "unavailable":
        yield heard.finished(
            run_id=run_id,
            target="",
            state="unavailable",
            correctness="unknown",
            validity="unknown",
            verdict="none",
            duration_ms=1.0,
            reason="needs sm_90",
        )
        return
    yield heard.step(run_id=run_id, name="compile", arm="optimized", start_ns=now)
    yield heard.step(run_id=run_id, name="compile", arm="optimized", start_ns=now, duration_ms=12.0)
    if outcome == "crash":
        yield events.Output(run_id=run_id, arm="optimized", stream="stdout", lines=["about to fall"])
        yield heard.arm(
            run_id=run_id,
            arm="optimized",
            state="crashed",
            correctness="unknown",
            reason="died of SIGSEGV",
            detail='File "optimized.py", line 5, in run\n\x1b]0;owned\x07boom',
        )
        yield heard.finished(
            run_id=run_id,
            target="",
            state="crashed",
            correctness="unknown",
            validity="unknown",
            verdict="none",
            duration_ms=90.0,
            reason="optimized died of SIGSEGV",
        )
        return
    if outcome == "wrong":
        yield heard.arm(
            run_id=run_id,
            arm="optimized",
            state="incorrect",
            correctness="wrong",
            max_error=41.5,
            reason="y differs from the reference by 41.5 tolerances",
            detail="first at [3]: 2.0, expected 1.0",
        )
        yield heard.finished(
            run_id=run_id,
            target="",
            state="incorrect",
            correctness="wrong",
            validity="unknown",
            verdict="none",
            duration_ms=80.0,
            reason="optimized is wrong",
        )
        return
    yield events.TelemetryBatch(
        gpu=0,
        at_ns=[now],
        sm_clock_mhz=[1980.0],
        memory_clock_mhz=[2619.0],
        temperature_c=[54.0],
        power_w=[310.0],
        throttle=[0],
    )
    yield heard.step(run_id=run_id, name="measure", arm="optimized", start_ns=now)
    for arm, ms in (("baseline", 0.8), ("optimized", 0.4)):
        yield events.SampleBatch(
            run_id=run_id,
            arm=arm,
            replica=0,
            round=0,
            timing=Timing.HOST,
            device_ms=[ms] * 50,
            end_ns=[now] * 50,
            discarded=[0] * 50,
            sm_clock_mhz=[math.nan] * 50,
        )
    if outcome == "hang":
        return
    for arm, ms in (("baseline", 0.8), ("optimized", 0.4)):
        yield heard.arm(
            run_id=run_id,
            arm=arm,
            state="ok",
            correctness="correct",
            median_ms=ms,
            low_ms=ms * 0.99,
            high_ms=ms * 1.01,
            samples=50,
            sol=0.31,
            **(GPU_ARMS[arm] if outcome == "gpu" else {"timing": "host"}),
        )
    yield heard.comparison(
        run_id=run_id,
        rung="optimized",
        baseline="baseline",
        verdict="faster",
        speedup=2.0,
        low=1.96,
        high=2.04,
        floor=0.005,
        p_value=0.0005,
        **(GPU_CYCLES if outcome == "gpu" else {}),
    )
    suspect = outcome == "suspect"
    yield heard.finished(
        run_id=run_id,
        target="",
        state="ok",
        correctness="correct",
        validity="suspect" if suspect else "valid",
        verdict="none" if suspect else "faster",
        duration_ms=1500.0,
        reason="faster than the memory can be" if suspect else "",
        flags=["clocks=unlocked"],
    )


# The strategy whose cases fail, by what a fuzz is to find; the others are right in every case.
FUZZ_FAILS = {"wrong": "boundary", "doubted": "adversarial"}
FUZZ_SEED = 4711


def fuzz_case(number: int, strategy: str, N: int) -> dict[str, Any]:
    """A case of a target made by `make_target`, as plain data."""
    return Case(number, Strategy(strategy), {"N": N}, "float16").plain()


def fuzzed(fuzz_id: str, asked: requests.FuzzTarget, outcome: str) -> tuple[Fuzz, list[Failure]]:
    """What a fuzz of every rung that was asked for ends with: "right", "wrong", "doubted", "undecided" or
    "cancelled". Of what fails there are two cases, the smaller one first."""
    strategies = tuple(asked.strategies or ("boundary", "regular", "mixed", "adversarial", "nonfinite"))
    seed = FUZZ_SEED if asked.seed is None else asked.seed
    share, failing = asked.cases // len(strategies), FUZZ_FAILS.get(outcome, "")
    rungs, failures = [], []
    for rung in asked.rungs or ["optimized"]:
        kept = [
            Failure(
                id=f"{fuzz_id}F{number}{rung.upper()}",
                fuzz=fuzz_id,
                target=asked.target,
                rung=rung,
                device="cpu",
                seed=seed,
                stage="gate" if outcome == "wrong" else "triage",
                strategy=failing,
                case=fuzz_case(number, failing, 3 + number),
                drawn=fuzz_case(number, failing, 129),
                verdict=CaseVerdict.WRONG,
                snapshot="ab" * 32,
                wall="2026-01-02T03:04:05+00:00",
                output="y",
                finding="values",
                detail="y[2]: got 0.5, expected 1.5, 4.2 times the error allowed; 1 of 3 elements are wrong",
                input_hashes={"x": "1f" * 32},
                output_hash="2e" * 32,
                statistics={"count": 3.0, "wrong": 1.0, "max": 1.0, "ulp_max": 1024.5},
                histogram=(2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0),
                region=("..9",),
                script="import torch\nprint(run(x))",
                versions={"torch": "2.13.0"},
                tried=9,
            )
            for number in (0, 1)
            if failing
        ]
        failures += kept
        undecided = outcome in ("undecided", "cancelled")
        naive = NaiveOpinion(allclose=True, assert_close=outcome != "wrong")
        rungs.append(
            RungFuzz(
                rung=rung,
                verdict=FuzzVerdict.UNDECIDED if undecided else FuzzVerdict(outcome),
                cases=0 if undecided else share * len(strategies),
                failing=min(2, share) if failing else 0,
                by_strategy={}
                if undecided
                else {name: Tally(share, min(2, share) if name == failing else 0) for name in strategies},
                failures=tuple(failure.id for failure in kept),
                naive=naive if asked.naive and not undecided else None,
                max_error=None if undecided else 0.25,
                took_ms=12.0,
                reason="needs sm_90" if outcome == "undecided" else "",
            )
        )
    record = Fuzz(
        id=fuzz_id,
        target=asked.target,
        folder=b"/somewhere",
        title=f"About {asked.target}",
        device="cpu",
        seed=seed,
        cases=asked.cases,
        strategies=strategies,
        snapshot="ab" * 32,
        wall="2026-01-02T03:04:05+00:00",
        state="cancelled" if outcome == "cancelled" else "done",
        reason="cancelled by its owner" if outcome == "cancelled" else "",
        rungs=tuple(rungs),
        duration_ms=1500.0,
    )
    return record, failures


def fuzz_story(record: Fuzz, failures: list[Failure], *, what: str = "fuzz") -> Iterator[events.Event]:
    """The events of a fuzz between its reply and its end, the end left out: one case of each strategy is told."""
    rungs = [rung.rung for rung in record.rungs]
    yield events.FuzzPlanned(
        fuzz_id=record.id,
        what=what,
        target=record.target,
        title=record.title,
        folder="/somewhere",
        device=record.device,
        rungs=rungs,
        cases=record.cases,
        seed=record.seed,
        strategies=list(record.strategies),
        wall=record.wall,
    )
    for rung in record.rungs:
        for number, (name, tally) in enumerate(rung.by_strategy.items()):
            yield events.FuzzCase(
                fuzz_id=record.id,
                number=number * record.cases // len(record.strategies),
                rung=rung.rung,
                strategy=name,
                stage="gate",
                case="N=129 float16",
                verdict=CaseVerdict.WRONG if tally.failing else CaseVerdict.RIGHT,
                finding="values" if tally.failing else "",
            )
    for failure in failures:
        drawn = replace(failure, case=failure.drawn, tried=0)
        yield events.FuzzFailure(fuzz_id=record.id, failure=drawn)
        yield events.FuzzFailure(fuzz_id=record.id, failure=failure, shrunk=True)


class FakeEngine:
    """See the module. `outcomes` says per target how its runs end; others end well.

    Attributes:
        requests: every request but Hello, in the order in which they came.
        protocol: what the welcome says; another number than ours plays an engine of another version.
        refuse: when not empty, the error that every Reply carries.
        not_here: targets that cannot run here, with the reason.
        drop_after: close all connections after so many broadcast events.
        lose_end: leave out RunFinished and PeakFinished and send a Gap in their place.
        peak_from: number of the first ceiling that a client still hears of.
        peak_reason: why ceilings could not be measured to the end.
        fuzzes: how the fuzz of a target ends, see `fuzzed`, or "hang"; others end "right".
        refuse_fuzz: targets whose fuzz is refused, with the error.
        lint_items, lint_reason: what the task linter finds.
        replay: outcome, what differs, and detail of every replay.
        mute_failures: failing cases are stored, as a test does, and not told.
        stores_in: the store that the ends of runs are written into before they are told.
        slow_watch_s: how long a watch takes to be answered.
        pulse_s: how often it says that it is there.
        starting: what it says that it does before it can carry out requests.
        hold_peak: ceilings are measured and the end does not come, nor after a cancel with hold_cancel.
    """

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.requests: list[Any] = []
        self.watched: dict[str, str] = {}
        self.protocol = PROTOCOL
        self.build = build_id()
        self.refuse = ""
        self.not_here: dict[str, str] = {}
        self.detail = ""
        self.joins = False  # what is asked for is under way already, and is told as such
        self.drop_after: int | None = None
        self.pulse_s = 1.0
        self.starting = ""
        self.lose_end = False
        self.peak_reason = ""
        self.slow_watch_s = 0.0
        self.hold_peak = False
        self.hold_cancel = False
        self.peak_from = 1
        self.fuzzes: dict[str, str] = {}
        self.refuse_fuzz: dict[str, str] = {}
        self.lint_items: list[dict[str, Any]] = [
            {"name": "zeros", "status": "ok", "detail": "an answer of zeros fails in 12 of 12 cases"}
        ]
        self.lint_reason = ""
        self.replay: tuple[str, list[str], str] = ("reproduced", [], "")
        self.mute_failures = False
        self.stores_in: Path | None = None
        self._fuzzing: dict[str, requests.FuzzTarget] = {}  # those that have not ended
        self.stopping: asyncio.Event | None = None
        self.ready = threading.Event()
        self._history: list[events.Event] = []
        self._runs: dict[str, str] = {}  # run id -> target, those that have not ended
        self._viewers: set[asyncio.StreamWriter] = set()
        self._encoder = Encoder()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._handlers: dict[type, Callable[[Any], Awaitable[events.Event | None]]] = {
            requests.StartRuns: self._start_runs,
            requests.Cancel: self._cancel,
            requests.MoveUp: self._move_up,
            requests.StartWatch: self._start_watch,
            requests.StopWatch: self._stop_watch,
            requests.Restore: self._restore,
            requests.GetStatus: self._status,
            requests.Shutdown: self._shutdown,
            requests.AcceptInstalled: self._accept_installed,
            requests.MeasurePeak: self._measure_peak,
            requests.FuzzTarget: self._fuzz,
            requests.ReplayFailure: self._fuzz,
        }

    # -- life ------------------------------------------------------------------------------------------------

    def __enter__(self) -> FakeEngine:
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)
        self._thread.start()
        assert self.ready.wait(10), "the fake engine did not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None and self.stopping is not None and self._thread is not None
        with contextlib.suppress(RuntimeError):  # it was told to stop and has closed its loop meanwhile
            self._loop.call_soon_threadsafe(self.stopping.set)
        self._thread.join(10)

    async def serve(self) -> None:
        """Listen until `stopping` is set."""
        self._loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()
        socket = paths.socket_file()
        server = await asyncio.start_unix_server(self._connected, str(socket))
        paths.pointer_file().write_bytes(os.fsencode(socket))
        self.ready.set()
        try:
            await self.stopping.wait()
        finally:
            server.close()
            for viewer in list(self._viewers):
                viewer.close()
            for left in (socket, paths.pointer_file()):
                left.unlink(missing_ok=True)

    def publish(self, *happened: events.Event) -> None:
        """Broadcast events, from any thread."""
        assert self._loop is not None
        done = threading.Event()

        def send() -> None:
            for event in happened:
                self._broadcast(event)
            done.set()

        self._loop.call_soon_threadsafe(send)
        assert done.wait(10)

    def asked(self, kind: type) -> list[Any]:
        """The requests of one kind."""
        return [request for request in self.requests if isinstance(request, kind)]

    # -- connections -----------------------------------------------------------------------------------------

    async def _pulse(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(self.pulse_s)
            writer.write(self._encoder.frame(events.Pulse(starting=self.starting)))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder: Decoder[Any] = Decoder(requests.AnyRequest)
        pulse = asyncio.create_task(self._pulse(writer))
        try:
            while data := await reader.read(1 << 16):
                for request in decoder.feed(data):
                    await self._answer(request, writer)
        except ConnectionError:
            return
        finally:
            pulse.cancel()
            self._viewers.discard(writer)
            writer.close()

    async def _answer(self, request: Any, writer: asyncio.StreamWriter) -> None:
        if isinstance(request, requests.Hello):
            writer.write(
                self._encoder.frame(
                    events.Welcome(
                        protocol=self.protocol,
                        build=self.build,
                        pid=os.getpid(),
                        epoch="EPOCH",
                        next_seq=len(self._history) + 1,
                        compatible=self.protocol == request.protocol,
                        state_dir=str(paths.state_dir()),
                        starting=self.starting,
                    )
                )
            )
            if request.subscribe_from is not None:
                self._viewers.add(writer)
                for event in self._history[max(0, request.subscribe_from - 1) :]:
                    writer.write(self._encoder.frame(event))
            return
        self.requests.append(request)
        if self.refuse and not isinstance(request, requests.GetStatus):
            reply: events.Event | None = events.Reply(to=request.seq, error=self.refuse)
        else:
            reply = await self._handlers[type(request)](request)
        if reply is not None:
            writer.write(self._encoder.frame(reply))
        if isinstance(request, requests.MeasurePeak) and not self.refuse:
            self._play_peak()
        if isinstance(request, requests.FuzzTarget | requests.ReplayFailure) and reply is not None:
            self._play_fuzz(request, reply)
        if isinstance(request, requests.StartRuns) and not self.refuse:
            for run_id in reply.run_ids if isinstance(reply, events.Reply) else ():
                self._play(run_id, self._runs[run_id])

    def _broadcast(self, event: events.Event) -> None:
        if isinstance(event, events.RunFinished):
            event = heard.whole([*self._history, event])[-1]
            if self.stores_in is not None:
                with Store.open(self.stores_in) as store:
                    store.finish(event.run, {})
        event.seq = len(self._history) + 1
        self._history.append(event)
        frame = self._encoder.frame(event)
        for viewer in list(self._viewers):
            viewer.write(frame)
            if self.drop_after is not None and event.seq >= self.drop_after:
                viewer.close()

    # -- requests --------------------------------------------------------------------------------------------

    async def _start_runs(self, request: requests.StartRuns) -> events.Event:
        run_ids: list[str] = []
        for target in request.targets:
            if target in self.not_here:
                continue
            run_id = f"01RUN{len(self._history):05d}{len(run_ids)}"
            run_ids.append(run_id)
            self._runs[run_id] = target
            self._plan(
                run_id,
                target,
                quick=request.quick,
                trigger=request.trigger,
                validity=request.validity,
                without=list(request.without),
            )
        refused = {target: why for target, why in self.not_here.items() if target in request.targets}
        joined = run_ids if self.joins and not request.again else []
        return events.Reply(to=request.seq, run_ids=run_ids, refused=refused, joined=joined)

    def _plan(self, run_id: str, target: str, *, quick: bool, trigger: str, **manifest: Any) -> None:
        self._broadcast(
            heard.planned(
                run_id=run_id,
                target=target,
                title=f"About {target}",
                folder="/somewhere",
                device="cpu",
                case="cpu",
                quick=quick,
                trigger=trigger,
                rungs=["baseline", "optimized", "baseline (A/A)"],
                snapshot="ab" * 32,
                wall="2026-01-02T03:04:05Z",
                **manifest,
            )
        )

    def _play(self, run_id: str, target: str) -> None:
        for event in scripted(run_id, self.outcomes.get(target, "ok"), ["baseline", "optimized"]):
            if isinstance(event, events.RunFinished):
                self._runs.pop(run_id, None)
                if self.lose_end:
                    self._broadcast(events.Gap(first=len(self._history), last=len(self._history) + 1))
                    continue
            self._broadcast(event)

    async def _measure_peak(self, request: requests.MeasurePeak) -> events.Event:
        return events.Reply(to=request.seq, run_ids=["01PEAK"], joined=["01PEAK"] if self.joins else [])

    def _play_peak(self) -> None:
        gpu = "NVIDIA H100 80GB HBM3"
        for number, ceiling in enumerate(CEILINGS, 1):
            if number < self.peak_from:
                continue
            self._broadcast(heard.ceiling(peak_id="01PEAK", gpu=gpu, position=number, count=len(CEILINGS), **ceiling))
        if self.lose_end:
            self._broadcast(events.Gap(first=len(self._history), last=len(self._history) + 1))
        elif not self.hold_peak:
            self._broadcast(events.PeakFinished(peak_id="01PEAK", gpu=gpu, reason=self.peak_reason))

    async def _fuzz(self, request: requests.FuzzTarget | requests.ReplayFailure) -> events.Event:
        refused = self.refuse_fuzz.get(getattr(request, "target", ""), "")
        if refused:
            return events.Reply(to=request.seq, error=refused)
        fuzz_id = f"01FUZZ{len(self.requests):04d}"
        return events.Reply(to=request.seq, run_ids=[fuzz_id], joined=[fuzz_id] if self.joins else [])

    def _play_fuzz(self, request: requests.FuzzTarget | requests.ReplayFailure, reply: events.Event) -> None:
        assert isinstance(reply, events.Reply)
        if reply.error:
            return
        fuzz_id = reply.run_ids[0]
        if isinstance(request, requests.ReplayFailure):
            outcome, differs, detail = self.replay
            ended: events.Event = events.ReplayFinished(
                fuzz_id=fuzz_id, failure=request.failure, outcome=outcome, differs=differs, detail=detail
            )
        else:
            outcome = self.fuzzes.get(request.target, "right")
            record, failures = fuzzed(fuzz_id, request, "right" if outcome == "hang" else outcome)
            what = "lint" if request.lint else "fuzz"
            for event in fuzz_story(record, [] if self.mute_failures or request.lint else failures, what=what):
                self._broadcast(event)
            if outcome == "hang":
                self._fuzzing[fuzz_id] = request
                return
            ended = events.FuzzFinished(fuzz=record)
            if request.lint:
                ended = events.LintFinished(
                    fuzz_id=fuzz_id,
                    target=request.target,
                    device="cpu",
                    items=self.lint_items,
                    reason=self.lint_reason,
                )
        if self.lose_end:
            ended = events.Gap(first=len(self._history), last=len(self._history) + 1)
        self._broadcast(ended)

    async def _cancel(self, request: requests.Cancel) -> events.Event:
        asked = None if self.hold_cancel else self._fuzzing.pop(request.run_id, None)
        if asked is not None:
            record, _ = fuzzed(request.run_id, asked, "cancelled")
            self._broadcast(events.FuzzFinished(fuzz=record))
        if request.run_id == "01PEAK" and not self.hold_cancel:
            self._broadcast(events.PeakFinished(peak_id="01PEAK", gpu="", reason="cancelled; nothing was stored"))
        target = self._runs.pop(request.run_id, None)
        if target is not None:
            self._broadcast(
                heard.finished(
                    run_id=request.run_id,
                    target=target,
                    state="cancelled",
                    correctness="unknown",
                    validity="unknown",
                    verdict="none",
                    duration_ms=10.0,
                    reason="cancelled by its owner",
                )
            )
        return events.Reply(to=request.seq)

    async def _move_up(self, request: requests.MoveUp) -> events.Event:
        order = list(self._runs)
        at = order.index(request.run_id)
        if at < 2:
            return events.Reply(to=request.seq, error="it is the first of those that wait already")
        order[at - 1 : at + 1] = order[at], order[at - 1]
        self._runs = {run_id: self._runs[run_id] for run_id in order}
        return events.Reply(to=request.seq, detail=f"number {at - 1} of those that wait")

    async def _start_watch(self, request: requests.StartWatch) -> events.Event:
        self.watched[request.target] = request.root
        self._broadcast(events.WatchChanged(target=request.target, folder=request.root, active=True))
        await asyncio.sleep(self.slow_watch_s)
        return events.Reply(to=request.seq)

    async def _stop_watch(self, request: requests.StopWatch) -> events.Event:
        self.watched.pop(request.target, None)
        return events.Reply(to=request.seq)

    async def _restore(self, request: requests.Restore) -> events.Event:
        return events.Reply(to=request.seq, detail=self.detail)

    async def _status(self, request: requests.GetStatus) -> events.Event:
        return events.Status(
            to=request.seq,
            pid=os.getpid(),
            uptime_s=3725.0,
            rss_bytes=48 * 2**20,
            devices=[events.Device(index=-1, name="a CPU of 8 cores")],
            gpu_note="NVML 12: library not found",
            queue=[
                events.QueueItem(
                    run_id=run_id,
                    target=target,
                    title="",
                    state="planned" if place else "running",
                    quick=True,
                    trigger="cli",
                    device="cpu",
                    began_ns=None if place else time.monotonic_ns(),
                    expected_s=3600.0,
                    starts_ns=time.monotonic_ns() + place * 3600 * 10**9 if place else None,
                )
                for place, (run_id, target) in enumerate(self._runs.items())
            ],
            watches=[events.WatchItem(target=t, folder=f, edits=3) for t, f in self.watched.items()],
            warm_workers=1,
            clients=len(self._viewers),
            runs_done=7,
        )

    async def _accept_installed(self, request: requests.AcceptInstalled) -> events.Event:
        return events.Reply(to=request.seq, detail=self.detail)

    async def _shutdown(self, request: requests.Shutdown) -> events.Event:
        assert self._loop is not None and self.stopping is not None
        self._loop.call_later(0.05, self.stopping.set)
        return events.Reply(to=request.seq)

    def supersede(self, target: str, number: int, *, by: int) -> None:
        """An edit whose run a later save ends before it has begun."""
        run_id = f"01EDIT{number:05d}"
        self.publish(events.WatchEdit(target=target, number=number, snapshot="ab" * 32, files=[], run_id=run_id))
        reason, flags = f"superseded by edit {by}", (SUPERSEDED,)
        self.publish(
            heard.finished(run_id=run_id, target=target, state="cancelled", reason=reason, flags=flags, trigger="watch")
        )

    def edit(self, target: str, number: int, *, outcome: str = "ok", error: str = "", files: list[str]) -> None:
        """A settled save of a watched target, with the run that it starts unless it does not compile."""
        run_id = "" if error else f"01EDIT{number:05d}"
        self.publish(
            events.WatchEdit(
                target=target,
                number=number,
                snapshot=f"{number:02d}" * 32,
                files=files,
                run_id=run_id,
                error=error,
                wall="2026-01-02T03:04:05Z",
                save_ns=time.monotonic_ns(),
            )
        )
        if not run_id:
            return
        self.outcomes[target] = outcome
        assert self._loop is not None
        self._loop.call_soon_threadsafe(lambda: self._plan(run_id, target, quick=True, trigger="watch"))
        self._loop.call_soon_threadsafe(lambda: self._play(run_id, target))


# -- what a store remembers --------------------------------------------------------------------------------------------


def remember(
    state_dir: Path,
    target: str,
    *,
    run_id: str = "",
    speedup: float = 2.0,
    baseline_ms: float = 1.0,
    state: State = State.OK,
    validity: Validity = Validity.VALID,
    quick: bool = False,
    device: str = "cpu",
    case: str = "",
    sources: str | Mapping[str, str] = "",
    environment: dict[str, object] | None = None,
    sm_clock_mhz: float | None = None,
    flags: tuple[str, ...] = (),
    arms: dict[str, dict[str, Any]] | None = None,
    comparison: dict[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    folder: bytes = b"/somewhere",
) -> Run:
    """Put a run of `target` into the store as the engine would: planned, then finished with its samples.

    `sources` are files by name, or the optimized rung's text. `case` is what a lesson is usually timed on there, unless
    it is given; `arms`, by rung, and `comparison` hold more fields of the records.
    """
    state_dir.mkdir(mode=0o700, exist_ok=True)
    count = 20
    files = {"optimized.py": sources} if isinstance(sources, str) else sources
    with Store.open(state_dir / "aisp.db") as store:
        run = Run(
            id=run_id or new_ulid(),
            target=target,
            folder=folder,
            title=f"About {target}",
            device=device,
            case=case or ("cpu" if device == "cpu" else "default"),
            quick=quick,
            trigger=Trigger.CLI,
            seed=1,
            epoch="EPOCH",
            seq=1,
            wall="2026-01-02T03:04:05+00:00",
            snapshot=store.put_snapshot({name: text.encode() for name, text in files.items()}) if sources else "",
            environment=store.put_environment(environment) if environment else "",
            state=State.PLANNED,
            manifest=manifest or {},
        )
        store.plan([run])
        if state is not State.OK:
            wrong = Correctness.WRONG if state is State.INCORRECT else Correctness.UNKNOWN
            ended = replace(run, state=state, correctness=wrong, reason="as the test wants it", duration_ms=5.0)
            store.finish(ended, {})
            return ended
        times = {"baseline": baseline_ms, "optimized": baseline_ms / speedup}
        faster = speedup > 1 and validity is Validity.VALID
        ended = replace(
            run,
            state=State.OK,
            correctness=Correctness.CORRECT,
            validity=validity,
            duration_ms=1500.0,
            flags=flags,
            verdict=Verdict.FASTER if faster else Verdict.NONE,
            arms=tuple(
                Arm(
                    rung=rung,
                    state=State.OK,
                    correctness=Correctness.CORRECT,
                    median_ms=ms,
                    low_ms=0.99 * ms,
                    high_ms=1.01 * ms,
                    sample_count=count,
                    sol=0.82,
                    **{"timing": Timing.HOST, **(arms or {}).get(rung, {})},
                )
                for rung, ms in times.items()
            ),
            comparisons=(
                Comparison(
                    rung="optimized",
                    baseline="baseline",
                    verdict=Verdict.FASTER if faster else Verdict.NONE,
                    speedup=speedup,
                    low=speedup * 0.98,
                    high=speedup * 1.02,
                    floor=0.005,
                    **(comparison or {}),
                ),
            ),
        )
        samples = {
            rung: Samples(
                device_ms=np.full(count, ms),
                host_ms=np.full(count, ms),
                end_ns=np.arange(count),
                round=np.arange(count),
                replica=np.zeros(count, np.int64),
                inputs=np.zeros(count, np.int64),
                discarded=np.zeros(count, np.int64),
                sm_clock_mhz=np.full(count, np.nan),
            )
            for rung, ms in times.items()
        }
        telemetry = None
        if sm_clock_mhz is not None:
            same = np.full(3, sm_clock_mhz)
            telemetry = Telemetry(np.arange(3), same, same, same, same, np.zeros(3, np.int64))
        store.finish(ended, samples, telemetry)
        return ended


# -- as a process --------------------------------------------------------------------------------------------------


def spawn(*options: str) -> subprocess.Popen[str]:
    """Start the fake engine as a process that holds the lock; returns when it listens.

    Options: "deaf" never answers and ignores SIGTERM; "other" speaks another protocol version.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.tui.fake_engine", "serve", *options],
        cwd=MAIN,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


async def _serve(options: list[str]) -> None:
    lock = paths.lock_file().open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    if "deaf" in options:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        await asyncio.sleep(120)
        return
    engine = FakeEngine()
    if "other" in options:
        engine.protocol = PROTOCOL + 1
    serving = asyncio.create_task(engine.serve())
    await asyncio.to_thread(engine.ready.wait)
    print("ready", flush=True)
    await serving


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(sys.argv[2:]))
