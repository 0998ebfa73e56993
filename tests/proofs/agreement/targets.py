"""Targets made for measuring the measurement: identical rungs, and rungs that do a known part more than the baseline.

Each is a folder as a user would write it. The work stands once, in work.py; a rung is one line that imports it, so two
rungs of the same work differ in nothing but their file's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target

CHAPTER = "measured"
SLOWER = {"optimized": 1.01, "optimized_2_percent": 1.02, "optimized_5_percent": 1.05, "optimized_10_percent": 1.10}
"""How much work each rung of a slowed target does, of the baseline's; a target must have an `optimized`."""

_LESSON = """\
+++
title = "{title}"
techniques = ["measurement"]
goal = "speed"
needs = {{ sm = 70 }}
axes = {{ {axes} }}
flops = "{flops}"
bytes = "{bytes}"
tolerance = {{ {tolerance} }}
[inputs]
{inputs}
[outputs]
{outputs}
{cpu}{fuzz}+++

# {title}
"""
_AT_LEAST = "[fuzz]\naxes = {{ N = {{ least = {least} }} }}\n"  # what a kernel reads, whatever it is given
_CPU = """\
[[cases]]
name = "cpu"
axes = {{ {axes} }}
"""
_TWICE = "def run(x):\n    return x.double()[:COUNT] * 2\n"

_CUDA_HEAD = """\
from pathlib import Path

import numpy as np
import torch
from aisp.kernels.cuda import launch, load

SOURCE = Path(__file__).with_name("work.cu")
COUNT = 4096


def empty(x):
    return torch.empty(COUNT, dtype=torch.float32, device=x.device)
"""

_WAIT = (
    _CUDA_HEAD
    + """
KERNEL = load(SOURCE, "wait_ns")


def work(x, factor=1.0):
    y = empty(x)
    launch(KERNEL, 4, 256, y, x, np.int32(COUNT), np.uint64(round({ns} * factor)))
    return y
"""
)
_FMA = (
    _CUDA_HEAD
    + """
KERNEL = load(SOURCE, "fma_chain")


def work(x, factor=1.0):
    y = empty(x)
    blocks = torch.cuda.get_device_properties(x.device).multi_processor_count
    launch(KERNEL, blocks, 128, y, x, np.int32(COUNT), np.int32(round({steps} * factor)), np.float32(0))
    return y
"""
)
_READ = (
    _CUDA_HEAD
    + """
KERNEL = load(SOURCE, "read_quads")


def work(x, factor=1.0):
    y = empty(x)
    blocks = 8 * torch.cuda.get_device_properties(x.device).multi_processor_count
    quads = np.int32(round({quads} * factor))
    launch(KERNEL, blocks, 256, y, x, np.int32(COUNT), quads, np.int32({passes}), np.float32(0))
    return y
"""
)
_TRITON_CHAIN = """\
import torch
import triton
import triton.language as tl

COUNT = 4096


@triton.jit
def chain(x_pointer, y_pointer, steps, zero, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(x_pointer + at)
    total = own
    for _ in range(steps):
        total = total * 0.999 + 0.001
        total = total * 0.999 + 0.001
        total = total * 0.999 + 0.001
        total = total * 0.999 + 0.001
    tl.store(y_pointer + at, own * 2 + total * zero)


def work(x, factor=1.0):
    y = torch.empty(COUNT, dtype=torch.float32, device=x.device)
    chain[(COUNT // 128,)](x, y, round({steps} * factor), 0.0, BLOCK=128, num_warps=4)
    return y
"""
_SCALE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_pointer, y_pointer, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + at, mask=at < N)
    tl.store(y_pointer + at, x * 2 + 1, mask=at < N)


