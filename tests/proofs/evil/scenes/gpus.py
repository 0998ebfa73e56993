"""Rows 6, 8, 21 to 25, 49 and 50: GPUs, their driver, and clocks; the faults of rows 1 to 12 that only a GPU can have.

Most are played without a GPU: the driver is tests/engine/fake_nvml.c, whose answers change while a run lasts, and what
runs "on the GPU" runs on the CPU (tests/engine/gpu_stand_in). Everything that the engine makes of it is real.
"""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from aisp.engine import client
from aisp.engine.protocol import events, requests
from aisp.engine.telemetry import Nvml
from aisp.store.outcomes import Correctness, State, Validity
from tests.engine import fake_nvml
from tests.engine.fake_nvml import FakeNvml
from tests.engine.harness import EngineUnderTest, Result, Stream
from tests.proofs.evil import corpus
from tests.proofs.evil.corpus import Row
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import NEXT_RUN_S, Stage, assert_timed, eventually, refusing_filters

CONTEXT_BYTES = 500 << 20
OURS = f"children {CONTEXT_BYTES}"  # the engine's own processes are on the GPU
LOST = tuple(
    f"error.{call} 15"
    for call in (
        *("DeviceGetClockInfo.sm", "DeviceGetClockInfo.memory", "DeviceGetTemperature", "DeviceGetPowerUsage"),
        *("DeviceGetMemoryInfo", "DeviceGetComputeRunningProcesses", "DeviceGetProcessUtilization"),
    )
)
FOREVER_S = 600
ASLEEP = Row(
    "asleep",
    corpus.on_call(
        corpus.VERIFIED,
        f"os.write(1, b'this is %d\\n' % os.getpid())\ntime.sleep({FOREVER_S})",
        imports="import os\nimport time",
    ),
    State.TIMEOUT_PROGRESS,
)
# A process that a tracer holds back where it would exit is as unkillable as one that waits for a driver.
HELD = """import ctypes
import os
import time

calls = 0
SEIZE, TRACE_EXIT = 0x4206, {options}


def run(x):
    global calls
    calls += 1
    if calls == 2:
        me, (reads, writes) = os.getpid(), os.pipe()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # where only ancestors may trace
        if os.fork() == 0:
            os.setsid()
            libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
            status = libc.ptrace(SEIZE, me, None, TRACE_EXIT)
            os.write(1, b"traced %d by %d: %d\\n" % (me, os.getpid(), status))
            os.write(writes, b"!")
            time.sleep(600)
        os.read(reads, 1)
        time.sleep(600)
    return x * 2
"""


async def on_a_gpu(stage: Stage, *answers: str, **settings: str) -> tuple[EngineUnderTest, FakeNvml]:
    """An engine that sees one GPU, whose driver answers so."""
    (stage.home / "driver").mkdir()
    driver = FakeNvml(stage.home / "driver")
    driver.answers(*answers)
    engine = stage.own(**{"AISP_GIVE_BACK_S": "5", **settings})
    engine.environment |= driver.settings() | settings
    await engine.start()
    return engine, driver


async def gpu_note(engine: EngineUnderTest) -> str:
    """What the engine says of its GPU; "" where it is in use."""
    with engine.use():
        async with await client.connect(start=False) as connection:
            return (await connection.status()).gpu_note


async def used_again(engine: EngineUnderTest) -> None:
    """Wait until the engine says nothing against its GPU any more."""
    deadline_s = time.monotonic() + 10
    while note := await gpu_note(engine):
        assert time.monotonic() < deadline_s, note


async def planned(stream: Stream, root: Path, name: str) -> str:
    """A run on the GPU is planned; its id."""
    (run_id,) = await stream.plan(root, f"{root.name}:{name}", device="cuda")
    return run_id


async def printed_number(stream: Stream, words: str) -> list[int]:
    """The numbers in the next printed line that begins so."""
    told = await stream.until(events.Output, lambda event: any(line.startswith(words) for line in event.lines))
    line = next(line for line in told.lines if line.startswith(words))
    return [int(word.strip(":")) for word in line.split() if word.strip(":").isdigit()]


