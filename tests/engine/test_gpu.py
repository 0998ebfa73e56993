"""What only a GPU can show: cold samples with telemetry, and faults of the device itself, through the real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine import client
from engine.telemetry import Nvml
from store.outcomes import Correctness, State, Validity, Verdict
from tests.engine.harness import EngineUnderTest

NVML = Nvml()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not NVML.count, reason=f"no GPU here: {NVML.note}"),
    pytest.mark.xdist_group("gpu"),
    pytest.mark.timeout(300),
]

LESSON = """\
+++
title = "Doubling on the device"
techniques = ["none"]
goal = "speed"
needs = { gpus = 1 }
axes = { N = 16777216 }
flops = "N"
[inputs]
x = "float32 [N] normal"
[outputs]
y = "float32 [N]"
+++

# Doubling

y is twice x.
"""
HONEST = "def run(x):\n    return x + x\n"
SLOW = "def run(x):\n    return (x + x) * 1.0\n"


def on_second_call(body: str, imports: str = "import torch") -> str:
    """Honest when it compiles, evil when it is verified."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    counted = "calls = 0\n\n\ndef run(x):\n    global calls\n    calls += 1\n    if calls == 2:\n"
    return f"{imports}\n\n{counted}{lines}\n    return x + x\n"


OUT_OF_BOUNDS = """import triton
import triton.language as tl


@triton.jit
def stray(x_ptr, far):
    tl.store(x_ptr + far, 1.0)


def run(x):
    stray[(1,)](x, 1 << 40)
    return x + x
"""
EVIL = {
    "out_of_bounds": (OUT_OF_BOUNDS, State.CUDA_POISONED, "the CUDA context is lost"),
    "device_assert": (
        on_second_call("torch._assert_async(torch.zeros((), dtype=torch.bool, device='cuda'))"),
        State.CUDA_POISONED,
        "the CUDA context is lost",
    ),
    "hang": (on_second_call("torch.cuda._sleep(1 << 62)"), State.TIMEOUT_PROGRESS, "no sign of progress"),
    "too_large": (on_second_call("torch.empty(1 << 44, device='cuda')"), State.USER_ERROR, "ran out of memory"),
    "segfault": (on_second_call("ctypes.string_at(0)", "import ctypes"), State.CRASHED, "died of SIGSEGV"),
}


def write(folder: Path, rungs: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    files = {"lesson.md": LESSON, "reference.py": HONEST, "baseline.py": SLOW, "optimized.py": HONEST}
    for name, text in (files | {f"optimized_{name}.py": source for name, source in rungs.items()}).items():
        (folder / name).write_text(text)
    return folder


async def test_a_run_is_timed_cold_beside_the_clocks_that_ran(
    own: Callable[..., EngineUnderTest],
    tmp_path: Path,
) -> None:
    engine = own()
    await engine.start()
    write(tmp_path / "mine" / "double", {})
    result = await engine.run(tmp_path / "mine", "mine:double")
    record = result.record
    assert record.state is State.OK, record.reason
    assert record.device == "cuda"
    assert record.validity is Validity.VALID
    for rung in ("baseline", "optimized"):
        arm = result.arm(rung)
        assert arm.correctness is Correctness.CORRECT
        assert arm.timing.startswith("cold") and arm.timing.held
        # 134 MB must cross the bus of any GPU; less time than at 10 TB/s would be a cache or a lie.
        assert arm.median_ms is not None and arm.median_ms > 2 * 4 * 16777216 / 10e12 * 1e3
    (comparison,) = record.comparisons
    assert comparison.verdict is Verdict.FASTER  # one pass over memory instead of two
    with engine.history() as history:
        telemetry = history.telemetry(record.id)
        samples = history.samples(record.id)
    assert telemetry is not None and len(telemetry.at_ns) > 5
    assert (telemetry.sm_clock_mhz > 100).all()
    assert (telemetry.power_w > 10).all()
    # One axis: the samples lie within the time in which the clocks were read.
    ends = np.concatenate([part.end_ns for part in samples.values()])
    assert telemetry.at_ns[0] < ends.min() and ends.max() < telemetry.at_ns[-1] + 2_000_000_000


async def test_faults_of_the_device_are_named_and_the_next_run_is_fresh(
    own: Callable[..., EngineUnderTest],
    tmp_path: Path,
) -> None:
    engine = own(AISP_PROGRESS_LIMIT_S="15")
    await engine.start()
    write(tmp_path / "evil" / "double", {name: source for name, (source, _, _) in EVIL.items()})
    result = await engine.run(tmp_path / "evil", "evil:double")
    for name, (_, state, words) in EVIL.items():
        arm = result.arm(f"optimized_{name}")
        assert arm.state is state, f"{name}: {arm.state} {arm.reason}\n{arm.detail}"
        assert words in arm.reason
        assert arm.median_ms is None
        assert arm.sample_count == 0
    for rung in ("baseline", "optimized"):
        arm = result.arm(rung)
        assert arm.state is State.OK, arm.reason
        assert arm.timing.startswith("cold") and arm.timing.held
    write(tmp_path / "mine" / "double", {})
    again = await engine.run(tmp_path / "mine", "mine:double")
    assert again.record.state is State.OK, again.record.reason
    with engine.use():
        async with await client.connect(start=False) as connection:
            assert (await connection.status()).gpu_note == "", "the GPU was set aside"
    await engine.steady()
    ours = {process.pid for process in engine.workers()}
    engine.close()
    assert not ours & (NVML.processes(0) or set()), "a process that is gone still holds the GPU"