def work(x):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""
_SOFTMAX = """\
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x_pointer, y_pointer, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    x = tl.load(x_pointer + row + at, mask=at < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_pointer + row + at, e / tl.sum(e, axis=0), mask=at < N)


def work(x):
    y = torch.empty_like(x)
    softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
    return y
"""
_TINY = """\
def work(x):
    for _ in range(10):
        x = x + 1
    return x
"""
_VECTOR = 'x = "float32 [N] normal"'
_COUNTED = 'y = "float32 [4096]"'
_MATRICES = 'a = "{dtype} [N, N] normal"\nb = "{dtype} [N, N] normal"'


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel to be measured.

    Attributes:
        name: of its target.
        bound: what limits it: launch, bytes or flops.
        language: torch, Triton or CUDA.
        about: how long it takes on an H100, in words.
        source: work.py, defining work(*inputs), or work(x, factor) that does `factor` times the work.
        axes, cpu: sizes; cpu is "" where it needs a GPU.
        bytes: the least it moves, by default that of 4096 floats in and out.
        least: elements of x that it reads, whatever it is given; 0 where it goes by the size of x.
    """

    name: str
    bound: str
    language: str
    about: str
    source: str
    reference: str
    axes: str
    cpu: str = ""
    inputs: str = _VECTOR
    outputs: str = 'y = "float32 [N]"'
    tolerance: str = "float32 = 1e-5"
    flops: str = "0"
    bytes: str = "32768"
    least: int = 0


def _counted(name: str, bound: str, language: str, about: str, source: str, size: int = 4096, cpu: str = "") -> Work:
    reference = _TWICE.replace("COUNT", "4096")
    return Work(name, bound, language, about, source, reference, f"N = {size}", cpu, outputs=_COUNTED, least=size)


def _matmul(name: str, dtype: str, size: int, about: str, tolerance: float) -> Work:
    return Work(
        name, "flops", "torch", about, "def work(a, b):\n    return a @ b\n",
        "def run(a, b):\n    return a.double() @ b.double()\n", f"N = {size}", "N = 64",
        inputs=_MATRICES.format(dtype=dtype), outputs=f'y = "{dtype} [N, N]"',
        tolerance=f"{dtype} = {tolerance}", flops="2*N*N*N", bytes=f"{6 if dtype == 'bfloat16' else 12}*N*N",
    )  # fmt: skip


_MEBI = 1 << 20

# Outputs are small wherever the time allows it: every output of every arm is verified, and that is waited for.
SAME: tuple[Work, ...] = (
    Work(
        "ten_adds", "launch", "torch", "10 kernels, 15 us", _TINY,
        "def run(x):\n    return x.double() + 10\n", "N = 4096", "N = 64",
    ),
    _counted("wait_7us", "time", "CUDA", "8 us", _WAIT.replace("{ns}", "7000")),
    Work(
        "scale_4mb", "bytes", "Triton", "5 us", _SCALE,
        "def run(x):\n    return x.double() * 2 + 1\n", f"N = {_MEBI}", "N = 1000", bytes="8*N",
    ),
    Work(
        "gelu_32mb", "bytes", "torch", "30 us",
        "import torch.nn.functional as F\n\n\ndef work(x):\n    return F.gelu(x)\n",
        "import torch.nn.functional as F\n\n\ndef run(x):\n    return F.gelu(x.double())\n",
        f"N = {8 * _MEBI}", "N = 4096", bytes="8*N",
    ),
    Work(
        "softmax_32mb", "bytes", "Triton", "30 us", _SOFTMAX,
        "import torch\n\n\ndef run(x):\n    return torch.softmax(x.double(), -1)\n",
        "M = 2048, N = 4096", "M = 8, N = 100",
        inputs='x = "float32 [M, N] normal"', outputs='y = "float32 [M, N]"', bytes="8*M*N",
    ),
    _matmul("matmul_bf16", "bfloat16", 2048, "30 us", 0.02),
    _counted("read_0_1ms", "bytes", "CUDA", "0.1 ms", _READ.replace("{quads}", str(8 * _MEBI)).replace("{passes}", "2"),
             32 * _MEBI),
    _counted("fma_0_1ms", "flops", "CUDA", "0.1 ms", _FMA.replace("{steps}", "4700")),
    Work(
        "sort_4m", "bytes", "torch", "1 ms, many kernels",
        "import torch\n\n\ndef work(x):\n    return torch.sort(x)[0]\n",
        "import torch\n\n\ndef run(x):\n    return torch.sort(x.double())[0]\n", f"N = {4 * _MEBI}", "N = 1000",
        tolerance="float32 = 0", bytes="8*N",
    ),
    _matmul("matmul_fp32", "float32", 3072, "1 ms", 1e-4),
)  # fmt: skip
"""Ten kernels for A/A: 5 us to 1 ms, bound by launches, bytes and arithmetic."""

_SPARE = 1.1  # read_quads of the slowest rung reads a tenth more
SLOWED: tuple[Work, ...] = (
    _counted("wait_10us", "time", "CUDA", "10 us", _WAIT.replace("{ns}", "10000")),
    _counted("wait_50us", "time", "CUDA", "50 us", _WAIT.replace("{ns}", "50000")),
    _counted("wait_1ms", "time", "CUDA", "1 ms", _WAIT.replace("{ns}", "1000000")),
    _counted("fma_10us", "flops", "CUDA", "10 us", _FMA.replace("{steps}", "500")),
    _counted("fma_40us", "flops", "CUDA", "40 us", _FMA.replace("{steps}", "2000")),
    _counted("fma_0_2ms", "flops", "CUDA", "0.2 ms", _FMA.replace("{steps}", "10000")),
    _counted("fma_2ms", "flops", "CUDA", "2 ms", _FMA.replace("{steps}", "100000")),
    _counted("chain_triton", "flops", "Triton", "0.1 ms", _TRITON_CHAIN.replace("{steps}", "10000"), cpu="N = 4096"),
    _counted("read_64mb", "bytes", "CUDA", "30 us", _READ.replace("{quads}", str(4 * _MEBI)).replace("{passes}", "1"),
             round(16 * _MEBI * _SPARE)),
    _counted("read_128mb", "bytes", "CUDA", "50 us", _READ.replace("{quads}", str(8 * _MEBI)).replace("{passes}", "1"),
             round(32 * _MEBI * _SPARE)),
)  # fmt: skip
"""Ten kernels whose work is in proportion to a factor."""


def same_rungs(count: int) -> dict[str, str]:
    """A baseline and `count` rungs that all do the same."""
    text = "from work import work as run\n\n__all__ = ['run']\n"
    names = ["baseline", "optimized", *(f"optimized_{number:02}" for number in range(2, count + 1))]
    return dict.fromkeys(names, text)


def slower_rungs() -> dict[str, str]:
    """A baseline, and a rung for each factor of SLOWER."""
    text = "import work\n\n\ndef run(x):\n    return work.work(x, {factor})\n"
    factors = {"baseline": 1.0, **SLOWER}
    return {rung: text.format(factor=factor) for rung, factor in factors.items()}


def write(root: Path, work: Work, rungs: dict[str, str]) -> Target:
    """Write `root`/measured/NAME; the target as the catalogue loads it.

    Raises:
        ValueError: the catalogue refuses it.
    """
    chapter = root / CHAPTER
    folder = chapter / work.name
    folder.mkdir(parents=True, exist_ok=True)
    lesson = _LESSON.format(
        title=f"{work.name}: {work.language}, {work.about}", axes=work.axes, flops=work.flops, bytes=work.bytes,
        tolerance=work.tolerance, inputs=work.inputs, outputs=work.outputs,
        cpu=_CPU.format(axes=work.cpu) if work.cpu else "",
        fuzz=_AT_LEAST.format(least=work.least) if work.least else "",
    )  # fmt: skip
    files = {f"{name}.py": text for name, text in rungs.items()}
    files |= {"lesson.md": lesson, "reference.py": work.reference, "work.py": work.source}
    if work.language == "CUDA":
        files["work.cu"] = Path(__file__).with_name("kernels.cu").read_text(encoding="utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    target = catalog.load_target(folder, root=chapter, chapter=CHAPTER)
    if not isinstance(target, Target):
        raise ValueError("; ".join(str(problem) for problem in target))
    return target