async def refused(engine: EngineUnderTest, root: Path, name: str, *words: str) -> str:
    """A run on the GPU does not take place, for these reasons; its reason."""
    record = (await engine.run(root, f"{root.name}:{name}", device="cuda")).record
    assert (record.state, record.device) == (State.UNAVAILABLE, "cuda"), (record.state, record.reason)
    for word in words:
        assert word in record.reason, record.reason
    return record.reason


def flag(result: Result, name: str) -> str:
    """The value of a flag NAME=VALUE of a run."""
    (found,) = [text.partition("=")[2] for text in result.record.flags if text.startswith(f"{name}=")]
    return found


@fault(
    6,
    "a rung hangs on the GPU, and the driver still lists its process when it is gone",
    "timeout_progress, SIGKILL; the GPU is set aside when it was waited for in vain, and nothing is placed on it until "
    "the driver lists the process no more",
    own=True,
)
async def gpu_not_given_back(stage: Stage) -> str:
    engine, driver = await on_a_gpu(stage, OURS, AISP_PROGRESS_LIMIT_S="2")
    root = stage.target("hung", ASLEEP, lesson=corpus.GPU_LESSON)
    async with engine.stream() as stream:
        run_id = await planned(stream, root, "hung")
        (pid,) = await printed_number(stream, "this is")
        driver.answers(OURS, "processes 1", f"process.0 {pid}")
        result = await engine.result(stream, run_id)
    arm = result.arm(ASLEEP.rung)
    assert arm.state is State.TIMEOUT_PROGRESS
    assert arm.signal_sent_by_us and not psutil.pid_exists(pid)
    assert_timed(result, "optimized")
    note = await gpu_note(engine)
    assert note == f"the GPU still holds memory of process {pid}, which is gone"
    reason = await refused(engine, root, "hung", "the GPU is set aside", note)
    driver.answers(OURS, "processes 0")
    await used_again(engine)
    return reason


@fault(
    8,
    "a worker cannot be killed: it is held where it would exit (by a tracer, in place of a driver that never returns)",
    "infra_error (unkillable), the GPU is set aside until it is gone, the engine keeps serving",
    own=True,
)
async def unkillable(stage: Stage) -> str:
    row = Row("held", HELD.format(options="0x40"), State.INFRA_ERROR)
    engine, _ = await on_a_gpu(stage, OURS, AISP_PROGRESS_LIMIT_S="2", **refusing_filters(stage, fake_nvml.STAND_IN))
    root = stage.target("held", row, lesson=corpus.GPU_LESSON)
    async with engine.stream() as stream:
        run_id = await planned(stream, root, "held")
        pid, tracer, status = await printed_number(stream, "traced")
        try:
            assert status == 0, "the process could not be traced"
            result = await engine.result(stream, run_id)
            assert psutil.Process(pid).status() == psutil.STATUS_TRACING_STOP
            arm = result.arm(row.rung)
            assert (arm.state, arm.signal_sent_by_us) == (State.INFRA_ERROR, True)
            assert f"process {pid} cannot be killed" in arm.reason
            assert_timed(result, "optimized")
            assert await gpu_note(engine) == f"process {pid} cannot be killed"
            await refused(engine, root, "held", "the GPU is set aside", "cannot be killed")
            honest = (await engine.run(stage.target("honest"), "mine:honest")).record
            assert honest.state is State.OK, honest.reason
        finally:
            os.kill(tracer, signal.SIGKILL)
    took_s = await eventually(lambda: not psutil.pid_exists(pid), "the process that was let go is reaped")
    await used_again(engine)
    return f"{arm.reason}; runs on the CPU went on; let go, it was reaped after {took_s * 1e3:.0f} ms"


