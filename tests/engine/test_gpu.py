"""What only a GPU can show: cold samples with telemetry, through the real engine (faults: tests/proofs/evil/scenes)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aisp.engine.telemetry import Nvml
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from tests.engine.harness import EngineUnderTest, Result

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
COMPILED = """
import torch


def prepare(x):
    for width in range(2, 6):  # several kernels, so that a pool of compiling processes would be ready for some
        torch.compile(lambda v: torch.tanh(v) * width)(x)
    return torch.compile(lambda v: v + v)


def run(x):
    return x + x
"""
SLOW = "def run(x):\n    return (x + x) * 1.0\n"


def write(folder: Path, lesson: str) -> None:
    folder.mkdir(parents=True)
    files = {"lesson.md": lesson, "reference.py": HONEST, "baseline.py": SLOW, "optimized.py": HONEST}
    for name, text in files.items():
        (folder / name).write_text(text)


async def doubled(own: Callable[..., EngineUnderTest], folder: Path, lesson: str) -> tuple[EngineUnderTest, Result]:
    """An engine that has come to the end of a run of this lesson."""
    engine = own()
    await engine.start()
    write(folder / "mine" / "double", lesson)
    result = await engine.run(folder / "mine", "mine:double", replicas=2)
    assert result.record.state is State.OK, result.record.reason
    return engine, result


async def test_a_run_is_timed_cold_beside_the_clocks_that_ran(
    own: Callable[..., EngineUnderTest],
    tmp_path: Path,
) -> None:
    engine, result = await doubled(own, tmp_path, LESSON)
    record = result.record
    assert "clocks=unlocked" in record.flags
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


async def test_a_confined_process_compiles_with_torch(own: Callable[..., EngineUnderTest], tmp_path: Path) -> None:
    engine = own()
    await engine.start()
    write(tmp_path / "mine" / "double", LESSON)
    (tmp_path / "mine" / "double" / "optimized.py").write_text(COMPILED)
    for _ in range(2):  # the second has processes that stood by
        result = await engine.run(tmp_path / "mine", "mine:double")
        assert result.record.state is State.OK, [arm.detail for arm in result.record.arms]


async def test_peak_memory_is_what_the_rung_allocates_and_nothing_of_what_looks_at_it(
    own: Callable[..., EngineUnderTest],
    tmp_path: Path,
) -> None:
    """A narrow output: its fingerprint is taken of a copy in fp32, twice as large."""
    _, result = await doubled(own, tmp_path, LESSON.replace("float32", "bfloat16"))
    output_bytes = 2 * 16777216
    assert result.arm("optimized").peak_bytes == output_bytes
    assert result.arm("baseline").peak_bytes == 2 * output_bytes  # the sum, and the product of it


TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""
COMPILER = '#!/bin/sh\necho "$*" >> {log}\nexec cc "$@"\n'


async def test_no_process_of_a_triton_rung_builds_its_own_launcher(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    log = Path("/dev/shm") / f"compilers-{os.urandom(8).hex()}"  # a confined process may write there
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(log=log))
    compiler.chmod(stat.S_IRWXU)
    try:
        engine = own(CC=str(compiler))
        await engine.start()
        write(tmp_path / "mine" / "double", LESSON)
        (tmp_path / "mine" / "double" / "optimized.py").write_text(TRITON)
        result = await engine.run(tmp_path / "mine", "mine:double", replicas=2)
        assert result.record.state is State.OK, result.record.reason
        built = [line for line in log.read_text().splitlines() if "cuda_utils.c" in line]
        assert len(built) == 1, "by the nursery, for all"  # some versions build one for each kernel beside it
    finally:
        log.unlink(missing_ok=True)


async def test_a_run_counts_the_kernels_of_a_call(own: Callable[..., EngineUnderTest], tmp_path: Path) -> None:
    engine, quick = await doubled(own, tmp_path, LESSON)
    full = await engine.run(tmp_path / "mine", "mine:double", quick=False, replicas=1, patience_s=300)
    for run in (quick, full):
        assert run.arm("baseline").launches == 2  # the sum, and the product of it
        assert run.arm("optimized").launches == 1