@fault(
    8,
    "a worker is killed, and a process that it left behind keeps it from being reaped",
    "timeout_progress; who holds it is found and killed, the engine never waits for either",
    own=True,
)
async def unreapable(stage: Stage) -> str:
    row = Row("kept", HELD.format(options="0"), State.TIMEOUT_PROGRESS)
    engine = await stage.started(AISP_PROGRESS_LIMIT_S="2", **refusing_filters(stage))
    root = stage.target("kept", row)
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:kept")
        pid, tracer, status = await printed_number(stream, "traced")
        assert status == 0, "the process could not be traced"
        result = await engine.result(stream, run_id)
    arm = result.arm(row.rung)
    assert arm.state is State.TIMEOUT_PROGRESS, arm.reason
    assert_timed(result, "optimized")
    await eventually(lambda: not psutil.pid_exists(pid) and not psutil.pid_exists(tracer), "both are gone")
    return arm.reason


@fault(
    21,
    "the wall clock is set back by an hour while a run lasts",
    "times and order are those of the monotonic clock; the run is flagged wall_jump",
    own=True,
)
async def wall_clock_set_back(stage: Stage) -> str:
    settings, ahead = fake_nvml.wall_clock(stage.home)
    engine = await stage.started(**settings)
    root = stage.target("honest")
    first = await engine.run(root, "mine:honest")
    started = time.monotonic()
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:honest")
        await stream.until(events.Step, lambda step: step.step.name == "measure")
        ahead.write_text("-3600")
        second = await engine.result(stream, run_id)
    took_s = time.monotonic() - started
    third = await engine.run(root, "mine:honest")
    for result in (first, second, third):
        assert result.record.state is State.OK, result.record.reason
        duration_ms = result.record.duration_ms
        assert duration_ms is not None and 0 < duration_ms < 120e3
        assert all(0 <= step.duration_ms <= duration_ms for step in result.record.steps)
    assert second.record.duration_ms is not None and second.record.duration_ms <= took_s * 1e3
    assert flag(second, "wall_jump") == "-3600.0s"
    assert not any("wall_jump" in text for result in (first, third) for text in result.record.flags)
    assert third.record.wall < first.record.wall
    assert first.record.id < second.record.id < third.record.id
    assert (first.record.epoch, first.record.seq) < (second.record.epoch, second.record.seq)
    with engine.history() as history:
        newest = [record.id for record in history.newest(3)]
    assert newest == [third.record.id, second.record.id, first.record.id]
    return f"flagged wall_jump={flag(second, 'wall_jump')}, {second.record.duration_ms:.0f} ms long, in its place"


@fault(
    22,
    "the GPU falls off the bus while a run is on it",
    "a gap in the readings and no zeros; the workers are killed at once, infra_error in the driver's words; the GPU is "
    "set aside as lost, runs on the CPU go on",
    own=True,
)
async def gpu_lost(stage: Stage) -> str:
    engine, driver = await on_a_gpu(stage, OURS, AISP_PROGRESS_LIMIT_S="60")
    root = stage.target("lost", ASLEEP, lesson=corpus.GPU_LESSON)
    async with engine.stream() as stream:
        run_id = await planned(stream, root, "lost")
        (pid,) = await printed_number(stream, "this is")
        await stream.until(events.TelemetryBatch)
        driver.answers(OURS, *LOST)
        lost_ns, lost = time.monotonic_ns(), time.monotonic()
        result = await engine.result(stream, run_id)
        took_s = time.monotonic() - lost
    record = result.record
    assert record.state is State.INFRA_ERROR
    assert record.reason.startswith("GPU 0 is lost (NVML 15: GPU is lost)"), record.reason
    assert result.arm(ASLEEP.rung).state is State.INFRA_ERROR
    assert not psutil.pid_exists(pid)
    assert took_s < 10, f"the run ended {took_s:.1f} s after the GPU was lost"
    with engine.history() as history:
        telemetry = history.telemetry(run_id)
    assert telemetry is not None and len(telemetry.at_ns) > 0
    assert (telemetry.at_ns < lost_ns + 100e6).all()
    assert (telemetry.sm_clock_mhz > 0).all() and (telemetry.power_w > 0).all()
    assert await gpu_note(engine) == "GPU 0 is lost (NVML 15: GPU is lost)"
    await refused(engine, root, "lost", "the GPU is set aside", "NVML 15")
    return f"{record.reason.partition(';')[0]}; ended {took_s:.1f} s later, {len(telemetry.at_ns)} readings, no zeros"


@fault(
    22,
    "one of two GPUs falls off the bus while a run is on each",
    "its run ends as infra_error in the driver's words and its slot is gone; the run on the other GPU is whole and not "
    "flagged, and what waits is carried out there",
    own=True,
)
async def one_gpu_of_two_lost(stage: Stage) -> str:
    engine, driver = await on_a_gpu(stage, "count 2", OURS, AISP_PROGRESS_LIMIT_S="60", AISP_SLOT_CORES="0.5")
    go_on = stage.home / "go_on"
    waits = corpus.on_call(
        corpus.VERIFIED,
        f"print('it waits', flush=True)\nwhile not os.path.exists({str(go_on)!r}):\n    time.sleep(0.01)",
        imports="import os\nimport time",
    )
    root = stage.target("lost", ASLEEP, lesson=corpus.GPU_LESSON)
    stage.target("other", Row("waits", waits, State.OK), lesson=corpus.GPU_LESSON)
    stage.target("next", lesson=corpus.GPU_LESSON)
    async with engine.stream() as stream:
        lost_id, other_id = [await planned(stream, root, name) for name in ("lost", "other")]
        await stream.until(events.Output, lambda event: "it waits" in event.lines)
        if not any(isinstance(e, events.Output) and e.run_id == lost_id for e in stream.seen):
            await printed_number(stream, "this is")
        next_id = await planned(stream, root, "next")
        assert [item.device for item in (await stream.connection.status()).queue] == ["cuda:0", "cuda:1", "cuda"]
        driver.answers("count 2", OURS, *(line.replace(" ", ".0 ") for line in LOST))
        lost = await engine.result(stream, lost_id)
        assert lost.record.reason.startswith("GPU 0 is lost (NVML 15: GPU is lost)"), lost.record.reason
        go_on.touch()
        other, following = [await engine.result(stream, run_id) for run_id in (other_id, next_id)]
        notes = [device.note for device in (await stream.connection.status()).devices]
    assert lost.record.state is State.INFRA_ERROR
    assert notes == ["GPU 0 is lost (NVML 15: GPU is lost)", "", ""]
    assert await gpu_note(engine) == "", "there is one to run on"
    for result in (other, following):
        assert result.record.state is State.OK, result.record.reason
        assert_timed(result, "optimized")
        assert not any(text.startswith("contended") for text in result.record.flags)
        with engine.history() as history:
            ran_on = history.environment(result.record.environment)["gpu_uuid"]
        assert ran_on == f"{driver.uuid}-1"
    assert (await engine.run(root, f"{root.name}:next")).record.state is State.OK, "the CPU's slot is another one"
    assert engine.terminate() == 0
    return f"{lost.record.reason.partition(';')[0]}; the run on the other is whole, the next one was carried out there"


@fault(
    23,
    "the driver is not loaded (NVML 9), not found (12), or of another version than its library (18)",
    "CPU only, with the driver's exact words; runs on the CPU go on",
    own=True,
)
async def no_driver(stage: Stage) -> str:
    told = []
    for code, words in (
        (9, "NVML 9: Driver Not Loaded"),
        (12, "no NVIDIA driver was found here"),
        (18, "NVML 18: RM has detected an NVML/RM version mismatch."),
    ):
        (stage.home / f"{code}").mkdir()
        driver = FakeNvml(stage.home / f"{code}")
        driver.answers(f"error.Init {code}")
        engine = stage.own()
        engine.environment |= driver.settings()
        await engine.start()
        assert await gpu_note(engine) == words
        root = stage.target(f"t{code}", root=f"r{code}")
        async with engine.stream() as stream:
            request = requests.StartRuns(
                seq=stream.connection.next_seq(),
                roots=[str(root)],
                targets=[f"{root.name}:t{code}"],
                device="cuda",
                quick=True,
            )
            reply = await stream.connection.request(request)
        assert f"needs a GPU: {words}" in reply.error, reply
        told.append(reply.error)
        if code != 18:  # the last one has to carry out a run on the CPU
            engine.close()
    return "; ".join(told)


@fault(
    24,
    "the user may not lock the GPU's clocks (NVML 4)",
    "nothing is even tried: the run goes on and every number carries clocks=unlocked",
    own=True,
)
async def clocks_not_locked(stage: Stage) -> str:
    engine, driver = await on_a_gpu(stage, OURS, "error.DeviceSetGpuLockedClocks 4")
    result = await engine.run(stage.target("honest", lesson=corpus.GPU_LESSON), "mine:honest", device="cuda")
    assert (result.record.state, result.record.device) == (State.OK, "cuda"), result.record.reason
    assert_timed(result, "optimized")
    assert flag(result, "clocks") == "unlocked"
    assert "clocks=unlocked" in result.finished.flags, "clients are told of it"
    assert not driver.control.with_name("control.set").exists(), "somebody has set a clock"
    return f"flags {', '.join(result.record.flags)}; no clock was set"


@fault(
    25,
    "another process comes to the GPU",
    "the run is flagged contended with its number; with AISP_REFUSE_CONTENDED the next one does not take place",
    own=True,
)
async def contended(stage: Stage) -> str:
    engine, driver = await on_a_gpu(stage, OURS, AISP_REFUSE_CONTENDED="1")
    root = stage.target("honest", lesson=corpus.GPU_LESSON)
    async with engine.stream() as stream:
        run_id = await planned(stream, root, "honest")
        await stream.until(events.Step, lambda step: step.step.name == "measure")
        driver.answers(OURS, "processes 1", f"process.0 {os.getpid()}")
        result = await engine.result(stream, run_id)
    assert result.record.state is State.OK, result.record.reason
    assert flag(result, "contended") == str(os.getpid())
    reason = await refused(engine, root, "honest", f"process {os.getpid()} uses the GPU", "AISP_REFUSE_CONTENDED")
    driver.answers(OURS)
    again = await engine.run(root, "mine:honest", device="cuda")
    assert again.record.state is State.OK, again.record.reason
    assert not any(text.startswith("contended") for text in again.record.flags)
    assert await gpu_note(engine) == "", "a neighbour is no reason to set a GPU aside"
    return reason.replace(str(os.getpid()), "PID")


@fault(
    49,
    "memory of a process that is gone stays on the GPU",
    "the next run waits for it; it goes on where the memory comes back, else the GPU is set aside until it does",
    own=True,
)
async def leaked_memory(stage: Stage) -> str:
    engine, driver = await on_a_gpu(stage, OURS, "memory.nobodys 700000000")
    root = stage.target("honest", lesson=corpus.GPU_LESSON)
    assert (await engine.run(root, "mine:honest", device="cuda")).record.state is State.OK
    driver.answers(OURS, "memory.nobodys 760000000")  # under 64 MiB more
    assert (await engine.run(root, "mine:honest", device="cuda")).record.state is State.OK
    driver.answers(OURS, "memory.nobodys 1700000000")
    async with engine.stream() as stream:
        run_id = await planned(stream, root, "honest")
        await stream.until(events.RunState, lambda event: event.state == State.STARTING.value)
        driver.answers(OURS, "memory.nobodys 700000000")
        record = (await engine.result(stream, run_id)).record
    assert record.state is State.OK, record.reason
    assert await gpu_note(engine) == ""
    driver.answers(OURS, "memory.nobodys 1700000000")
    reason = await refused(engine, root, "honest", "the GPU is set aside", "953 MiB of the GPU's memory were left")
    assert await gpu_note(engine) != ""
    driver.answers(OURS, "memory.nobodys 700000000")
    await used_again(engine)
    assert (await engine.run(root, "mine:honest", device="cuda")).record.state is State.OK
    return reason


@fault(
    50,
    "the GPU throttles for heat and counts memory errors while a run is on it",
    "the run ends well, flagged unstable with the reasons; it is suspect and has no verdict",
    own=True,
)
async def unstable(stage: Stage) -> str:
    engine, driver = await on_a_gpu(stage, OURS, "throttle 0x60")
    async with engine.stream() as stream:
        run_id = await planned(stream, stage.target("warm", lesson=corpus.DEVICE_LESSON), "warm")
        await stream.until(events.Step, lambda step: step.step.name == "measure")
        driver.answers(OURS, "throttle 0xe0", "ecc.errors 2", "rows.uncorrected 1")
        result = await engine.result(stream, run_id)
    assert result.record.state is State.OK, result.record.reason
    assert {"hot", "hot_hardware", "ecc_errors", "remapped_rows"} <= set(flag(result, "unstable").split(","))
    assert result.record.validity is Validity.SUSPECT
    assert "environment.thermal" in {f.check for f in result.record.findings if f.status.value == "suspect"}
    return f"flagged unstable={flag(result, 'unstable')}, validity {result.record.validity.value}"


# -- with a GPU --------------------------------------------------------------------------------------------------------


def on_device(result: Result, name: str) -> str:
    """An arm of the batch "device" ended as its row says; its reason."""
    row = next(row for row in corpus.DEVICE if row.name == name)
    arm = result.arm(row.rung)
    assert arm.state is row.state, f"{arm.state} {arm.reason}\n{arm.detail}"
    for words in row.says:
        assert words in arm.reason, arm.reason
    assert arm.correctness is row.correctness
    assert arm.dirty_exit is row.dirty_exit
    if row.state is not State.OK:
        assert (arm.median_ms, arm.sample_count) == (None, 0)
    for rung in ("baseline", "optimized"):
        honest = result.arm(rung)
        assert (honest.state, honest.correctness) == (State.OK, Correctness.CORRECT), honest.reason
        assert honest.timing.held and honest.median_ms is not None and math.isfinite(honest.median_ms)
    return arm.reason or f"{row.rung} ended well, flagged dirty_exit"


@fault(1, "SIGSEGV in a process with a CUDA context", "crashed(SIGSEGV)", gpu=True, batch="device")
async def segfault_on_device(stage: Stage) -> str:
    return on_device(await stage.batch("device"), "segfault")


@fault(4, "a rung asks for more memory than the GPU has", "user_error, the process discarded", gpu=True, batch="device")
async def too_large_for_the_device(stage: Stage) -> str:
    return on_device(await stage.batch("device"), "too_large")


@fault(5, "a kernel stores out of bounds", "cuda_poisoned, the process is never reused", gpu=True, batch="device")
async def out_of_bounds(stage: Stage) -> str:
    return on_device(await stage.batch("device"), "out_of_bounds")


@fault(5, "an assertion fails on the device", "cuda_poisoned, the process is never reused", gpu=True, batch="device")
async def device_assert(stage: Stage) -> str:
    return on_device(await stage.batch("device"), "device_assert")


@fault(
    6,
    "a kernel spins for ever, one of torch's and one of Triton's",
    "timeout_progress, killed; the GPU is given back and not set aside",
    gpu=True,
    batch="device",
)
async def kernel_without_end(stage: Stage) -> str:
    result = await stage.batch("device")
    seen = [on_device(result, name) for name in ("spin", "loop")]
    assert await gpu_note(stage.engine) == "", "the GPU was set aside"
    return "; ".join(seen)


@fault(
    11,
    "a process hangs when it leaves, in its CUDA context",
    "result kept, dirty_exit, killed",
    gpu=True,
    batch="device",
)
async def hangs_in_its_context(stage: Stage) -> str:
    return on_device(await stage.batch("device"), "teardown")


HOLDER = """import os
import subprocess
import sys

CHILD = '''import os, torch
kept = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").zero_()
torch.cuda.synchronize()
os.write(1, b"left behind: %d\\\\n" % os.getpid())
os.write({pipe}, b"!")
import time
time.sleep(600)
'''
calls = 0


def run(x):
    global calls
    calls += 1
    if calls == 1:  # when it compiles: importing torch takes its time
        reads, writes = os.pipe()
        subprocess.Popen(
            [sys.executable, "-c", CHILD.format(pipe=writes)], pass_fds=(writes,), start_new_session=True
        )
        os.read(reads, 1)
    return x * 2
"""


def _gives_its_memory_back(nvml: Nvml, before: int) -> bool:
    used = nvml.used_bytes(0)
    return used is not None and used <= before + (64 << 20)


async def _holder(stage: Stage) -> tuple[int, float]:
    """Run a rung whose child, in a session of its own, holds 1 GiB of the GPU; its pid, and how long that stayed.

    The engine confines nothing: a confined process's child cannot open the GPU at all.
    """
    nvml, engine = Nvml(), await stage.started(AISP_LANDLOCK="0")
    await engine.steady()
    before = nvml.used_bytes(0)
    assert before is not None, "the driver does not tell how much memory is in use"
    root = stage.home / "mine"
    row = Row("holder", HOLDER, State.OK)
    corpus.write(root / "holder", (row,), lesson=corpus.DEVICE_LESSON)
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(root, "mine:holder")
        (pid,) = await printed_number(stream, "left behind:")
        result = await engine.result(stream, run_id)
    assert result.arm(row.rung).state is State.OK, result.arm(row.rung).reason
    await engine.steady()
    took_s = await eventually(lambda: _gives_its_memory_back(nvml, before), "the GPU's memory is back")
    assert not psutil.pid_exists(pid)
    assert pid not in (nvml.processes(0) or set())
    assert await gpu_note(engine) == "", "the GPU was set aside"
    return pid, took_s


@fault(
    12,
    "a rung's child in a session of its own holds a CUDA context",
    "it is swept, its memory is back, the GPU is not set aside",
    gpu=True,
    own=True,
)
async def child_with_a_context(stage: Stage) -> str:
    _, took_s = await _holder(stage)
    return f"the child was swept; its 1 GiB was back {took_s:.2f} s after the standbys were warm again"


@fault(
    49,
    "a rung leaves with 2 GiB allocated, killed while it holds them",
    "the memory is back within 64 MiB before the next run, which starts on the GPU at once",
    gpu=True,
)
async def killed_with_memory(stage: Stage) -> str:
    nvml, engine = Nvml(), stage.engine
    await engine.steady()
    before = nvml.used_bytes(0)
    assert before is not None, "the driver does not tell how much memory is in use"
    body = "kept.append(torch.empty(1 << 31, dtype=torch.uint8, device='cuda').zero_())\ntorch.cuda.synchronize()\n"
    row = Row(
        "heavy",
        corpus.on_call(corpus.VERIFIED, f"{body}os.kill(os.getpid(), 9)", imports="import os\nimport torch\nkept = []"),
        State.CRASHED,
    )
    root = stage.home / "mine"
    corpus.write(root / "heavy", (row,), lesson=corpus.DEVICE_LESSON)
    result = await engine.run(root, "mine:heavy")
    arm = result.arm(row.rung)
    assert (arm.state, arm.signal) == (State.CRASHED, signal.SIGKILL), arm.reason
    corpus.write(root / "next", lesson=corpus.DEVICE_LESSON)
    await engine.steady()
    async with engine.stream() as stream:
        asked = time.monotonic()
        (run_id,) = await stream.plan(root, "mine:next")
        await stream.until(events.RunState, lambda event: event.state == State.RUNNING.value)
        took_s = time.monotonic() - asked
        following = await engine.result(stream, run_id)
    assert following.record.state is State.OK, following.record.reason
    assert took_s < NEXT_RUN_S, f"the next run was under way after {took_s:.2f} s"
    await engine.steady()
    await eventually(lambda: _gives_its_memory_back(nvml, before), "the GPU's memory is back")
    assert await gpu_note(engine) == "", "the GPU was set aside"
    return f"{arm.reason}; the next run was under way after {took_s:.2f} s"
